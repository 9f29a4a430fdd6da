"""`tipstaff approve`: say yes to one run that waits, or to the places that a run at work asks to reach.

The yes is signed, and holds for exactly this contract, or for exactly this place in it. Shows what is approved and
asks, unless --yes is given. Signs with your own key (`tipstaff keys new`, or a key of the ssh-agent that this home
knows as yours); without one, the approval says only that somebody with this user id agreed. A plane elsewhere knows you
by your token, and takes your word; with --key or --as you sign for it as well, under the name that it knows you by.

Example:
  tipstaff approve run_1a2b3c4d
  tipstaff approve run_1a2b3c4d --host api.example.com:443
  tipstaff approve run_1a2b3c4d --as boris@example.com --key boris --yes
"""

import argparse
import getpass
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tipstaff.doors.asking import actor_of
from tipstaff.doors.cli.answering import actor, add_who, asking_run, confirmed, is_known_by_token
from tipstaff.doors.cli.approvals import described, described_question
from tipstaff.doors.cli.consent import consent_by, consent_to_place, signer_of
from tipstaff.doors.cli.desk import Desk, add_run, opened
from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.planes import chosen, legible
from tipstaff.errors import UsageError
from tipstaff.keys import Signer
from tipstaff.model.noun import Actor

Json = dict[str, Any]

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    add_who(parser)
    parser.add_argument("--key", metavar="NAME", help="the key in this home to sign with (default: the one named WHO)")
    parser.add_argument("--yes", action="store_true", help="do not ask: you have looked at it")


def run(args: argparse.Namespace) -> int:
    """Approve it, or leave it waiting."""
    with opened(args) as plane:
        asking = asking_run(plane, args.run, args.host)
        who = answerer(args)
        if asking.run is None:
            return _answer_questions(plane, asking.questions, who, args)
        if not args.yes and not _agreed(args, described(asking.run), who):
            complain("tipstaff: not approved; it goes on waiting")
            return 1
        answer = consent_by(plane, asking.run, who, signer_for(args, who))
    if args.json:
        emit_json(answer)
    else:
        _tell(answer)
    return 0


def answerer(args: argparse.Namespace) -> Actor:
    """Say who answers; for a plane elsewhere that knows them by their token, in words."""
    if is_known_by_token(args):
        return Actor(kind="human", id="the holder of the token")
    named = args.key if chosen(args) and args.who is None else None
    return msgspec.convert(actor(args) if named is None else actor_of(named), Actor)


def signer_for(args: argparse.Namespace, who: Actor) -> Signer | None:
    """Find the key to sign with; None where the plane vouches, or knows who it is by the token."""
    if is_known_by_token(args):
        return None
    signer = signer_of(who, args.key, getpass.getpass)
    if signer is None and chosen(args):
        raise UsageError(
            f"there is no key of {who.id} here to sign with", hint="leave --as out: the plane knows you by your token"
        )
    return signer


def _answer_questions(plane: Desk, questions: list[Json], who: Actor, args: argparse.Namespace) -> int:
    agreed = [one for one in questions if args.yes or _agreed(args, described_question(one), who)]
    signer = signer_for(args, who) if agreed else None
    answers = [consent_to_place(plane, one, who, signer) for one in agreed]
    if args.json:
        emit_json({"runId": questions[0]["runId"], "answers": answers})
    else:
        for one in agreed:
            say(f"{one['runId']} may reach {one['place']}")
    if len(agreed) < len(questions):
        complain("tipstaff: not approved; it goes on waiting")
    return 0 if len(agreed) == len(questions) else 1


def _agreed(args: argparse.Namespace, shown: Iterator[str], who: Actor) -> bool:
    with legible(args):  # all of it, or nobody is asked
        lines = list(shown)
    for line in lines:
        complain(line)
    return confirmed(f"Approve as {who.id}? y or n, then Enter: (n)")


def _tell(answer: Json) -> None:
    if not answer["missing"]:
        say(f"{answer['runId']} is approved")
        return
    say(f"{answer['runId']} has your approval, and waits for more:")
    for missing in answer["missing"]:
        say(f"  {missing}")
