"""Questions to the approver, for rules that say `ask`: one for each place in a run, however many connections wait.

The answer holds for the rest of the run. How many questions one run may put is bounded: a sandbox must not be able to
tire an approver out. No answer, or a broken one, is no.
"""

import asyncio
from typing import Final

from tipstaff.egress.advice import spell_place
from tipstaff.egress.dial import Place
from tipstaff.egress.options import Ask
from tipstaff.egress.refusal import RefusalError

MOST_QUESTIONS: Final = 32


class Asking:
    """Remembers what was asked, and what the answer was."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._answers: dict[Place, asyncio.Task[bool]] = {}

    async def check(self, place: Place) -> None:
        """Wait for the answer where the place's rule wants one; RefusalError unless it is yes."""
        if place.rule is None or not place.rule.ask:
            return
        if await asyncio.shield(self._answer(place)) is not True:
            raise RefusalError(f"{spell_place(place.host, place.port)} was asked for, and not approved")

    def close(self) -> None:
        """Stop waiting for answers."""
        for answer in self._answers.values():
            answer.cancel()

    def _answer(self, place: Place) -> "asyncio.Task[bool]":
        if place in self._answers:
            return self._answers[place]
        if self._ask is None or place.rule is None:
            raise RefusalError(f"{spell_place(place.host, place.port)} must be asked for, and nobody can be asked")
        if len(self._answers) >= MOST_QUESTIONS:
            raise RefusalError(f"this run has already asked for {MOST_QUESTIONS} places")
        self._answers[place] = asyncio.ensure_future(self._ask(place.host, place.port, place.rule))
        return self._answers[place]
