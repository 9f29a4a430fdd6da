"""Who made what on this host: one locked file for each living spawner, so that nothing outlives its maker for long.

The file says where its owner makes groups and keeps folders. Its lock goes with the process that holds it: whoever can
take the lock knows that the owner is dead, and sweeps. What has a living owner is never touched.
"""

import contextlib
import fcntl
import json
import os
import signal
import stat
from typing import Any

from tipstaff.isolation import cgroup, trees


def own_folder(path: str, mode: int = 0o700) -> None:
    """Make a folder that is ours alone to write, or make sure that it is; PermissionError when it is not."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, mode)
        os.chmod(path, mode)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{path} is not a folder that only its owner, uid {os.geteuid()}, can write")


class Owner:
    """A living spawner: its name, and the folder below which it keeps what commands write."""

    def __init__(self, state: str, scratch: str, groups: cgroup.Parents) -> None:
        own_folder(f"{state}/owners")
        self.name = os.urandom(8).hex()
        self.scratch = f"{scratch}/{self.name}"
        self._file = f"{state}/owners/{self.name}"
        record = {"scratch": self.scratch, "groups": sorted(set(groups.folders.values()))}
        self.lock = os.open(f"{self._file}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Locked before it has its name: nobody can find it unlocked while we live.
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.write(self.lock, json.dumps(record).encode())
        os.rename(f"{self._file}.new", self._file)
        os.mkdir(self.scratch, 0o711)

    def close(self) -> None:
        """Remove what is left, and the word on it."""
        trees.remove(self.scratch)
        os.unlink(self._file)
        os.close(self.lock)


def sweep(state: str) -> list[str]:
    """Remove what dead owners left, and name them."""
    swept = []
    for name in sorted(os.listdir(f"{state}/owners")) if os.path.isdir(f"{state}/owners") else []:
        # A damaged word names nothing that could be removed: it is left, and stops nobody.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if not name.endswith(".new") and _swept(f"{state}/owners/{name}", name):
                swept.append(name)
    return swept


def _swept(path: str, name: str) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink == 0:  # its owner ended between our two calls
            return False
        _clean(name, json.loads(os.pread(lock, 65536, 0)))
        os.unlink(path)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _clean(name: str, record: dict[str, Any]) -> None:
    groups = cgroup.leftovers(record["groups"], name)
    for process in {process for group in groups for process in cgroup.members(group)} | _named(name):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    cgroup.remove(groups)
    if os.path.basename(record["scratch"]) == name:
        trees.remove(record["scratch"])


def _named(name: str) -> set[int]:
    """List the processes whose last word is an owner's name: a bubblewrap that lost its parent too early to die too."""
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
            if file.read().endswith(f"\0{name}\0".encode()):
                found.add(int(process))
    return found
