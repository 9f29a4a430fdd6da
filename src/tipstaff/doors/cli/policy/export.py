"""`tipstaff policy export`: this policy as `warrant.policy.v1`, for planes that read that format.

The JSON goes to stdout. What that format cannot say is listed on stderr, and nothing is printed, because the export
would permit something else than the policy; `--lossy` prints it all the same. Exit code 0: printed. 1: not.

Example:
  tipstaff policy export policy.yaml > warrant.policy.json
"""

import argparse
import json

from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.policy.documents import POLICY_HELP, policy_text
from tipstaff.policy.load import parse_policy
from tipstaff.policy.warrant import exported


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help=POLICY_HELP)
    parser.add_argument("--lossy", action="store_true", help="print it even though it does not say everything")


def run(args: argparse.Namespace) -> int:
    """Export the policy and tell what is lost."""
    value, lost = exported(parse_policy(*policy_text(args.file)))
    refused = bool(lost) and not args.lossy
    for sentence in lost:
        complain(f"tipstaff: lost: {sentence}")
    if refused:
        complain("tipstaff: nothing was exported; --lossy exports what can be said")
    if args.json:
        emit_json({"policy": None if refused else value, "lost": list(lost)})
    elif not refused:
        say(json.dumps(value, indent=2), newlines=True)
    return int(refused)
