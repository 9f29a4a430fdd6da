"""`tipstaff policy diff`: say how the second policy differs from the first.

Each difference is in words and marked: `wider` permits more, `narrower` permits less, `different` may do either.
Exit code 0: they say the same, whatever their layout and order. 1: they differ. 65: one of them is not a policy.

Example:
  tipstaff policy diff old.yaml new.yaml
  tipstaff policy diff shipped:local policy.yaml
"""

import argparse

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.policy.documents import POLICY_HELP, policy_text
from tipstaff.policy.changes import changes
from tipstaff.policy.load import parse_policy


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", help=POLICY_HELP)
    parser.add_argument("after", metavar="B", help="another one")


def run(args: argparse.Namespace) -> int:
    """Compare the two and tell."""
    before, after = parse_policy(*policy_text(args.before)), parse_policy(*policy_text(args.after))
    found = changes(before, after)
    if args.json:
        emit_json({"same": not found, "changes": [change._asdict() for change in found]})
        return int(bool(found))
    for change in found:
        say(f"{change.direction + ':':<10} {change.where}: {change.message}")
    if not found:
        say(f"{args.before} and {args.after} say the same")
    return int(bool(found))
