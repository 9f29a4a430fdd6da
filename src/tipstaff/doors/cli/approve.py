"""`tipstaff approve`: say yes to one run that waits; the yes is signed, and holds for exactly this contract.

Shows what is approved and asks, unless --yes is given. Signs with your own key (`tipstaff keys new`, or a key of the
ssh-agent that this home knows as yours); without one, the approval says only that somebody with this user id agreed.

Example:
  tipstaff approve run_1a2b3c4d
  tipstaff approve run_1a2b3c4d --as boris@example.com --key boris --yes
"""

import argparse
import getpass
from typing import Any

import msgspec

from tipstaff.doors.cli.answering import actor, add_who, confirmed, waiting_run
from tipstaff.doors.cli.approvals import described
from tipstaff.doors.cli.consent import consent
from tipstaff.doors.cli.desk import add_run, opened
from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.model.noun import Actor

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    add_who(parser)
    parser.add_argument("--key", metavar="NAME", help="the key in this home to sign with (default: the one named WHO)")
    parser.add_argument("--yes", action="store_true", help="do not ask: you have looked at it")


def run(args: argparse.Namespace) -> int:
    """Approve it, or leave it waiting."""
    with opened() as plane:
        waiting = waiting_run(plane, args.run)
        who = msgspec.convert(actor(args), Actor)
        if not args.yes and not _agreed(waiting, who):
            complain("tipstaff: not approved; it goes on waiting")
            return 1
        answer = consent(plane, waiting["runId"], who, args.key, getpass.getpass)
    if args.json:
        emit_json(answer)
    else:
        _tell(answer)
    return 0


def _agreed(waiting: Json, who: Actor) -> bool:
    for line in described(waiting):
        complain(line)
    return confirmed(f"Approve as {who.id}? y or n, then Enter: (n)")


def _tell(answer: Json) -> None:
    if not answer["missing"]:
        say(f"{answer['runId']} is approved")
        return
    say(f"{answer['runId']} has your approval, and waits for more:")
    for missing in answer["missing"]:
        say(f"  {missing}")
