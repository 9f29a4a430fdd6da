"""Which process a run belongs to, and whether that process still lives.

An owner is a file in the home that its process keeps locked (flock) while it lives: the kernel lets go of the lock when
the process ends, however it ends, and a number that is used again fools nobody. A child that inherited the descriptor
counts as its owner living on; programs that are started inherit none.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError

SUFFIX: Final = ".owner"


class Owner:
    """This process's mark: held until `release`, or until the process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.name = path.name.removesuffix(SUFFIX)
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; the runs that are still open are then nobody's."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


class Owners:
    """The marks of one home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, name: str) -> Owner:
        """Make this process's mark; `name` is its own."""
        path = self._folder / (name + SUFFIX)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            while True:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_at(descriptor, path):
                    return Owner(path, descriptor)
                os.close(descriptor)  # a sweeper came between making and locking
        except OSError as error:
            raise StoreError(f"the file {path} cannot be made: {error.strerror}") from error

    def alive(self, name: str) -> bool:
        """Say whether the process still lives. Where that cannot be told it is taken to live: nothing is closed."""
        try:
            descriptor = os.open(self._folder / (name + SUFFIX), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return not _lock(descriptor)
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        """Remove the marks of processes that are gone."""
        for path in self._folder.glob(f"*{SUFFIX}"):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            if _lock(descriptor):
                path.unlink(missing_ok=True)  # under the lock, so that `take` sees that its file is gone
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Try a shared lock: two who look at once do not take each other for the owner."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
