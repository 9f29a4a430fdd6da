"""What a command prints: handed on as it comes, counted, hashed whole, and kept up to a size.

The kept copy is capped and says so at its end; what passes through is never cut. Memory stays flat, because the copy
goes to a blob as it grows. Secrets are taken out before anything else is done with it. With nobody to hand output on
to, it is only kept.
"""

import asyncio
from hashlib import sha256
from typing import Final

from tipstaff.isolation.tier import Sink
from tipstaff.model.blobs import BlobStore
from tipstaff.model.outcome import StreamRecord
from tipstaff.session.held import Passing

LONG: Final = 64 * 1024  # from here on keeping it takes a sync of the disk, which nobody should wait for on the loop


class Capture:
    """One stream of one run."""

    def __init__(self, most_bytes: int, blobs: BlobStore | None) -> None:
        self._left = most_bytes
        self._writer = blobs.writer() if blobs is not None else None
        self._digest = sha256()
        self._bytes = 0
        self._passages: list[tuple[Passing, Sink]] = []

    def sink(self, onward: Sink | None, passing: Passing | None = None) -> Sink:
        """Give the sink that counts, keeps, and hands on; `passing` takes out first what nobody may see."""
        if passing is not None:
            released = self.sink(onward)
            self._passages.append((passing, released))
            return lambda chunk: released(clean) if (clean := passing.feed(chunk)) else None
        if onward is None:
            return self._take

        def take(chunk: bytes) -> object:
            self._take(chunk)
            return onward(chunk)

        return take  # type: ignore[return-value]  # whatever the next sink gives, an awaitable or nothing, is passed on

    def _take(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._digest.update(chunk)
        if self._left > 0 and self._writer is not None:
            self._writer.write(chunk[: self._left])
        self._left -= len(chunk)

    async def finish(self) -> StreamRecord:
        """Keep the copy, and say what passed; what was held back until the end comes out first."""
        for passing, released in self._passages:
            if (tail := passing.end()) and (waiting := released(tail)) is not None:
                await waiting
        truncated = self._left < 0
        kept = None
        if self._writer is not None:
            if truncated:
                self._writer.write(_marker(self._bytes + self._left, self._bytes))
            is_long = self._bytes > LONG
            kept = await asyncio.to_thread(self._writer.finish) if is_long else self._writer.finish()
        return StreamRecord(bytes=self._bytes, sha256=self._digest.hexdigest(), truncated=truncated, kept=kept)

    def discard(self) -> None:
        """Forget it: the run will not be told about."""
        if self._writer is not None:
            self._writer.discard()


def _marker(kept: int, whole: int) -> bytes:
    return f"\n[tipstaff: the first {kept} of {whole} bytes are kept]\n".encode()
