"""What every route works with: the plane, the settings, the bell, the limits, and how the plane is asked.

The plane is synchronous. A step is taken at once on the loop, because a thread costs more than most answers; on a
thread where the plane is busy, has just been slow, or has much to read. Nothing keeps the loop for long.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tipstaff.doors.http.downloads import Downloads
from tipstaff.doors.http.limits import Buckets, Failures, Held, Seats
from tipstaff.doors.http.settings import Settings
from tipstaff.doors.http.waking import Bell
from tipstaff.errors import BusyError
from tipstaff.plane import Plane
from tipstaff.plane.wire import answer_outside

Answer = TypeVar("Answer")
THREADS: Final = 8
SEATS: Final = 64  # for one peer: more of its requests than this do not wait at once
LONG_BYTES: Final = 64 * 1024  # a longer body takes longer to read than a thread takes to start
SLOW_SECONDS: Final = 0.02
AVOID_SECONDS: Final = 0.25
# Whoever keeps the store busy mostly does so for less than this. Going to a thread at once would keep it busy for the
# next one, and so on: threads that wait for each other take longer than one after the other on the loop.
PAUSES_SECONDS: Final = (0.001, 0.003)
MOST_HELD_BYTES: Final = 512 * 1024**2
SHARE_BYTES: Final = MOST_HELD_BYTES // 4


class Front:
    """One plane, as its door sees it."""

    def __init__(self, plane: Plane, settings: Settings, bell: Bell) -> None:
        self.plane = plane
        self.settings = settings
        self.bell = bell
        limits = settings.limits
        self.principals = Buckets(limits.principal_per_second, limits.principal_burst)
        self.runners = Buckets(limits.runner_per_second, limits.runner_burst)
        self.addresses = Buckets(limits.address_per_second, limits.address_burst)
        self.failures = Failures(limits.failures, limits.failures_seconds)
        self.seats = Seats(SEATS)
        self.held = Held(MOST_HELD_BYTES, SHARE_BYTES)  # of bodies that are being read, or answered
        self.downloads = Downloads()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plane")
        self._housekeeper = ThreadPoolExecutor(1, thread_name_prefix="housekeeping")  # waits behind no request
        self._slow_until = 0.0

    async def ask(self, step: Callable[[], Answer], *, long: bool = False) -> Answer:
        """Have the plane take a step; `long` says that it will take a while."""
        for pause in () if long else PAUSES_SECONDS:
            if time.monotonic() < self._slow_until:
                break
            try:
                with self.plane.without_waiting():
                    return self._timed(step)
            except BusyError:  # nothing was changed, so the same can be asked again
                await asyncio.sleep(pause)
        return await self.on_thread(step)

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a runner."""
        for pause in () if len(body) > LONG_BYTES else PAUSES_SECONDS:
            if time.monotonic() < self._slow_until:
                break
            try:
                return self._timed(lambda: answer_outside(self.plane, path, body, wait=False))
            except BusyError:
                await asyncio.sleep(pause)
        return await self.on_thread(lambda: answer_outside(self.plane, path, body))

    async def on_thread(self, step: Callable[[], Answer]) -> Answer:
        """Do something that takes time."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)

    async def keep_house(self, step: Callable[[], Answer]) -> Answer:
        """Do what has to be done again and again, however much is asked."""
        return await asyncio.get_running_loop().run_in_executor(self._housekeeper, step)

    def close(self) -> None:
        """Wait for what threads still do."""
        self._threads.shutdown()
        self._housekeeper.shutdown()
        self.downloads.close()

    def _timed(self, step: Callable[[], Answer]) -> Answer:
        """Notice when the plane is slow: its disk is then not waited for on the loop for a while."""
        started = time.monotonic()
        try:
            return step()
        finally:
            ended = time.monotonic()
            if ended - started > SLOW_SECONDS:
                self._slow_until = ended + AVOID_SECONDS
