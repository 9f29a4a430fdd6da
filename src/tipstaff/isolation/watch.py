"""What nobody but us counts: the memory of a sandbox without a control group, and the disk that its command fills.

Both are looked at from time to time, so both can be overshot between two looks; the verdict on them says weaker.
"""

import contextlib
import os
import stat
import time
from typing import Final

from tipstaff.isolation.kernel import told

_BLOCK: Final = 512
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")
_USER_TIME, _REAL_TIME = 11, 15  # utime, stime, cutime, cstime lie between
TEMPORARY: Final = ("tmp", "home", "dev/shm")


def tree(root: int) -> list[int]:
    """List a process and everything below it. What a daemon leaves goes to the sandbox's first process, so: all."""
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children(process)
    return found


def children(process: int) -> list[int]:
    """List the children of every thread of a process."""
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
        return [int(child) for thread in threads for child in told(f"/proc/{process}/task/{thread}/children").split()]
    return []


def threads_of(user: int) -> int:
    """Count the threads of all processes of a user, which is what RLIMIT_NPROC counts."""
    found = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                found += len(os.listdir(f"/proc/{name}/task"))
    return found


def nameless_bytes(top: int, apart: set[int], seconds: float) -> int:
    """Say how much lies in files that have no name any more and are still open, but for those on devices `apart`."""
    end, found = time.monotonic() + seconds, {}
    for process in tree(top):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    file = os.stat(f"/proc/{process}/fd/{name}")
                    if not file.st_nlink and stat.S_ISREG(file.st_mode) and file.st_dev not in apart:
                        found[file.st_dev, file.st_ino] = file.st_blocks * _BLOCK
        if time.monotonic() > end:
            break
    return sum(found.values())


def devices(folders: list[str]) -> set[int]:
    """Name the devices of folders that are counted as memory, and that of nameless memory files."""
    descriptor = os.memfd_create("tipstaff")
    found = {os.fstat(descriptor).st_dev}
    os.close(descriptor)
    for folder in folders:
        with contextlib.suppress(OSError):
            found.add(os.stat(folder).st_dev)
    return found


def memory_bytes(top: int, limit: int, folders: list[str]) -> int:
    """Say how much memory a sandbox takes: its processes, with shared pages counted once, and its temporary files."""
    processes = tree(top)
    files = sum(map(_file_bytes, folders))
    resident = sum(_resident(process) for process in processes)
    if files + resident <= limit:
        return files + resident
    return files + sum(_proportional(process) for process in processes)


def cpu_seconds(first: int) -> float:
    """Say how much time the living processes of a sandbox, and those that they waited for, have had."""
    return sum(sum(map(int, _stat(process)[_USER_TIME:_REAL_TIME])) for process in tree(first)) / TICKS


def _stat(process: int) -> list[str]:
    """Split a process's stat line after its name, which may hold anything."""
    return told(f"/proc/{process}/stat").rpartition(")")[2].split()


def _resident(process: int) -> int:
    words = told(f"/proc/{process}/statm").split()
    return int(words[1]) * PAGE if words else 0


def _proportional(process: int) -> int:
    for line in told(f"/proc/{process}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(process)


def _file_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize
