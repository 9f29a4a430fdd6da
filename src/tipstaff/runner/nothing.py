"""The blobs of a runner that carries out nothing at the moment: there are none. Each run has its own (`blobs`)."""

from typing import NoReturn

from tipstaff.errors import NotFoundError


class NoBlobs:
    """Holds nothing, and takes nothing."""

    def put(self, content: bytes) -> NoReturn:
        """Refuse it."""
        raise NotFoundError(f"there is no run that {len(content)} bytes could belong to")

    def get(self, wanted: str) -> NoReturn:
        """Have nothing."""
        raise NotFoundError(f"there is no blob {wanted[:64]}")

    def writer(self) -> NoReturn:
        """Refuse to begin."""
        raise NotFoundError("there is no run that a content could belong to")
