"""How much one peer may ask: token buckets, seats to wait in, and a count of failed proofs of identity.

All of it is bounded in memory.

A bucket that has been full again for a while says no more than one that is not there, so the oldest are forgotten
first. Failures are counted for an address and never taken back by a success: a right token elsewhere behind the same
address is no excuse for wrong ones.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

Clock = Callable[[], float]
MOST_PEERS: Final = 10_000


class Buckets:
    """One bucket for each peer: `per_second` come in, at most `burst` are kept."""

    def __init__(self, per_second: float, burst: int, clock: Clock = time.monotonic, most: int = MOST_PEERS) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def wait_seconds(self, peer: str) -> float:
        """Take one from a peer's bucket: 0 where there is one, else how long until there is."""
        now = self._clock()
        level, then = self._levels.get(peer, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._per_second)
        taken = level >= 1
        self._levels[peer] = (level - 1 if taken else level, now)
        self._levels.move_to_end(peer)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0 if taken else (1 - level) / self._per_second


class Seats:
    """How many of one peer's requests, or connections, there may be at once."""

    def __init__(self, most: int) -> None:
        self.total = 0
        self._most = most
        self._taken: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, peer: str, most: int | None = None) -> bool:
        """Take a seat, if there is one; who has taken it leaves it."""
        taken = self._taken.get(peer, 0)
        if taken >= (self._most if most is None else most):
            return False
        self._taken[peer] = taken + 1
        self.total += 1
        return True

    def leave(self, peer: str) -> None:
        """Leave a seat."""
        left = self._taken[peer] - 1
        self.total -= 1
        if left:
            self._taken[peer] = left
        else:
            del self._taken[peer]


class Held:
    """How many bytes of bodies are held: so many for all, and a share of them for one peer."""

    def __init__(self, most_bytes: int, share_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.share_bytes = share_bytes
        self.total_bytes = 0
        self._held: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, peer: str, size: int) -> bool:
        """Hold so many more; says whether there was room. What was taken is left in either case."""
        self._held[peer] = self._held.get(peer, 0) + size
        self.total_bytes += size
        return self._held[peer] <= self.share_bytes and self.total_bytes <= self.most_bytes

    def leave(self, peer: str, size: int) -> None:
        """Let go of so many."""
        self.total_bytes -= size
        self._held[peer] = self._held.get(peer, 0) - size
        if not self._held[peer]:
            del self._held[peer]


class Failures:
    """Failed proofs of identity by address, within a window that ends a while after the last count began."""

    def __init__(self, most: int, seconds: float, clock: Clock = time.monotonic, most_peers: int = MOST_PEERS) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._most_peers = most_peers
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def wait_seconds(self, address: str) -> float:
        """Say for how long an address has failed too often; 0 where it has not."""
        count, since = self._counts.get(address, (0, 0.0))
        left = since + self._seconds - self._clock()
        return left if count >= self._most and left > 0 else 0.0

    def count(self, address: str) -> None:
        """Note one more failure."""
        now = self._clock()
        count, since = self._counts.get(address, (0, now))
        if now - since >= self._seconds:
            count, since = 0, now
        self._counts[address] = (count + 1, since)
        self._counts.move_to_end(address)
        if len(self._counts) > self._most_peers:
            self._counts.popitem(last=False)
