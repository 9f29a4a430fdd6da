"""A runner at work: asks its plane for runs, carries out as many at once as it may, and stops in good order.

There is one question for a run on its way at a time, and none while every place is taken, the disk is full, or somebody
drains the runner. The first stop drains: no more is taken, what runs ends by itself; a claim that slipped through
is still carried out. The second kills what runs; its receipts say so. What a former process left is sent first.
After a claim that was dropped the next is asked for ever later, because each is lost to the plane; where one after the
other is not signed by the pinned key, that key is the wrong one, and none is asked for any more.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from tipstaff.errors import PlaneError, SigningKeyError, TipstaffError
from tipstaff.runner import refused
from tipstaff.runner.carrying import AtWork, Means, new_nonce, resume
from tipstaff.runner.client import Claim, UnreachableError
from tipstaff.runner.contracts import FORGED, ForeignContractError
from tipstaff.runner.waiting import Backoff

Json = dict[str, Any]
Say = Callable[[str], None]
POLL_SECONDS: Final = 1.0
WAIT_MS: Final = 20_000
QUICK_SECONDS: Final = 0.05
ROOM_SECONDS: Final = 5.0
LAST_TRY_SECONDS: Final = 10.0  # for receipts, once everything else has ended
UNWANTED: Final = frozenset({401, 403})  # statuses of a claim: this runner is not known any more
DROPPED_SECONDS: Final = 1.0  # before the next claim, after one that was dropped; doubled for each
LONGEST_DROPPED_SECONDS: Final = 60.0
MOST_FORGED: Final = 5  # in a row


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a runner works."""

    concurrency: int = 1
    once: bool = False
    labels: tuple[str, ...] = ()
    wait_ms: int = WAIT_MS
    poll_seconds: float = POLL_SECONDS
    last_try_seconds: float = LAST_TRY_SECONDS
    dropped_seconds: float = DROPPED_SECONDS


class Service:
    """One runner at work."""

    def __init__(self, means: Means, settings: Settings, say: Say) -> None:
        self._means = means
        self._settings = settings
        self._say = say
        self._backoff = Backoff(means.chance)
        self._at_work: dict[asyncio.Task[None], AtWork] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_drained = False
        self._is_stopped = False
        self._quick = 0  # empty answers in a row that came at once
        self._drops = Backoff(means.chance, LONGEST_DROPPED_SECONDS, settings.dropped_seconds)
        self._rest_seconds = 0.0  # before the next claim
        self._forged = 0  # claims in a row that the pinned key did not sign
        self.done: list[str] = []  # runs that were carried out, for `once`

    def drain(self) -> None:
        """Take no more; what runs ends by itself. Asked again, it is the same."""
        self._say(f"draining: {len(self._at_work)} at work, no more is taken")
        if not self._stopping.is_set():
            self._means.sender.leave_after_seconds = self._settings.last_try_seconds
            self._stopping.set()

    def stop(self) -> None:
        """Drain; asked again, end what runs."""
        if not self._is_stopped:
            self._is_stopped = True
            self.drain()
            return
        self._say("stopping at once")
        self._means.sender.leave_after_seconds = 0.0
        for work in self._at_work.values():
            work.stop()

    async def run(self) -> None:
        """Work until somebody stops it, or for one run."""
        for entry in self._means.spool.left():
            self._background(resume(self._means, entry), f"what was left of {entry.claim.run_id}")
        try:
            await self._take()
        finally:
            await self._finished()

    async def _take(self) -> None:
        while not self._stopping.is_set():
            await self._rest()
            if self._stopping.is_set() or not await self._has_place():
                continue
            nonce = new_nonce()
            claim = await self._claim(nonce)
            if claim is not None:
                self._begin(claim, nonce)
                if self._settings.once:
                    return

    async def _rest(self) -> None:
        """Wait a while after a claim that was dropped; SigningKeyError where the pinned key must be the wrong one."""
        if self._forged >= MOST_FORGED:
            key_id = self._means.place.plane_key.key_id
            raise SigningKeyError(
                f"{self._forged} claims in a row were not signed by the plane's key that this runner pinned, {key_id}:"
                " no more is taken",
                hint="ask the plane's operator which key it signs with; for another key, enroll another runner",
            )
        seconds, self._rest_seconds = self._rest_seconds, 0.0
        await self._pause(seconds)

    async def _has_place(self) -> bool:
        """Wait until one more may be taken; gives whether that is so now."""
        if len(self._at_work) >= self._settings.concurrency:
            self._changed.clear()
            await self._first(self._changed.wait())
            return False
        if problem := self._means.spool.lacks_room():
            self._say(f"no run is taken: {problem}")
            await self._pause(ROOM_SECONDS)
            return False
        return True

    async def _claim(self, nonce: str) -> Claim | None:
        """Ask for a run once; None, a while later, where there is none."""
        wait_ms = self._settings.wait_ms if self._means.client.offers else 0
        started = time.monotonic()
        try:
            claim: Claim | None = await self._first(
                self._means.client.claim(list(self._means.host.tiers), self._said(nonce, wait_ms))
            )
        except PlaneError as error:
            if error.status in UNWANTED and not isinstance(error, UnreachableError):
                raise
            await self._trouble(error)
            return None
        except Exception as error:  # noqa: BLE001 - the outermost loop: whatever answers must not end the runner
            await self._trouble(error)
            return None
        self._backoff.reset()
        self._heed_drain()
        if claim is None and not self._stopping.is_set():
            await self._pause(self._empty_seconds(time.monotonic() - started, wait_ms))
        return claim

    def _heed_drain(self) -> None:
        """Say it when the plane begins, or ends, to drain this runner."""
        if self._means.client.drain is not self._is_drained:
            self._is_drained = self._means.client.drain
            self._say("the plane drains this runner" if self._is_drained else "the plane gives runs again")

    def _said(self, nonce: str, wait_ms: int) -> Json:
        holding = [work.run_id for work in self._at_work.values()]
        said: Json = {"nonce": nonce, "holding": holding, "free": self._settings.concurrency - len(holding)}
        said |= {"waitMs": wait_ms} if wait_ms else {}
        return said | ({"labels": list(self._settings.labels)} if self._settings.labels else {})

    def _empty_seconds(self, took_seconds: float, wait_ms: int) -> float:
        """Say how long to wait after an empty answer: not at all behind one that had waited itself."""
        if not self._means.client.offers:
            return self._settings.poll_seconds
        if self._means.client.drain:
            return self._settings.poll_seconds * 5
        if not wait_ms or took_seconds * 1000 >= wait_ms / 2:
            self._quick = 0
            return 0.0
        self._quick += 1
        return min(QUICK_SECONDS * (1 << min(self._quick, 10)), self._settings.poll_seconds)

    async def _trouble(self, error: Exception) -> None:
        seconds = self._backoff.next_seconds(error.retry_seconds if isinstance(error, UnreachableError) else 0.0)
        what = error.message if isinstance(error, PlaneError) else f"no run could be asked for: {_shown(error)}"
        self._say(f"{what}; next try in {seconds:.1f} s")
        await self._pause(seconds)

    def _begin(self, claim: Claim, nonce: str) -> None:
        try:
            work = AtWork(self._means, claim, nonce)
        except ForeignContractError as error:
            self._drop(claim, error)
            return
        except Exception as error:  # noqa: BLE001 - as above: what cannot even be looked at is nobody's
            self._drop(claim, ForeignContractError(f"it cannot be looked at: {_shown(error)}"))
            return
        self._drops.reset()
        self._forged = 0
        task = asyncio.get_running_loop().create_task(self._carried_out(work, claim))
        self._at_work[task] = work
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._at_work.pop(task, None)
        self._changed.set()

    async def _carried_out(self, work: AtWork, claim: Claim) -> None:
        try:
            receipt = await work.carry_out()
        except ForeignContractError as error:
            self._drop(claim, error)
        except Exception as error:  # noqa: BLE001 - the outermost loop: one run's trouble is not the others'
            self._say(f"run {work.run_id} could not be told about: {_shown(error)}")
        else:
            self.done.append(work.run_id)
            if receipt is not None:
                self._say(f"run {work.run_id} {receipt.get('status')}")

    def _drop(self, claim: Claim, error: PlaneError) -> None:
        self._rest_seconds = self._drops.next_seconds()
        self._forged += error.code == FORGED
        self._say(f"a claim was dropped, and nothing of it ran: {error.message}")
        with suppress(TipstaffError, OSError):
            refused.note(self._means.data, claim, error)

    def _background(self, step: Coroutine[Any, Any, None], what: str) -> None:
        async def guarded() -> None:
            try:
                await step
            except Exception as error:  # noqa: BLE001 - as above
                self._say(f"{what} could not be sent: {_shown(error)}")

        task = asyncio.get_running_loop().create_task(guarded())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _finished(self) -> None:
        """Wait for what runs; then, for a little while, for what is still to be sent."""
        if self._means.sender.leave_after_seconds is None:
            self._means.sender.leave_after_seconds = self._settings.last_try_seconds
        while self._at_work:
            await asyncio.wait(list(self._at_work))
        while self._sending:
            await asyncio.wait(list(self._sending))
        if left := self._means.spool.count():
            self._say(f"{left} receipts wait for the plane; they are sent at the next start")

    async def _first(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a step, or until somebody stops us; a stop lets a claim on its way come to its end where it can."""
        task, stop = asyncio.ensure_future(step), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    return await task
                return None
            return task.result()
        finally:
            stop.cancel()

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)


def _shown(error: Exception) -> str:
    """Name an error; of those that are not ours only the kind and the place, because their words may hold anything."""
    if isinstance(error, TipstaffError):
        return str(error)
    frame = sys.exc_info()[2]
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" at {frame.tb_frame.f_code.co_name}:{frame.tb_lineno}" if frame is not None else ""
    return f"{type(error).__name__}{where}"
