"""Something that happens again and again while a test does something else: for races."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something again and again beside."""
    done = threading.Event()

    def again() -> None:
        while not done.is_set():
            with suppress(OSError):
                act()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
