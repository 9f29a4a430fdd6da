"""What one run asks people while it is at work: may this place be reached? Asked of the plane, which knows the people.

The plane is asked again and again until there is an answer, the time for answers is over, or the run has ended; then
the question is given up, so that nobody answers what nobody waits for. Without a yes that carries its approval, it is
no. A host that holds a secret is not asked for: the question would tell it. Approvals are kept for the chain.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tipstaff.errors import PlaneError
from tipstaff.session.held import Held

if TYPE_CHECKING:
    from tipstaff.model.network import EgressRule

Json = dict[str, Any]
Told = Callable[[str], None]
LOOK_SECONDS: Final = 0.25
UNAVAILABLE: Final = 503  # the plane cannot answer now


class AskPlane(Protocol):
    """One question to the plane: its answer so far; with `give_up`, its last one."""

    def __call__(self, question: Json, /, *, give_up: bool = False) -> Awaitable[Json]:
        """Ask."""


class Patience(NamedTuple):
    """How long people are waited for, and how often the plane is asked whether they have answered."""

    seconds: float
    look_seconds: float = LOOK_SECONDS


class Questions:
    """The questions of one session. `told` hears of each that somebody must answer, once."""

    def __init__(self, ask: AskPlane, held: Held, patience: Patience, told: Told | None) -> None:
        self._ask = ask
        self._held = held
        self._patience = patience
        self._told = told
        self._approvals: dict[tuple[str, int, str], Json] = {}

    async def ask(self, host: str, port: int, rule: "EgressRule") -> bool:
        """Say whether a place may be reached, once somebody has said so; RefusalError says why not."""
        from tipstaff.egress.advice import spell_place  # noqa: PLC0415 - who asks has a gate already
        from tipstaff.egress.refusal import RefusalError  # noqa: PLC0415 - as above

        place, name = spell_place(host, port), rule.rule or rule.host
        if self._held.redacted("events", host) != host:
            raise RefusalError("a host that holds a secret is not asked for")
        try:
            answer = await self._answer({"host": host, "port": port, "rule": name}, f"{place} (rule {name})")
        except PlaneError as error:
            raise RefusalError(f"{place} must be asked for, and the plane refuses that: {error.message}") from error
        if answer.get("answer") != "yes" or type(answer.get("approval")) is not dict:
            raise RefusalError(f"{place} was asked for, and not approved: {answer.get('reason') or 'nobody answered'}")
        self._approvals[host, port, name] = answer["approval"]
        return True

    def approval(self, host: str, port: int, rule: str) -> Json | None:
        """Give the approval by which a place was reached, if one was needed."""
        return self._approvals.get((host, port, rule))

    async def _answer(self, question: Json, shown: str) -> Json:
        loop, look = asyncio.get_running_loop(), self._patience.look_seconds
        end = loop.time() + self._patience.seconds
        answer = await self._look(question)
        if answer.get("answer") == "waiting" and self._told is not None:
            self._told(shown)
        while answer.get("answer") == "waiting" and (left := end - loop.time()) > 0:
            await asyncio.sleep(min(look, left))
            answer = await self._look(question)
        return await self._ask(question, give_up=True) if answer.get("answer") == "waiting" else answer

    async def _look(self, question: Json) -> Json:
        """Ask once; a plane that cannot answer now is asked again."""
        try:
            return await self._ask(question)
        except PlaneError as error:
            if error.status != UNAVAILABLE:
                raise
            return {"answer": "waiting"}
