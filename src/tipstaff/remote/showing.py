"""What a run prints, shown as it comes and whole in the end.

Live output may have gaps: what is shown is only ever the next byte of a stream. What did not come live is taken from
the kept copy when the run is over. Everything that was shown is held against the digest in the receipt.
"""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

from tipstaff.errors import InputError
from tipstaff.model.outcome import StreamRecord

Sink = Callable[[bytes], Awaitable[None]]
LONGEST_MARK: Final = 128  # bytes
_CAPPED: Final = re.compile(rb"\n\[tipstaff: the first [0-9]+ of [0-9]+ bytes are kept\]\n\Z")


class Shown:
    """One stream, as far as it was shown."""

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._digest = sha256()
        self.count = 0
        self.has_gap = False

    async def take(self, offset: int, data: bytes) -> None:
        """Show what follows on what was shown; what was shown before is not again, and nothing is left out."""
        if offset > self.count:
            self.has_gap = True
            return  # a piece is missing before it: all of it will come from the kept copy
        fresh = data[self.count - offset :]
        if fresh:
            self._digest.update(fresh)
            self.count += len(fresh)
            await self._sink(fresh)

    async def complete(self, record: StreamRecord, kept: Callable[[], Awaitable[bytes]]) -> str:
        """Show the rest, and hold all of it against the receipt; says what is missing, where something is."""
        if self.count < record.bytes and record.kept:
            copy = _content(await kept(), record)
            if not record.truncated:
                self._refuse_other(sha256(copy).hexdigest(), record)
            await self._catch_up(copy)
        if self.count == record.bytes:
            self._refuse_other(self._digest.hexdigest(), record)
            return ""
        if self.count > record.bytes:
            raise InputError(f"the plane showed more of the run's {self._name} than its receipt knows of")
        if record.truncated:
            return f"{self._name} is not whole: {record.bytes} bytes were printed, and the kept copy is shorter"
        return f"{self._name} is not whole: what was printed may not be kept, by the run's disclosure"

    async def _catch_up(self, copy: bytes) -> None:
        """Show what the kept copy has beyond what was shown, if it begins with that; a capped one may have less."""
        if self.count > len(copy):
            return
        if sha256(copy[: self.count]).digest() != self._digest.digest():
            raise InputError(
                f"what the plane showed of the run's {self._name} is not what is kept of it",
                hint="do not rely on what was shown",
            )
        await self.take(self.count, copy[self.count :])

    def _refuse_other(self, found: str, record: StreamRecord) -> None:
        if record.sha256 and found != record.sha256:
            raise InputError(
                f"what the plane showed as the run's {self._name} is not what its receipt says was printed",
                hint="do not rely on what was shown",
            )


def _content(copy: bytes, record: StreamRecord) -> bytes:
    """Leave out the line at the end of a capped copy that says so."""
    found = _CAPPED.search(copy, max(0, len(copy) - LONGEST_MARK)) if record.truncated else None
    return copy[: found.start()] if found else copy
