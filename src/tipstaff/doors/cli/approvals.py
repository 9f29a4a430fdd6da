"""`tipstaff approvals`: list what waits for people, with exactly what each run would do and how to answer.

That is a run that may not start without them, or one at work that asks to reach a place whose rule says `ask`.

Example:
  tipstaff approvals
"""

import argparse
from collections.abc import Iterator
from typing import Any, Final

from tipstaff.doors.cli.desk import opened
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.planes import legible, program
from tipstaff.doors.cli.terms import terms
from tipstaff.doors.cli.wording import moment

Json = dict[str, Any]

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none beside the frame's."""
    del parser


def run(args: argparse.Namespace) -> int:
    """List them."""
    with opened(args) as plane:
        waiting, questions = plane.waiting(), plane.questions()
    if args.json:
        emit_json({"waiting": waiting, "questions": questions})
        return 0
    with legible(args):
        lines = list(_lines(waiting, questions, program(args)))
    for line in lines or ["nothing waits for approval"]:
        say(line)
    return 0


def _lines(waiting: list[Json], questions: list[Json], name: str) -> Iterator[str]:
    for one in waiting:
        yield from described(one)
        yield f"  to answer: {name} approve {one['runId']}   or: {name} deny {one['runId']}"
    for one in questions:
        yield from described_question(one)
        answer = f"{one['runId']} --host {one['place']}"
        yield f"  to answer: {name} approve {answer}   or: {name} deny {answer}"


def described(waiting: Json) -> Iterator[str]:
    """Write out one run that waits: nothing that is approved is left out."""
    yield f"{waiting['runId']} waits until {moment(waiting['until'])} UTC:"
    yield from (f"  {line}" for line in terms(waiting["contract"]))
    yield from _approvers(waiting)


def described_question(question: Json) -> Iterator[str]:
    """Write out one place that a run at work asks to reach, and which run that is."""
    since = f"since {moment(question['askedAt'])} UTC"
    yield f"{question['runId']} wants to reach {question['place']} (rule {question['rule']}), {since}:"
    yield from (f"  {line}" for line in terms(question["contract"]))
    yield from _approvers(question)


def _approvers(asking: Json) -> Iterator[str]:
    for one in asking["consentRequirements"]:
        apart = ", not by who asked" if one["separate"] else ""
        sure = f", assurance at least {one['assurance']}"
        yield f"  rule {one['rule']}: {one['quorum']} of {', '.join(one['approvers'])} must approve{apart}{sure}"
