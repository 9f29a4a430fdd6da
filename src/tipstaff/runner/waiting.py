"""How long to wait before the same is tried again: longer each time, never the same for two runners.

Doubles from a quarter of a second to half a minute, unless told otherwise; each wait is somewhere in the upper half of
that, so that a plane that comes back is not met by all its runners at once. The randomness is passed in.
"""

from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 30.0
_DOUBLINGS: Final = 20  # far beyond the longest; the number itself must not grow for ever


class Backoff:
    """The waits of one thing that is tried again and again; `chance` gives numbers from 0 to 1."""

    def __init__(
        self,
        chance: Callable[[], float],
        longest_seconds: float = LONGEST_SECONDS,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._chance = chance
        self._longest_seconds = longest_seconds
        self._first_seconds = first_seconds
        self._failed = 0

    def next_seconds(self, at_least: float = 0.0) -> float:
        """Say how long to wait after one more failure."""
        whole = min(self._longest_seconds, self._first_seconds * (1 << min(self._failed, _DOUBLINGS)))
        self._failed += 1
        return max(at_least, whole * (0.5 + self._chance() / 2))

    def reset(self) -> None:
        """Begin anew: it worked."""
        self._failed = 0
