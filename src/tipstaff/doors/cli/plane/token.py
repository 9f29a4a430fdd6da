"""`tipstaff plane token`: let somebody in, give them another token, or show them out.

The token is alone on stdout, is shown this once, and is kept only as a digest. A name belongs to one principal for
ever, because contracts and approvals name it.

Example:
  tipstaff plane token alice --role requester
  tipstaff plane token alice --rotate
"""

import argparse
from typing import Final

from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.plane.place import add_home, opened

ROLES: Final = ("admin", "requester", "approver", "enroller", "auditor")
KINDS: Final = ("human", "service")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="who it is, in contracts and approvals")
    parser.add_argument("--role", choices=ROLES, default="requester", help="what they may do (requester)")
    parser.add_argument("--kind", choices=KINDS, default="human", help="what they are (human)")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--rotate", action="store_true", help="give them another token; the one before is void")
    change.add_argument("--revoke", action="store_true", help="take their token away for good")
    add_home(parser)


def run(args: argparse.Namespace) -> int:
    """Make, replace or revoke a token."""
    with opened(args) as plane:
        people = plane.people
        if args.revoke:
            told = people.revoke(args.name)
        else:
            told = people.rotate(args.name) if args.rotate else people.issue(args.name, args.role, args.kind)
    if args.json:
        emit_json(told)
    elif args.revoke:
        complain(f"tipstaff: {args.name} may not ask any more")
    else:
        say(told["token"])
    return 0
