"""`tipstaff cancel`: stop a run that waits, or that is at work.

One that no runner has yet ends at once, with a signed refusal. One at work is stopped when its runner next speaks to
its plane, which is within a third of its lease; its receipt says who stopped it.

Example:
  tipstaff cancel run_1a2b3c4d
  tipstaff --plane https://plane.example.com cancel last
"""

import argparse
from typing import Any, Final

from tipstaff.doors.asking import actor_of
from tipstaff.doors.cli.bringing import run_of
from tipstaff.doors.cli.desk import add_run, opened
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.planes import chosen, program
from tipstaff.doors.person import user_name
from tipstaff.errors import UsageError

Json = dict[str, Any]
ENDED: Final = ("completed", "failed", "cancelled")
REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument("--as", dest="who", metavar="WHO", help="who stops it (default: your user name)")


def run(args: argparse.Namespace) -> int:
    """Stop it."""
    with opened(args) as plane:
        run_id = run_of(plane, args.run)
        if plane.status(run_id) in ENDED:
            raise UsageError(f"{run_id} has ended already", hint=f"see: tipstaff show {run_id}")
        answer = plane.cancel(run_id, _body(args))
    if args.json:
        emit_json(answer)
    elif answer["status"] in ENDED:
        say(f"{run_id} is cancelled, and will not run")
    else:
        say(f"{run_id} is at work: its runner stops it when it next speaks to its plane, within a third of its lease")
        say(f"  see: {program(args)} show {run_id}")
    return 0


def _body(args: argparse.Namespace) -> Json:
    if chosen(args):
        if args.who is not None:
            raise UsageError("--as: the plane knows by the token who you are", hint="leave --as out")
        return {}
    return {"actor": actor_of(user_name() if args.who is None else args.who)}
