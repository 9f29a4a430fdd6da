"""What `approve` and `deny` share: the run that waits, who answers, and a yes that was typed on purpose."""

import argparse
import sys
import termios
from typing import Any

from tipstaff.doors.asking import actor_of
from tipstaff.doors.cli.desk import find
from tipstaff.doors.cli.output import complain
from tipstaff.doors.person import user_name
from tipstaff.errors import NotFoundError, UsageError
from tipstaff.plane import Plane

Json = dict[str, Any]
YES = ("y", "yes")


def add_who(parser: argparse.ArgumentParser) -> None:
    """Declare who answers."""
    parser.add_argument("--as", dest="who", metavar="WHO", help="the approver (default: your user name)")


def actor(args: argparse.Namespace) -> Json:
    """Say who answers."""
    return actor_of(user_name() if args.who is None else args.who)


def waiting_run(plane: Plane, word: str) -> Json:
    """Find the run that waits for an answer; with `last`, the newest that does."""
    waiting = plane.waiting()
    if word == "last" and waiting:
        return waiting[-1]
    name = find(plane, word)
    found = next((one for one in waiting if one["runId"] == name), None)
    if found is None:
        raise NotFoundError(f"{name} does not wait for approval", hint="see: tipstaff approvals")
    return found


def confirmed(question: str) -> bool:
    """Ask on the terminal; what was typed before the question does not count."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", hint="look at it with: tipstaff approvals, then use --yes")
    complain(question)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    return sys.stdin.readline().strip().lower() in YES
