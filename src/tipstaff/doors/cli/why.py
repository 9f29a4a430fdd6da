"""`tipstaff why`: say why something was refused, or ended as it did, and what to do next.

With --request the request itself is printed as JSON, for `tipstaff policy explain`.

Example:
  tipstaff why last
  tipstaff why last --request | tipstaff policy explain policy.yaml -
"""

import argparse
import os
import shlex
from collections.abc import Iterator
from typing import Any, Final

from tipstaff.doors.cli.desk import add_run, find, opened
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.planes import chosen, legible, program
from tipstaff.doors.cli.wording import command_of, moment
from tipstaff.errors import NotFoundError
from tipstaff.home import Home, locate
from tipstaff.policy.shipped import NAMES

Json = dict[str, Any]
ENDINGS: Final = {
    "exited": ("the command ended by itself with exit code {exitCode}", "see what it printed: tipstaff log {id}"),
    "signalled": ("a signal ended the command ({exitCode})", "see what it printed: tipstaff log {id}"),
    "timed-out": ("its time was over", "allow more with --timeout, as far as the policy's limits go"),
    "out-of-memory": ("its memory was used up", "allow more with --memory, as far as the policy's limits go"),
    "disk-limit": ("it wrote more than it may", "allow more with --disk, as far as the policy's limits go"),
    "output-limit": ("it printed more than it may", "allow more with --kill-output, or leave that out"),
    "cancelled": ("it was stopped", "run it again if that was not meant"),
    "refused": ("it was refused before it ran", "see: tipstaff show {id}"),
    "setup-failed": ("the sandbox could not be built as the contract demands", "see what is missing: tipstaff doctor"),
    "lost": ("the process that ran it ended before it could sign a receipt", "run it again"),
}
STATES: Final = {
    "awaiting_approval": ("it waits for people to approve it", "see: tipstaff approvals"),
    "created": ("it waits for a runner", "wait, or see: tipstaff show {id}"),
    "cancelled": ("it was stopped before it ran", "run it again if that was not meant"),
}
REFUSED: Final = {
    "consent_timeout": ("nobody approved it in time", "ask again, and let it wait longer with --approval-timeout"),
    "policy_denied": ("an approver said no", "ask them; nothing was run"),
    "secret_release_denied": ("a secret that it needs is not there", "ask without it, or provide it"),
}
BEFORE_IT_RAN: Final = ("it ended before it ran", "see: tipstaff show {id}")
ABSENT: Final = (
    "the program was not found inside the sandbox (exit code 127)",
    "is it below /usr, or in a folder that --workspace or --read names? see: tipstaff log {id}",
)
RUNNING: Final = ("it is still running", "wait, or see: tipstaff show {id}")

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument("--request", action="store_true", help="print only the request, as JSON")


def run(args: argparse.Namespace) -> int:
    """Say why."""
    with opened(args) as plane:
        told = plane.why(find(plane, args.run))
    if args.request:
        if not told["request"]:
            raise NotFoundError(f"the request of {told['id']} is not kept any more")
        emit_json(told["request"])
    elif args.json:
        emit_json(told)
    else:
        policy = "POLICY" if chosen(args) else policy_file(told["policy"], locate(os.environ))
        with legible(args):
            lines = list(_denied(told, policy, program(args)) if told.get("decision") == "deny" else _ended(told))
        for line in lines:
            say(line)
    return 0


def _denied(told: Json, policy: str, program: str) -> Iterator[str]:
    yield f"{told['id']}: the policy `{told['policy']}` denied it at {moment(told['createdAt'])} UTC; nothing was run"
    yield f"  {command_of(told.get('execution'))}"
    yield from (f"  {reason}" for reason in told["reasons"])
    yield "next: see the smallest change of the policy that would let it pass, if it should:"
    yield f"  {program} why {told['id']} --request | tipstaff policy explain {policy} -"


def policy_file(name: str, home: Home) -> str:
    """Say where the policy that decided is likely to be found; a person looks before they change it."""
    if os.environ.get("TIPSTAFF_POLICY"):
        return shlex.quote(os.environ["TIPSTAFF_POLICY"])
    if home.policy.exists():
        return shlex.quote(str(home.policy))
    return f"shipped:{name}" if name in NAMES else "POLICY"


def _ended(told: Json) -> Iterator[str]:
    because, advice = _cause(told)
    yield f"{told['id']}: {because.format(**told)}"
    yield f"  {command_of(told.get('execution'))}"
    if told.get("failureMessage"):
        yield f"  {told['failureMessage']}"
    if told.get("cancelledBy"):
        yield f"  by {told['cancelledBy']}"
    for reason in told.get("reasons", ()):
        yield f"  decided by the policy `{told['policy']}`: {reason}"
    for verdict in told.get("weak", ()) if told.get("ending") == "setup-failed" else ():
        yield f"  not fully enforced: {verdict['clause']} ({verdict['verdict']}: {verdict['by']})"
    yield f"next: {advice.format(**told)}"


def _cause(told: Json) -> tuple[str, str]:
    match told.get("ending"), told.get("exitCode"):
        case "exited", 0:
            return "it ended well", "nothing is to be done; see: tipstaff show {id}"
        case "exited", 127:
            return ABSENT
        case str(ending), _:
            return ENDINGS[ending]
    if told["status"] == "failed":
        return REFUSED.get(told.get("failure", ""), BEFORE_IT_RAN)
    return STATES.get(told["status"], RUNNING)
