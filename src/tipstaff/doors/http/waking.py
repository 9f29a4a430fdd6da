"""The bell: whoever waits for a run or a queue hears at once that there is something to look at.

The plane rings it from any thread after a commit, with a topic (`queue:POOL`, `run:ID`). What rings is a hint and no
message: the waiting one looks for itself. Another process may write too: whoever notices that rings for everybody.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

QUEUES: Final = "queue:"


class Bell:
    """Wakes coroutines of one event loop, from any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def attach(self) -> None:
        """Serve the running loop: before this, nobody waits."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def ring(self, topic: str) -> None:
        """Wake who waits for `topic`."""
        if self._loop is None:
            return
        if threading.get_ident() == self._thread:
            self._wake(topic)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._wake, topic)

    def ring_all(self) -> None:
        """Wake everybody: something has changed, nobody says what."""
        for topic in list(self._waiting):
            self._wake(topic)

    def hush(self) -> None:
        """Close the bell from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.close)

    def close(self) -> None:
        """Wake everybody, for good; on the loop's thread."""
        self.closed = True
        for waiting in list(self._waiting.values()):
            for event in waiting:
                event.set()

    @contextmanager
    def listening(self, topic: str) -> Iterator[asyncio.Event]:
        """Have an event that is set at each ring of `topic`; `queue:` alone stands for every queue."""
        event = asyncio.Event()
        if self.closed:
            event.set()
        self._waiting[topic].add(event)
        try:
            yield event
        finally:
            self._waiting[topic].discard(event)
            if not self._waiting[topic]:
                del self._waiting[topic]

    def _wake(self, topic: str) -> None:
        topics = (topic, QUEUES) if topic.startswith(QUEUES) else (topic,)
        for one in topics:
            for event in self._waiting.get(one, ()):
                event.set()


async def heard(event: asyncio.Event, seconds: float) -> bool:
    """Wait for a ring, but not for longer than `seconds`; the next wait is for the next ring."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
