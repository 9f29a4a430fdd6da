"""Uids that belong to nobody, leased to one sandbox at a time across the whole host (only root can).

A lease is a lock on a file named like the number, so the kernel gives it back when its holder dies. The file says
"busy" while a sandbox may be running: whoever then finds it unlocked ends what its dead holder left, before using it.
The range lies above what distributions and systemd give out (61184 to 65519 are systemd's).
"""

import contextlib
import fcntl
import os
import signal
import time
from typing import Final

FIRST: Final = 1879048192
COUNT: Final = 65536
_BUSY: Final = b"busy"
_PATIENCE_SECONDS: Final = 5.0


class Lease:
    """One number, held until `close`."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor

    def close(self) -> None:
        """Give the number back. Only when nothing runs under it any more."""
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def lease(folder: str, first: int = FIRST) -> Lease:
    """Take the first number that nobody holds, `first` or a later one; OSError when all are taken."""
    for number in range(first, first + COUNT):
        descriptor = os.open(f"{folder}/{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        # One that was taken away between our two calls would be another's at the same time.
        is_there = _is_at(descriptor, f"{folder}/{number}")
        if not is_there or (os.pread(descriptor, len(_BUSY), 0) and not end_all(number)):
            os.close(descriptor)
            continue
        os.pwrite(descriptor, _BUSY, 0)
        return Lease(number, descriptor)
    raise OSError(f"all {COUNT} uids for sandboxes are leased")


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def end_all(number: int) -> bool:
    """Kill every process that runs as `number`, and say whether all are gone."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while found := processes(number):
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def processes(number: int) -> list[int]:
    """List the processes that run as `number`."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == number:
                found.append(int(name))
    return found
