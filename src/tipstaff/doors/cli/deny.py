"""`tipstaff deny`: say no to one run that waits; it ends at once, with a signed refusal.

Example:
  tipstaff deny run_1a2b3c4d --reason "not on a Friday"
"""

import argparse

from tipstaff.doors.cli.answering import actor, add_who, waiting_run
from tipstaff.doors.cli.desk import add_run, opened
from tipstaff.doors.cli.output import emit_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    add_who(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, in your words; it is kept in the refusal")


def run(args: argparse.Namespace) -> int:
    """Deny it."""
    with opened() as plane:
        waiting = waiting_run(plane, args.run)
        reason = {"reason": args.reason} if args.reason else {}
        answer = plane.deny(waiting["runId"], {"actor": actor(args), **reason})
    if args.json:
        emit_json(answer)
    else:
        say(f"{answer['runId']} is denied, and will not run")
    return 0
