"""The contents of one run: what it makes stays in the spool until the plane has it; what it needs is fetched.

Small contents are held in memory and go with the receipt where the plane takes them so; larger ones are files, brought
before the receipt is written. What comes from the plane goes into a file that nobody else sees and that goes away with
its use, and is hashed: other bytes than were asked for are never used. Whoever can read in pieces (`open`) should:
`get` has the whole in memory, and refuses what is too long for that.
"""

import asyncio
import os
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from tipstaff.errors import InputError, StoreError
from tipstaff.runner.spool import Entry

if TYPE_CHECKING:
    from pathlib import Path

IN_MEMORY: Final = 64 * 1024  # bytes of one content
MOST_IN_MEMORY: Final = 960 * 1024  # of all: with its padding, no more than one message may hold
MOST_WHOLE: Final = 256 * 1024**2  # bytes of one content that somebody wants to have at once
FETCH_SECONDS: Final = 3600.0


class Fetch(Protocol):
    """A way to get a content from the plane, checked, into a file."""

    async def __call__(self, wanted: str, into: BinaryIO, /) -> None:
        """Get it."""


class RunBlobs:
    """The contents of one run."""

    def __init__(self, entry: Entry, fetch: Fetch, loop: asyncio.AbstractEventLoop) -> None:
        self._entry = entry
        self._fetch = fetch
        self._loop = loop
        self._held = 0
        self.small: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        """Keep `content`; gives its sha-256."""
        writer = self.writer()
        writer.write(content)
        return writer.finish()

    def get(self, wanted: str) -> bytes:
        """Give the bytes with this sha-256, checked; from the plane where they are not here. Never on the loop."""
        with self.open(wanted) as file:
            content = file.read(MOST_WHOLE + 1)
        if len(content) > MOST_WHOLE:
            raise InputError(f"the content {wanted[:12]} is larger than {MOST_WHOLE} bytes, which is too much at once")
        return content

    def open(self, wanted: str) -> BinaryIO:
        """Give the same to be read in pieces. Never on the loop."""
        if wanted in self.small:
            return BytesIO(self.small[wanted])
        path = self._entry.blob(wanted)
        return path.open("rb") if path.exists() else self._fetched(wanted)

    def _fetched(self, wanted: str) -> BinaryIO:
        file = self._entry.nameless()
        fetching = asyncio.run_coroutine_threadsafe(self._fetch(wanted, file), self._loop)
        try:
            fetching.result(FETCH_SECONDS)
            file.seek(0)
        except BaseException:
            fetching.cancel()
            file.close()
            raise
        return file

    def writer(self) -> "RunWriter":
        """Begin a content whose size is not known, in bounded memory."""
        return RunWriter(self, self._entry)

    def hold(self, digest: str, content: bytes) -> bool:
        """Keep a small content in memory, if there is room."""
        if digest not in self.small:
            if self._held + len(content) > MOST_IN_MEMORY:
                return False
            self._held += len(content)
            self.small[digest] = content
        return True


class RunWriter:
    """One content being written: in memory while it is small, then in a file."""

    def __init__(self, blobs: RunBlobs, entry: Entry) -> None:
        self._blobs = blobs
        self._entry = entry
        self._digest = sha256()
        self._held = bytearray()
        self._file: tuple[int, Path] | None = None

    def write(self, chunk: bytes) -> None:
        """Take some more bytes."""
        self._digest.update(chunk)
        self._held += chunk
        if len(self._held) > IN_MEMORY:
            self._spill()

    def finish(self) -> str:
        """Keep the content; gives its sha-256."""
        digest = self._digest.hexdigest()
        if self._file is None and self._blobs.hold(digest, bytes(self._held)):
            return digest
        self._spill()
        if self._file is not None:
            descriptor, part = self._file
            os.close(descriptor)
            self._file = None
            part.rename(self._entry.blob(digest))
        return digest

    def discard(self) -> None:
        """Forget it."""
        self._held.clear()
        if self._file is not None:
            descriptor, part = self._file
            os.close(descriptor)
            self._file = None
            part.unlink(missing_ok=True)

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = self._entry.new_blob()
            descriptor, _ = self._file
            with memoryview(self._held) as held:
                written = 0
                while written < len(held):
                    written += os.write(descriptor, held[written:])
        except OSError as error:
            raise StoreError(f"a run's output cannot be kept: {error.strerror}", hint="check the disk") from error
        self._held.clear()
