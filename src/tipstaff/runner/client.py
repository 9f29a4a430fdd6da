"""How a runner speaks with its plane: claim, events, renew, ask, complete, always as JSON bytes.

`PlaneClient` is the protocol; `InProcess` hands the bytes to a plane in the same process: at once, because a thread
costs more than most answers; on a thread where the plane is busy, its disk is slow or the body is long, so that nothing
holds up what a sandbox prints. Holds no database.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tipstaff.errors import PlaneError

Json = dict[str, Any]
KNOWS: Final = ["release", "renew"]
OK: Final = 200
BUSY: Final = 503
LONG_BYTES: Final = 64 * 1024  # a longer body takes longer to read than a thread takes to start
SLOW_SECONDS: Final = 0.02


class Call(Protocol):
    """A plane's answer: a path and a body → a status and a body. Without `wait`, 503 where it is busy."""

    def __call__(self, path: str, body: bytes, /, *, wait: bool = True) -> tuple[int, bytes]:
        """Answer one request."""


class Claim(NamedTuple):
    """A run that this runner holds."""

    run_id: str
    contract: Json
    token: str
    attempt: int
    events: list[Json]
    secrets: dict[str, str]
    lease_ms: int


class PlaneClient(Protocol):
    """A runner's way to its plane. `cancel` in an answer is who wants the run stopped, or None."""

    async def claim(self, tiers: Sequence[str] | None = None) -> Claim | None:
        """Ask for a run; `tiers` are those that this host can enforce."""

    async def append(self, claim: Claim, events: Sequence[Json], *, release: bool = False) -> Json | None:
        """Send events; with `release`, be sure that they survive before the command is let run."""

    async def renew(self, claim: Claim) -> tuple[Claim, Json | None]:
        """Prolong the lease; the claim before it is void."""

    async def ask(self, claim: Claim, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer: `waiting`, `yes` with its approval, or `no`."""

    async def complete(self, claim: Claim, receipt: Json, events: Sequence[Json] = ()) -> Json:
        """Send the receipt, with the events that were not sent before; gives it countersigned."""


class InProcess:
    """A plane in the same process."""

    def __init__(self, call: Call, runner_token: str, pool: str, turn: asyncio.Lock | None = None) -> None:
        self._call = call
        self._turn = turn or asyncio.Lock()  # one at a time: threads that wait for each other would only add to it
        self._runner_token = runner_token
        self._pool = pool
        self._last_seconds = 0.0

    async def claim(self, tiers: Sequence[str] | None = None) -> Claim | None:
        """Ask for a run."""
        body = {"runnerToken": self._runner_token, "pool": self._pool, "knows": KNOWS}
        reply = await self._post("/v1/claims", body if tiers is None else {**body, "tiers": list(tiers)})
        if reply.get("empty"):
            return None
        return Claim(
            run_id=reply["runId"],
            contract=reply["contract"],
            token=reply["claimToken"],
            attempt=reply["attempt"],
            events=reply["events"],
            secrets={secret["name"]: secret["value"] for secret in reply["secrets"]},
            lease_ms=reply["leaseMs"],
        )

    async def append(self, claim: Claim, events: Sequence[Json], *, release: bool = False) -> Json | None:
        """Send events."""
        reply = await self._step(claim, "events", {"events": list(events), "release": release})
        return reply.get("cancel")

    async def renew(self, claim: Claim) -> tuple[Claim, Json | None]:
        """Prolong the lease."""
        reply = await self._step(claim, "renew", {})
        return claim._replace(token=reply["claimToken"], lease_ms=reply["leaseMs"]), reply.get("cancel")

    async def ask(self, claim: Claim, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer."""
        return await self._step(claim, "ask", {**question, "giveUp": give_up})

    async def complete(self, claim: Claim, receipt: Json, events: Sequence[Json] = ()) -> Json:
        """Send the receipt."""
        reply = await self._step(claim, "complete", {"receipt": receipt, "events": list(events)})
        countersigned: Json = reply["receipt"]
        return countersigned

    async def _step(self, claim: Claim, step: str, body: Json) -> Json:
        return await self._post(f"/v1/runs/{claim.run_id}/{step}", {"claimToken": claim.token, **body})

    async def _post(self, path: str, body: Json) -> Json:
        encoded = msgspec.json.encode(body)
        async with self._turn:
            at_once = len(encoded) <= LONG_BYTES and self._last_seconds < SLOW_SECONDS
            status, data = self._timed(path, encoded, wait=False) if at_once else (BUSY, b"")
            if status == BUSY:  # nothing was changed, so the same can be asked again
                status, data = await asyncio.to_thread(self._timed, path, encoded, wait=True)
        reply: Json = msgspec.json.decode(data)
        if status != OK:
            raise PlaneError(
                reply["error"], status=status, code=reply.get("code", ""), reasons=tuple(reply.get("reasons", ()))
            )
        return reply

    def _timed(self, path: str, body: bytes, *, wait: bool) -> tuple[int, bytes]:
        """Ask, and remember how long it took: a disk that has just been slow is not waited for on the loop."""
        started = time.monotonic()
        try:
            return self._call(path, body, wait=wait)
        finally:
            self._last_seconds = time.monotonic() - started
