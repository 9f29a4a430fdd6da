"""What a command prints, on its way to whoever follows the run: in small lots, and never at the command's expense.

A lot goes out a moment after its first byte, or when it is large enough; one is on its way at a time. While the plane
is slow, what comes on top of a bound is left out until the rest has gone, so that nobody misses the beginning; the
next lot says by its offset that something is missing. The whole kept copy comes with the receipt, and with it what a
run prints in its last moment.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from tipstaff.errors import PlaneError
from tipstaff.isolation.tier import Sink

Json = dict[str, Any]
LOT_SECONDS: Final = 0.025
LOT_BYTES: Final = 16 * 1024
MOST_BYTES: Final = 256 * 1024  # that wait, of one stream
LAST_SECONDS: Final = 0.25
FAILURES: Final = 3  # after so many in a row, nobody is told any more


class _Stream:
    """What waits of one stream, and where it begins in the whole."""

    def __init__(self) -> None:
        self.offset = 0
        self.waiting = bytearray()
        self.seen = 0

    def take(self, chunk: bytes) -> None:
        begin, self.seen = self.seen, self.seen + len(chunk)
        if not self.waiting:
            self.offset = begin
        if self.offset + len(self.waiting) == begin:  # else something is missing already, and what waits goes first
            self.waiting += chunk[: MOST_BYTES - len(self.waiting)]

    def lot(self) -> tuple[int, bytes]:
        offset, data = self.offset, bytes(self.waiting[:LOT_BYTES])
        del self.waiting[: len(data)]
        self.offset += len(data)
        return offset, data


class LiveOutput:
    """The output of one run while it goes on; `post` brings one lot to the plane."""

    def __init__(self, post: Callable[[Json], Awaitable[None]]) -> None:
        self._post = post
        self._streams = {"stdout": _Stream(), "stderr": _Stream()}
        self._sending: asyncio.Task[None] | None = None
        self._enough = asyncio.Event()
        self._failed = 0
        self._is_posting = False
        self._is_closed = False

    def sink(self, name: str) -> Sink:
        """Give what takes the bytes of one stream, at once and without ever waiting."""
        stream = self._streams[name]

        def take(chunk: bytes) -> None:
            if self._failed >= FAILURES or self._is_closed:
                return
            stream.take(chunk)
            if len(stream.waiting) >= LOT_BYTES:
                self._enough.set()
            if self._sending is None or self._sending.done():
                self._sending = asyncio.get_running_loop().create_task(self._send())

        return take

    async def close(self) -> None:
        """Send no more; what is on its way may arrive, because to break it off would cost a connection."""
        self._is_closed = True
        if self._sending is not None:
            if self._is_posting:
                await asyncio.wait([self._sending], timeout=LAST_SECONDS)
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending

    async def _send(self) -> None:
        while any(stream.waiting for stream in self._streams.values()) and not self._is_closed:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), LOT_SECONDS)
            self._enough.clear()
            for name, stream in self._streams.items():
                if stream.waiting and not self._is_closed:
                    await self._one(name, stream)

    async def _one(self, name: str, stream: _Stream) -> None:
        offset, data = stream.lot()
        self._is_posting = True
        try:
            await self._post({"stream": name, "offset": offset, "data": b64encode(data).decode()})
        except PlaneError:
            self._failed += 1
        else:
            self._failed = 0
        finally:
            self._is_posting = False
