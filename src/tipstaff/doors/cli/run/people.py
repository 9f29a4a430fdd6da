"""When policy asks first: the question on a terminal, or the word to whoever can answer elsewhere.

The question shows exactly what would run, with nothing in it that a terminal obeys or an eye misses. Only a typed yes
counts: what was typed before the question is thrown away. An answer is a signature over the contract's hash, so it
holds for this run and no other.
"""

import argparse
import asyncio
import os
import termios
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tipstaff.doors.cli.consent import consent, needs_passphrase, own_key
from tipstaff.doors.cli.run.options import approval_seconds
from tipstaff.doors.cli.run.report import mention
from tipstaff.doors.cli.run.streams import Inlet
from tipstaff.doors.cli.terms import terms
from tipstaff.doors.person import user_name
from tipstaff.errors import TipstaffError
from tipstaff.home import locate
from tipstaff.model.noun import Actor, to_wire

if TYPE_CHECKING:
    from tipstaff.local.embedded import Local
    from tipstaff.plane import Plane, Waiting

Json = dict[str, Any]
YES: Final = (b"y", b"yes")
LONGEST_ANSWER: Final = 4096


class People:
    """Called once, when a run has to wait."""

    def __init__(self, terminal: Inlet | None, cancel: asyncio.Event, args: argparse.Namespace) -> None:
        self._terminal = terminal
        self._cancel = cancel
        self._quiet = args.quiet
        self._seconds = approval_seconds(args)

    async def __call__(self, local: "Local", waiting: "Waiting") -> None:
        """Ask, and stop waiting when we are stopped."""
        stopping = asyncio.ensure_future(self._stop(local.plane, waiting))
        try:
            if self._terminal is None:
                self._tell(waiting)
            else:
                await self._ask(local.plane, waiting, self._terminal)
            await stopping
        finally:
            stopping.cancel()

    async def _stop(self, plane: "Plane", waiting: "Waiting") -> None:
        await self._cancel.wait()
        plane.cancel(waiting.run_id, {"actor": waiting.contract["requestedBy"]})

    def _tell(self, waiting: "Waiting") -> None:
        if not self._quiet:
            for line in _wanted(waiting):
                mention(f"tipstaff: {line}")
            mention(f"tipstaff: {waiting.run_id} waits {self._seconds:g} s for that: tipstaff approve {waiting.run_id}")

    async def _ask(self, plane: "Plane", waiting: "Waiting", terminal: Inlet) -> None:
        who = Actor(kind="human", id=user_name())
        for line in question(waiting):
            mention(line)
        mention(f"Approve as {who.id}? y or n, then Enter: (n)")
        if (await _answer(terminal)).strip().lower() not in YES:
            self._decline(plane, waiting, who)
            return
        try:
            await self._approve(plane, waiting, who, terminal)
        except TipstaffError as error:
            mention(f"tipstaff: your approval does not count: {error}")
            self._tell(waiting)

    async def _approve(self, plane: "Plane", waiting: "Waiting", who: Actor, terminal: Inlet) -> None:
        path = own_key(locate(os.environ), who.id, None)
        passphrase = ""
        if needs_passphrase(path):
            mention(f"Passphrase for {path.name if path else ''}:")
            passphrase = (await _answer(terminal, hidden=True)).rstrip(b"\r\n").decode(errors="replace")
        answer = consent(plane, _asking(waiting), who, None, lambda _: passphrase)
        for missing in answer["missing"]:
            mention(f"tipstaff: more is needed: {missing}")
        if answer["missing"]:
            self._tell(waiting)

    def _decline(self, plane: "Plane", waiting: "Waiting", who: Actor) -> None:
        try:
            plane.deny(waiting.run_id, {"actor": {"kind": who.kind, "id": who.id}})
        except TipstaffError:  # not an approver: but who asked may stop it
            self._cancel.set()


def _asking(waiting: "Waiting") -> Json:
    """Spell what was shown, as a plane lists what waits."""
    return {
        "runId": waiting.run_id,
        "contract": waiting.contract,
        "contractHash": waiting.contract_hash,
        "consentRequirements": [to_wire(one) for one in waiting.requirements],
    }


def question(waiting: "Waiting") -> Iterator[str]:
    """Write out what a person says yes to."""
    yield f"tipstaff: policy {waiting.decision.policy} asks before this runs ({waiting.run_id}):"
    yield from (f"  {line}" for line in terms(waiting.contract))
    yield from (f"  {line}" for line in _wanted(waiting))


def _wanted(waiting: "Waiting") -> Iterator[str]:
    """Say which rules ask, why, and who may approve."""
    for reason in waiting.decision.reasons:
        if reason.effect == "ask":
            yield f"rule {reason.rule} asks: {reason.message}"
    for one in waiting.requirements:
        apart = ", not by who asked" if one.separate else ""
        yield f"rule {one.rule}: {one.quorum} of {', '.join(one.approvers)} must approve{apart}"


async def _answer(terminal: Inlet, *, hidden: bool = False) -> bytes:
    """Read one line that was typed after the question; unseen, when `hidden`."""
    descriptor = terminal.descriptor
    before = termios.tcgetattr(descriptor)
    now = list(before)
    if hidden:
        now[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, now)  # also throws away what was typed before
    try:
        return await terminal.read(LONGEST_ANSWER)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
