"""What the rooms above need of content-addressed bytes, so that none of them has to know where these are kept."""

from typing import BinaryIO, Protocol, runtime_checkable


class BlobWriter(Protocol):
    """One blob being written; what is not finished leaves nothing behind."""

    def write(self, chunk: bytes) -> None:
        """Take some more bytes."""

    def finish(self) -> str:
        """Keep the blob; gives its sha-256."""

    def discard(self) -> None:
        """Forget it."""


class BlobStore(Protocol):
    """Bytes by their sha-256."""

    def put(self, content: bytes) -> str:
        """Keep `content`; gives its sha-256."""

    def get(self, wanted: str) -> bytes:
        """Give the bytes with this sha-256, checked."""

    def writer(self) -> BlobWriter:
        """Begin a blob whose size is not known, in bounded memory."""


@runtime_checkable
class OpenBlobs(Protocol):
    """Bytes by their sha-256, from a store that need not have them in memory at once."""

    def open(self, wanted: str) -> BinaryIO:
        """Give the bytes with this sha-256, checked, to be read in pieces."""
