"""Bytes both ways: what the gate, TLS and the requests inside it speak through, whatever lies below.

`Duplex` is the promise. `Wire` keeps it over a connected socket without a transport, so that a tunnel can take the
socket over at any moment. `Ahead` gives bytes first that somebody has read too early.
One reader and one writer at a time; they may be two tasks.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Duplex(Protocol):
    """A connection; a broken one raises OSError."""

    async def read(self, max_bytes: int, /) -> bytes:
        """Give the next bytes, at least one; none at the other side's end."""

    async def write(self, data: bytes, /) -> None:
        """Send everything; waits for room."""

    async def end(self) -> None:
        """Say that nothing more is sent; reading goes on."""

    def abort(self) -> None:
        """Close at once; whoever waits in `read` or `write` gets an OSError. Twice is no error."""


class Wire:
    """A `Duplex` over a connected socket, which it owns."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._readable: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    async def read(self, max_bytes: int, /) -> bytes:
        """Give the next bytes, at least one; none at the other side's end."""
        while True:
            try:
                data = self.sock.recv(max_bytes)
            except (BlockingIOError, InterruptedError):
                self._readable = self._loop.create_future()
                await _ready(self.sock, self._readable, self._loop.add_reader, self._loop.remove_reader)
            else:
                await asyncio.sleep(0)  # who always has something to read must not keep the run's own clock from going
                return data

    async def write(self, data: bytes, /) -> None:
        """Send everything; waits for room."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.sock.send(left) :]
            except (BlockingIOError, InterruptedError):
                self._writable = self._loop.create_future()
                await _ready(self.sock, self._writable, self._loop.add_writer, self._loop.remove_writer)

    async def end(self) -> None:
        """Say that nothing more is sent; reading goes on."""
        with contextlib.suppress(OSError):  # the other side is gone, and reading says so
            self.sock.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close at once, by a reset: the other side must not take a part for the whole."""
        if self.sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close()

    def close(self) -> None:
        """Close in order: what was written still arrives."""
        if self.sock.fileno() < 0:
            return
        self._loop.remove_reader(self.sock)
        self._loop.remove_writer(self.sock)
        self.sock.close()
        for waiting in (self._readable, self._writable):
            if waiting is not None:
                _wake(waiting)


class Ahead:
    """A `Duplex` some of whose bytes were read ahead: they come first."""

    def __init__(self, below: Duplex) -> None:
        self.below = below
        self._kept = b""

    def give_back(self, data: bytes) -> None:
        """Have `data` read again, before everything else."""
        self._kept = data + self._kept

    def take(self) -> bytes:
        """Give what was read ahead, without waiting for more."""
        kept, self._kept = self._kept, b""
        return kept

    async def read(self, max_bytes: int, /) -> bytes:
        """Give the next bytes, at least one; none at the other side's end."""
        if not self._kept:
            return await self.below.read(max_bytes)
        given, self._kept = self._kept[:max_bytes], self._kept[max_bytes:]
        return given

    async def write(self, data: bytes, /) -> None:
        """Send everything; waits for room."""
        await self.below.write(data)

    async def end(self) -> None:
        """Say that nothing more is sent; reading goes on."""
        await self.below.end()

    def abort(self) -> None:
        """Close at once."""
        self.below.abort()


async def _ready(
    sock: socket.socket, waiting: "asyncio.Future[None]", add: Callable[..., None], remove: Callable[[int], object]
) -> None:
    descriptor = sock.fileno()
    add(descriptor, _wake, waiting)
    try:
        await waiting
    finally:
        if sock.fileno() == descriptor:  # else it was closed, and its number may be another's by now
            remove(descriptor)


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
