"""The standard streams of one run: pipes of which the command has one end and the event loop the other.

Output waits for its taker: a slow one slows the command down, and memory stays flat. Input goes as far as the command
reads it.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from tipstaff.isolation.tier import Sink, Source

CHUNK: Final = 65536


class Streams:
    """Three pipes. `theirs` are the command's ends, which the caller closes once they are handed over."""

    def __init__(self, stdin: Source | None) -> None:
        self._source = stdin
        self._opened: list[int] = []
        if stdin is None:
            reading, self._input = self._kept(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)), -1
        else:
            reading, self._input = self._pipe()
        self._output, writing = self._pipe()
        self._errors, writing_errors = self._pipe()
        self.theirs = (reading, writing, writing_errors)
        for descriptor in (self._input, self._output, self._errors):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)

    def _kept(self, descriptor: int) -> int:
        self._opened.append(descriptor)
        return descriptor

    def _pipe(self) -> tuple[int, int]:
        reading, writing = os.pipe()
        return self._kept(reading), self._kept(writing)

    def hand_over(self) -> None:
        """Close the command's ends here: the command has its own now."""
        for descriptor in self.theirs:
            self._close(descriptor)

    async def feed(self) -> None:
        """Pass standard input on until it ends, or until nobody reads it."""
        if self._source is None:
            return
        with contextlib.suppress(BrokenPipeError):
            while chunk := await self._source.read(CHUNK):
                await self._write(chunk)
        self._close(self._input)

    async def _write(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            try:
                left = left[os.write(self._input, left) :]
            except BlockingIOError:
                await _when(asyncio.get_running_loop().add_writer, self._input)

    async def drain(self, sinks: tuple[Sink, Sink], most: int | None, exceeded: Callable[[], None]) -> None:
        """Hand output on until both streams end; beyond `most` bytes say so, and drop the rest."""
        budget = _Budget(most, exceeded)
        await asyncio.gather(
            self._read(self._output, _counted(sinks[0], budget)), self._read(self._errors, _counted(sinks[1], budget))
        )

    async def _read(self, descriptor: int, sink: Sink) -> None:
        while True:
            try:
                chunk = os.read(descriptor, CHUNK)
            except BlockingIOError:
                await _when(asyncio.get_running_loop().add_reader, descriptor)
                continue
            if not chunk:
                return
            waiting = sink(chunk)
            if waiting is not None:
                await waiting

    def _close(self, descriptor: int) -> None:
        if descriptor in self._opened:
            self._opened.remove(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Close what is still open."""
        for descriptor in list(self._opened):
            self._close(descriptor)


class _Budget:
    """How much may still pass, of both streams together."""

    def __init__(self, most: int | None, exceeded: Callable[[], None]) -> None:
        self._left = most
        self._exceeded = exceeded

    def take(self, chunk: bytes) -> bytes:
        """Give the part of `chunk` that may pass."""
        if self._left is None:
            return chunk
        passing = chunk[: self._left]
        if len(passing) < len(chunk):
            self._exceeded()
        self._left -= len(passing)
        return passing


def _counted(sink: Sink, budget: _Budget) -> Sink:
    return lambda chunk: sink(passing) if (passing := budget.take(chunk)) else None


async def _when(watch: Callable[..., None], descriptor: int) -> None:
    """Wait until the loop's `add_reader` or `add_writer` says that a descriptor is ready."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    watch(descriptor, _done, ready)
    try:
        await ready
    finally:
        (loop.remove_reader if watch == loop.add_reader else loop.remove_writer)(descriptor)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
