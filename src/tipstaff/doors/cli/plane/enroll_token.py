"""`tipstaff plane enroll-token`: make a token that one runner can enrol with, once.

The token is alone on stdout. Give it to the runner by $TIPSTAFF_ENROLL_TOKEN, not on a command line.

Example:
  tipstaff plane enroll-token --pool default --expires 1h
"""

import argparse

from tipstaff.doors.amounts import duration_ms
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.plane.place import add_home, opened


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--pool", metavar="P", help="the only pool that it is good for (any)")
    parser.add_argument("--expires", default="1h", metavar="TIME", help="how long it is good: 30m, 1h, 7d (1h)")
    add_home(parser)


def run(args: argparse.Namespace) -> int:
    """Make the token."""
    seconds = max(1, duration_ms(args.expires, "--expires") // 1000)
    with opened(args) as plane:
        told = plane.people.enroll_token(args.pool, seconds)
    if args.json:
        emit_json(told)
    else:
        say(told["token"])
    return 0
