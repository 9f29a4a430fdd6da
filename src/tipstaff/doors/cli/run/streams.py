"""The streams of this process, relayed: the command never has our terminal, our pipes or our files themselves.

Input is read only while the command takes it. Output is written whole, waits for its reader, and never blocks the
event loop: a command must be stoppable also while nobody reads what it prints. None of our descriptors is set to
non-blocking, because others share them. A reader that left, or a disk that is full, ends the run.
"""

import asyncio
import os
import select
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from tipstaff.doors.cli.run.harmless import Harmless

AT_ONCE: Final = 65536
_NULL_DEVICE: Final = os.makedev(1, 3)
BACKGROUND_SECONDS: Final = 0.2  # between two looks whether we are in the foreground again
Result = TypeVar("Result")
_terminal = threading.Lock()  # two streams on one terminal must not be mixed within a sequence


class Inlet:
    """Standard input, as a `Source`."""

    def __init__(self, descriptor: int = 0) -> None:
        self.descriptor = descriptor
        self._is_plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._is_terminal = os.isatty(descriptor)

    async def read(self, n: int = -1, /) -> bytes:
        """Give what is there, at most `n` bytes; nothing at the end."""
        if self._is_plain:
            return os.read(self.descriptor, n if n > 0 else AT_ONCE)
        await self._ready()
        # Somebody who shares the descriptor may have been faster: then reading waits, and it must not be the loop.
        return await in_thread(lambda: self._take(n if n > 0 else AT_ONCE))

    def _take(self, most: int) -> bytes:
        try:
            return os.read(self.descriptor, most)
        except OSError:  # a terminal that hung up: nothing more will come
            return b""

    async def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self.descriptor, _settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self.descriptor)
            if not self._is_terminal or _in_foreground(self.descriptor):
                return
            await asyncio.sleep(BACKGROUND_SECONDS)  # a job in the background that reads would be stopped


def inlet(descriptor: int = 0) -> Inlet | None:
    """Open standard input; None where it is closed, a folder, or the null device, which has nothing to give."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    nothing = stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL_DEVICE
    return None if nothing or stat.S_ISDIR(found.st_mode) else Inlet(descriptor)


def _filter() -> "Harmless":
    from tipstaff.doors.cli.run.harmless import Harmless  # noqa: PLC0415 - only a terminal obeys what it is told

    return Harmless()


class Outlet:
    """Standard output or standard error, as a `Sink`."""

    def __init__(self, descriptor: int, failed: Callable[[OSError], None], *, raw: bool = False) -> None:
        self.descriptor = descriptor
        self._failed = failed
        self._mode = os.fstat(descriptor).st_mode
        self._is_terminal = os.isatty(descriptor)
        self._filter = _filter() if self._is_terminal and not raw else None
        self._open = True
        self._writing: asyncio.Future[None] | None = None
        self.is_stuck = False

    async def __call__(self, chunk: bytes) -> None:
        """Write a chunk; returns when its reader has taken it, or nobody will."""
        await self._write(self._filter.pass_on(chunk) if self._filter else chunk)

    async def finish(self) -> None:
        """Write what the filter held back."""
        if self._filter:
            await self._write(self._filter.pass_on(b"", last=True))

    def abandon(self) -> None:
        """Write nothing more, and wait no longer for what is being written: nobody takes it."""
        self._open = False
        if self._writing is not None:
            self.is_stuck = True
            self._writing.cancel()

    async def _write(self, data: bytes) -> None:
        if not data or not self._open:
            return
        try:
            if self._never_waits(len(data)):
                self._push(data)
            else:
                self._writing = asyncio.ensure_future(in_thread(lambda: self._push(data)))
                await asyncio.wait({self._writing})
                if not self._writing.cancelled():
                    self._writing.result()
        except OSError as error:
            if self._open:
                self._open = False
                self._failed(error)
        finally:
            self._writing = None

    def _never_waits(self, length: int) -> bool:
        if stat.S_ISFIFO(self._mode):  # a pipe that is ready takes this much at once
            return length <= select.PIPE_BUF and bool(select.select([], [self.descriptor], [], 0)[1])
        return stat.S_ISREG(self._mode)

    def _push(self, data: bytes) -> None:
        left = memoryview(data)
        if self._is_terminal:
            with _terminal:
                self._push_all(left)
        else:
            self._push_all(left)

    def _push_all(self, left: memoryview) -> None:
        while left and self._open:
            left = left[os.write(self.descriptor, left) :]


async def in_thread(act: Callable[[], Result]) -> Result:
    """Run something that may wait for ever on a thread that nobody waits for at the end of the program."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def work() -> None:
        try:
            result = act()
        except OSError as error:
            _tell(loop, answer, error=error)
        else:
            _tell(loop, answer, result)

    threading.Thread(target=work, daemon=True).start()
    return await answer


def _tell(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", *results: Any, error: OSError | None = None
) -> None:
    """Answer from another thread; a loop that is gone wants no answer."""
    answer = partial(future.set_exception, error) if error is not None else partial(future.set_result, *results)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if future.done() else answer())


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _in_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # it is not our controlling terminal: nobody stops us for reading
        return True
