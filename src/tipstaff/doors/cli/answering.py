"""What `approve` and `deny` share: what waits for an answer, who answers, and a yes that was typed on purpose."""

import argparse
import sys
import termios
from typing import Any, NamedTuple

from tipstaff.doors.asking import actor_of
from tipstaff.doors.cli.desk import Desk, find
from tipstaff.doors.cli.output import complain
from tipstaff.doors.cli.planes import chosen
from tipstaff.doors.person import user_name
from tipstaff.errors import NotFoundError, UsageError

Json = dict[str, Any]
YES = ("y", "yes")


def add_who(parser: argparse.ArgumentParser) -> None:
    """Declare who answers."""
    parser.add_argument("--as", dest="who", metavar="WHO", help="the approver (default: your user name)")
    parser.add_argument(
        "--host", metavar="HOST:PORT", help="only this place of those that a run at work asks to reach (default: all)"
    )


def actor(args: argparse.Namespace) -> Json:
    """Say who answers."""
    return actor_of(user_name() if args.who is None else args.who)


def is_known_by_token(args: argparse.Namespace) -> bool:
    """Say whether a plane elsewhere takes the holder of the token for who answers: no key was named to sign with."""
    return chosen(args) is not None and getattr(args, "key", None) is None and args.who is None


class Asking(NamedTuple):
    """What one run waits for: to be let run, or else, at work, to be let reach places."""

    run: Json | None
    questions: list[Json]


def asking_run(plane: Desk, word: str, place: str | None) -> Asking:
    """Find the run that waits for an answer, or its questions about a place; with `last`, the newest that waits."""
    waiting, questions = plane.waiting(), plane.questions()
    newest = max([*waiting, *questions], key=lambda one: str(one["contract"]["issuedAt"]), default=None)
    name = newest["runId"] if word == "last" and newest is not None else find(plane, word)
    run = next((one for one in waiting if one["runId"] == name and place is None), None)
    asked = [one for one in questions if one["runId"] == name and _is_about(one, place)]
    if run is None and not asked:
        what = "approval" if place is None else f"an answer about {place}"
        raise NotFoundError(f"{name} does not wait for {what}", hint="see: tipstaff approvals")
    return Asking(run, asked)


def _is_about(question: Json, place: str | None) -> bool:
    return place is None or place.lower() in (question["place"], question["host"])


def confirmed(question: str) -> bool:
    """Ask on the terminal; what was typed before the question does not count."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", hint="look at it with: tipstaff approvals, then use --yes")
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # what was typed before the question is no answer to it
    complain(question)
    return sys.stdin.readline().strip().lower() in YES
