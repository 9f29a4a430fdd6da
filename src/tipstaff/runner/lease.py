"""The claim of one run, renewed while the run goes on; its line to the plane.

A lease is renewed at a third of it. The answer may say that somebody wants the run stopped, or that it is somebody
else's by now. One step at a time: a renewal makes the token before it void.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from tipstaff.errors import PlaneError
from tipstaff.runner.client import Claim, PlaneClient
from tipstaff.session import Outside, Session

Json = dict[str, Any]
RENEWALS: Final = 3  # in one lease
STALE: Final = "claim_stale"
GONE: Final = frozenset({STALE, "not_claimed", "completed"})  # the plane's words for: not yours any more
NOT_OURS: Final = "the run is not this runner's any more"


class Lease:
    """The claim of one run on a plane in the same process."""

    def __init__(self, client: PlaneClient, claim: Claim) -> None:
        self._client = client
        self.claim = claim
        self._turn = asyncio.Lock()

    async def release(self, events: Sequence[Json]) -> Json | None:
        """Send the events that must be durable before the command is let go."""
        async with self._turn:
            return await self._client.append(self.claim, events, release=True)

    async def tell(self, events: Sequence[Json]) -> None:
        """Send events."""
        async with self._turn:
            await self._client.append(self.claim, events)

    async def ask(self, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer."""
        async with self._turn:
            return await self._client.ask(self.claim, question, give_up=give_up)

    async def deliver(self, contents: Sequence[str]) -> str:
        """Do nothing: a plane in the same process has every content already."""
        del contents
        return ""

    @asynccontextmanager
    async def kept(self, session: Session, outside: Outside) -> AsyncIterator[None]:
        """Renew the lease in the meantime, and stop the run when its reply says so."""
        renewing = asyncio.create_task(self._renew(session, outside))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def _renew(self, session: Session, outside: Outside) -> None:
        while True:
            await asyncio.sleep(self.claim.lease_ms / 1000 / RENEWALS)
            try:
                async with self._turn:
                    self.claim, canceller = await asyncio.shield(self._client.renew(self.claim))
            except PlaneError as error:
                if error.code in GONE:
                    session.given_up(NOT_OURS)
                    outside.cancel.set()  # the run is somebody else's now: ours must not go on
                    return
                continue
            if canceller is not None:
                session.cancelled_by(canceller)
                outside.cancel.set()
