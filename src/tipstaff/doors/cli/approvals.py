"""`tipstaff approvals`: list the runs that wait for people, with exactly what each would do and how to answer.

Example:
  tipstaff approvals
"""

import argparse
from collections.abc import Iterator
from typing import Any

from tipstaff.doors.cli.desk import opened
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.terms import terms
from tipstaff.doors.cli.wording import moment

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none beside the frame's."""
    del parser


def run(args: argparse.Namespace) -> int:
    """List them."""
    with opened() as plane:
        waiting = plane.waiting()
    if args.json:
        emit_json({"waiting": waiting})
        return 0
    for one in waiting:
        for line in described(one):
            say(line)
        say(f"  to answer: tipstaff approve {one['runId']}   or: tipstaff deny {one['runId']}")
    if not waiting:
        say("nothing waits for approval")
    return 0


def described(waiting: Json) -> Iterator[str]:
    """Write out one run that waits: nothing that is approved is left out."""
    yield f"{waiting['runId']} waits until {moment(waiting['until'])} UTC:"
    yield from (f"  {line}" for line in terms(waiting["contract"]))
    for one in waiting["consentRequirements"]:
        apart = ", not by who asked" if one["separate"] else ""
        sure = f", assurance at least {one['assurance']}"
        yield f"  rule {one['rule']}: {one['quorum']} of {', '.join(one['approvers'])} must approve{apart}{sure}"
