"""`tipstaff deny`: say no to one run that waits, or to the places that a run at work asks to reach.

A run that waits ends at once, with a signed refusal. One at work goes on, and the connection is refused.

Example:
  tipstaff deny run_1a2b3c4d --reason "not on a Friday"
  tipstaff deny run_1a2b3c4d --host api.example.com:443
"""

import argparse
from typing import Any, Final

from tipstaff.doors.cli.answering import actor, add_who, asking_run
from tipstaff.doors.cli.consent import place_of, shown_hash
from tipstaff.doors.cli.desk import add_run, opened
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.planes import chosen
from tipstaff.errors import UsageError

Json = dict[str, Any]

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    add_who(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, in your words; it is kept in the refusal")


def run(args: argparse.Namespace) -> int:
    """Deny it."""
    with opened(args) as plane:
        asking = asking_run(plane, args.run, args.host)
        said: Json = {**_who(args), **({"reason": args.reason} if args.reason else {})}
        if asking.run is not None:
            answer = plane.deny(asking.run["runId"], {**said, "contractHash": shown_hash(asking.run)})
        else:
            run_id = asking.questions[0]["runId"]
            bodies = [
                {**said, "answer": "no", "question": place_of(one), "contractHash": shown_hash(one)}
                for one in asking.questions
            ]
            answer = {"runId": run_id, "answers": [plane.answer(run_id, body) for body in bodies]}
    if args.json:
        emit_json(answer)
    elif asking.run is not None:
        say(f"{answer['runId']} is denied, and will not run")
    else:
        for one in asking.questions:
            say(f"{answer['runId']} may not reach {one['place']}")
    return 0


def _who(args: argparse.Namespace) -> Json:
    """Say who denies it; a plane elsewhere knows that by the token."""
    if not chosen(args):
        return {"actor": actor(args)}
    if args.who is not None:
        raise UsageError("--as: the plane knows by the token who you are", hint="leave --as out")
    return {}
