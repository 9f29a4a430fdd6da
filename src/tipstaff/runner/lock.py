"""One process for each runner's directory, and how the others find it.

The lock is the kernel's, and goes with the process. The file tells the process's id, for whoever wants to drain it; the
signal for that says nothing else, however often it comes.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError, UsageError

LOCK: Final = "runner.lock"
DRAIN: Final = signal.SIGUSR1
_MOST_DIGITS: Final = 20


@contextmanager
def only_one(data: Path) -> Iterator[None]:
    """Be the one process that works in this directory; UsageError when there is one already."""
    descriptor = _opened(data)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            said = _pid(descriptor)
            raise UsageError(
                f"another process works in {data}" + (f": {said}" if said else ""),
                hint="stop it with: tipstaff runner drain, or name another --data",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(data: Path) -> int | None:
    """Give the id of the process that works in this directory; None where there is none."""
    if not (data / LOCK).exists():
        return None
    descriptor = _opened(data)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(descriptor)
    finally:
        os.close(descriptor)
    return None


def _opened(data: Path) -> int:
    try:
        return os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{data / LOCK} cannot be opened: {error.strerror}") from error


def _pid(descriptor: int) -> int | None:
    said = os.pread(descriptor, _MOST_DIGITS, 0).strip()
    return int(said) if said.isdigit() else None
