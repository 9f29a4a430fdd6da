"""The claim of one run on a plane elsewhere: everything is on our disk before it is sent, and the lease has an end.

By a clock that counts suspended hours too, the run's processes are killed a little before the lease ends, if no renewal
came through: then the plane may give the run to somebody else, and two must not do the same. Signed checkpoints of the
plane are collected for the receipt; a yes that it should have signed and did not is a no. A plane that speaks of no
lease has none; its runs go on to their own time limit.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from tipstaff.errors import PlaneError
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal
from tipstaff.runner.client import UnreachableError, canceller
from tipstaff.runner.contracts import Place
from tipstaff.runner.http import OverHttp
from tipstaff.runner.lease import GONE, NOT_OURS, RENEWALS, STALE
from tipstaff.runner.proofs import is_yes
from tipstaff.runner.spool import Entry
from tipstaff.runner.waiting import Backoff
from tipstaff.session import Outside, Session

if TYPE_CHECKING:
    from tipstaff.runner.blobs import RunBlobs

Json = dict[str, Any]
Answer = TypeVar("Answer")
VERSION_CHECKPOINT: Final = "tipstaff.checkpoint.v1"
MARGIN_SECONDS: Final = 5.0
HEARTBEAT_SECONDS: Final = 5.0
NO_LEASE_SECONDS: Final = 600.0  # how long a plane that speaks of no lease is tried, from the claim on
LOOK_SECONDS: Final = 0.5
LEAST_SECONDS: Final = 1.0
TRANSFER_SECONDS: Final = 300.0  # how long a plane is tried that lives, but does not take or give a content
AGAIN_SECONDS: Final = 2.0  # the longest wait before a step that the lease depends on is tried again
MOST_CHECKPOINTS: Final = 101
NOT_RENEWED: Final = "the lease could not be renewed"
UNSIGNED: Final[Json] = {"answer": "no", "reason": "the plane did not sign for the yes that came"}
NO_CLAIM: Final = frozenset({401, 409})  # statuses


def suspended_too() -> float:
    """Give the seconds since this machine started, those in which it slept with them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeldLease:
    """The claim of one run, renewed while the run goes on."""

    def __init__(self, client: OverHttp, entry: Entry, place: Place, chance: Callable[[], float]) -> None:
        self._client = client
        self._entry = entry
        self._place = place
        self._chance = chance
        self._turn = asyncio.Lock()
        self._ends_at = suspended_too() + (entry.claim.lease_ms / 1000 or NO_LEASE_SECONDS)
        self._session: Session | None = None
        self._outside: Outside | None = None
        self.blobs: RunBlobs | None = None
        self.delivered: set[str] = set()
        self.checkpoints: list[Json] = []

    # The session's line

    async def release(self, events: Sequence[Json]) -> Json | None:
        """Send the events that must be durable before the command is let go; until the lease ends, again and again."""
        self._entry.add(events)
        backoff = Backoff(self._chance, AGAIN_SECONDS)
        while True:
            try:
                return await self._send(events, release=True)
            except UnreachableError as error:
                if self.has_ended() or self._is_stopped():
                    raise
                await asyncio.sleep(backoff.next_seconds(error.retry_seconds))

    async def tell(self, events: Sequence[Json]) -> None:
        """Send events; those that do not arrive go with the receipt."""
        self._entry.add(events)
        self._heed(await self._send(events, release=False))

    async def ask(self, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer."""
        async with self._turn:
            answer = await self._soon(self._client.ask(self._entry.claim, question, give_up=give_up))
        is_asked_for = self._place.proves or "signed" in answer
        if answer.get("answer") != "yes" or not is_asked_for:
            return answer
        return answer if is_yes(answer, question, self._entry.claim.run_id, self._place.plane_key) else UNSIGNED

    async def deliver(self, contents: Sequence[str]) -> str:
        """Bring contents to the plane, but those that go with the receipt; says why one cannot be brought."""
        for digest in contents:
            if self.goes_along(digest) or digest in self.delivered:
                continue
            if problem := await self._deliver(digest):
                return problem
        return ""

    def goes_along(self, digest: str) -> bool:
        """Say whether a content is small enough to go with the receipt, to a plane that takes it so."""
        return self.blobs is not None and digest in self.blobs.small and "blobs" in self._client.offers

    async def log(self, said: Json) -> None:
        """Send some of what the command prints."""
        claim = self._entry.claim
        try:
            reply = await self._client.log(claim, said)
        except PlaneError:
            if self._entry.claim.token == claim.token:
                raise
            reply = await self._client.log(self._entry.claim, said)  # the lease was renewed under it
        self._heed(canceller(reply))

    async def fetch(self, wanted: str, into: BinaryIO) -> None:
        """Write a content that the contract names into a file."""
        backoff, until = Backoff(self._chance, AGAIN_SECONDS), suspended_too() + TRANSFER_SECONDS
        while True:
            token = self._entry.claim.token
            try:
                await self._client.fetch(token, wanted, into)
            except UnreachableError as error:
                if self.has_ended() or self._is_stopped() or suspended_too() >= until:
                    raise
                await asyncio.sleep(backoff.next_seconds(error.retry_seconds))
            except PlaneError as error:
                if error.status not in NO_CLAIM or self._entry.claim.token == token:
                    raise
            else:
                return

    async def _send(self, events: Sequence[Json], *, release: bool) -> Json | None:
        try:
            reply = await self._sent(events, release=release)
        except PlaneError as error:
            if error.code != STALE:
                raise
            await self._renewed()  # its answer may have been lost, with the newest token; the same question gives it
            reply = await self._sent(events, release=release)
        self._collect(reply.get("checkpoint"))
        return canceller(reply)

    async def _sent(self, events: Sequence[Json], *, release: bool) -> Json:
        async with self._turn:
            reply = await self._soon(self._client.send(self._entry.claim, events, release=release))
        if not self._client.offers:
            self._entry.arrived(events)
        return reply

    async def _deliver(self, digest: str) -> str:
        """Bring one content; a plane that cannot be reached gets it later, one that says no for good is the problem."""
        backoff, until = Backoff(self._chance, AGAIN_SECONDS), suspended_too() + TRANSFER_SECONDS
        path = self._entry.blob(digest)
        small = self.blobs.small.get(digest) if self.blobs is not None else None
        while True:
            token = self._entry.claim.token
            try:
                await self._client.upload(token, path if small is None else small, digest)
            except UnreachableError as error:
                if self.has_ended():
                    return ""
                if suspended_too() >= until:
                    return f"what it left could not be brought to the plane: {error.message}"
                await asyncio.sleep(backoff.next_seconds(error.retry_seconds))
            except PlaneError as error:
                if error.status not in NO_CLAIM:
                    return f"what it left could not be brought to the plane: {error.message}"
                if self._entry.claim.token == token:
                    return ""  # the run is not ours any more, and its receipt will be refused
            else:
                self.delivered.add(digest)
                return ""

    # The lease

    def has_ended(self) -> bool:
        """Say whether the lease is over, but for a margin; without one, whether trying has lasted long enough."""
        lease = self._entry.claim.lease_ms / 1000
        return suspended_too() >= self._ends_at - min(MARGIN_SECONDS, lease / 4)

    @asynccontextmanager
    async def kept(self, session: Session, outside: Outside) -> AsyncIterator[None]:
        """Renew the lease in the meantime; stop the run when somebody wants that, or when the lease ends."""
        self._session, self._outside = session, outside
        tasks = (
            [asyncio.create_task(step()) for step in (self._renew, self._watch)] if self._entry.claim.lease_ms else []
        )
        try:
            yield
        finally:
            async with self._turn:  # a renewal on its way is waited for: without its answer, we would hold a void token
                for task in tasks:
                    task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    async def _watch(self) -> None:
        while not self.has_ended():  # noqa: ASYNC110 - by a clock that asyncio does not have
            await asyncio.sleep(min(LOOK_SECONDS, self._entry.claim.lease_ms / 8000))
        self._give_up(NOT_RENEWED)

    async def _renew(self) -> None:
        backoff = Backoff(self._chance, AGAIN_SECONDS)
        pause = self._heartbeat_seconds()
        while True:
            await asyncio.sleep(pause)
            try:
                stopped = await self._renewed()
            except UnreachableError as error:
                pause = min(backoff.next_seconds(error.retry_seconds), self._entry.claim.lease_ms / 10_000)
                continue
            except PlaneError as error:
                if error.code in GONE:
                    self._give_up(NOT_OURS)  # the run is somebody else's now: ours must not go on
                    return
                continue
            backoff.reset()
            pause = self._heartbeat_seconds()
            self._heed(stopped)

    def _heartbeat_seconds(self) -> float:
        """Renew at a third of the lease, or sooner: by a renewal a runner also hears that a run is to be stopped."""
        return min(self._entry.claim.lease_ms / 1000 / RENEWALS, HEARTBEAT_SECONDS)

    async def _renewed(self) -> Json | None:
        async with self._turn:
            asked_at = suspended_too()
            claim, stopped = await self._soon(self._client.renew(self._entry.claim))
            self._ends_at = asked_at + claim.lease_ms / 1000
            self._entry.renewed(claim)
        return stopped

    async def _soon(self, step: Awaitable[Answer]) -> Answer:
        """Take one step within a third of the lease: one that hangs must not keep the renewals waiting."""
        seconds = self._entry.claim.lease_ms / 1000 / RENEWALS or NO_LEASE_SECONDS
        try:
            async with asyncio.timeout(max(seconds, LEAST_SECONDS)):
                return await step
        except TimeoutError as error:
            raise UnreachableError(f"the plane did not answer within {seconds:.0f} s", code="unreachable") from error

    def _give_up(self, reason: str) -> None:
        """Stop the run, for no wish of anybody's."""
        if self._session is not None and self._outside is not None:
            self._session.given_up(reason)
            self._outside.cancel.set()

    def _is_stopped(self) -> bool:
        return self._outside is not None and self._outside.cancel.is_set()

    def _heed(self, actor: Json | None) -> None:
        if actor is not None and self._session is not None and self._outside is not None:
            self._session.cancelled_by(actor)
            self._outside.cancel.set()

    def _collect(self, said: Any) -> None:
        """Keep a checkpoint that the plane really signed for this run: the first, and the newest."""
        if type(said) is not dict or said.get("version") != VERSION_CHECKPOINT:
            return
        findings, claim = Findings(), self._entry.claim
        Seal(said, "checkpoint", ("plane",), findings).check(2, "plane", self._place.plane_key)
        genesis = claim.events[0].get("prev")
        if not findings.sorted() and (said.get("runId"), said.get("contractHash")) == (claim.run_id, genesis):
            before, count = self.checkpoints[-1]["eventCount"] if self.checkpoints else 0, said.get("eventCount")
            if type(count) is not int or count <= before:
                return  # it says no more than the one before, and each has to
            self.checkpoints.append(said)
            if len(self.checkpoints) > MOST_CHECKPOINTS:
                del self.checkpoints[1]
