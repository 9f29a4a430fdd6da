"""The plane's clock: the wall clock as it was at the start, plus the time that has passed since.

So no setting of the clock while the process lives moves a time back, or a lease forward. The time passed counts
suspended hours too, since leases and contracts run out meanwhile.
"""

import time
from typing import Final

MILLION: Final = 1_000_000


class SteadyClock:
    """Milliseconds since 1970, never going back."""

    def __init__(self) -> None:
        self._start = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def __call__(self) -> int:
        """Give the time."""
        return (self._start + time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // MILLION
