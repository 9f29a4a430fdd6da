"""Blobs on their way out: on threads of their own, few at once for one peer, and none for who has left.

A blob is hashed before its first byte is given out, which takes seconds where it is large: without bounds a few
requests would keep every thread busy. Who wants more at once waits for a seat; it is left when the last byte is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any, BinaryIO, Final, TypeVar

from tipstaff.doors.http.replies import DoorError

Answer = TypeVar("Answer")
THREADS: Final = 4
SEATS: Final = 4
Receive = Callable[[], Awaitable[Any]]
Still = Callable[[], bool]  # says whether anybody still waits
Opened = Callable[[Still], BinaryIO]


class _Turn:
    def __init__(self) -> None:
        self.free = asyncio.Semaphore(SEATS)
        self.users = 0


class Download:
    """One blob that a peer is given."""

    def __init__(self, file: BinaryIO, leave: Callable[[], None]) -> None:
        self.file = file
        self._leave: Callable[[], None] | None = leave

    def close(self) -> None:
        """Let go of it, and of its seat."""
        leave, self._leave = self._leave, None
        if leave is not None:
            self.file.close()
            leave()


class Downloads:
    """The blobs that are being given out."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")
        self._turns: dict[str, _Turn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    async def on_thread(self, step: Callable[[], Answer]) -> Answer:
        """Read some of a blob."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, step)

    async def open(self, peer: str, receive: Receive, opened: Opened) -> Download:
        """Open a blob for a peer, once it has a seat; a peer that leaves meanwhile is not waited for."""
        left = Event()
        opening = asyncio.ensure_future(self._open(peer, lambda: opened(lambda: not left.is_set())))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((opening, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not opening.done():
                left.set()
                opening.cancel()
        if not opening.done():
            raise DoorError("the client left before its answer was there", status=400, code="gone")
        return opening.result()

    def close(self) -> None:
        """Wait for what threads still do."""
        self._threads.shutdown()

    async def _open(self, peer: str, opened: Callable[[], BinaryIO]) -> Download:
        await self._seat(peer)
        opening = self._threads.submit(opened)
        try:
            file = await asyncio.wrap_future(opening)
        except BaseException:
            # A thread that has begun may be at work still: until it ends, the seat is taken.
            loop = asyncio.get_running_loop()
            opening.add_done_callback(lambda ended: _on_loop(loop, lambda: self._abandon(peer, ended)))
            raise
        return Download(file, lambda: self._leave(peer))

    async def _seat(self, peer: str) -> None:
        turn = self._turns.setdefault(peer, _Turn())
        turn.users += 1
        try:
            await turn.free.acquire()
        except BaseException:
            self._forget(peer, turn)
            raise

    def _leave(self, peer: str) -> None:
        turn = self._turns[peer]
        turn.free.release()
        self._forget(peer, turn)

    def _forget(self, peer: str, turn: _Turn) -> None:
        turn.users -= 1
        if not turn.users:
            del self._turns[peer]

    def _abandon(self, peer: str, ended: Future[BinaryIO]) -> None:
        with suppress(CancelledError, Exception):
            ended.result().close()
        self._leave(peer)


async def _left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _on_loop(loop: asyncio.AbstractEventLoop, step: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits for a seat any more
        loop.call_soon_threadsafe(step)
