"""Starts one program with exactly the descriptors, the identity and the group that it is to have.

By posix_spawn, which does not copy our memory: 0.4 ms where a fork that then becomes the program takes 1.7. The child
inherits what we are at that moment, so for that moment we are in its group, and our real uid is its uid; POSIX's own
"reset ids" makes that its only one, and its execve takes the saved one away. We have one thread, so nobody sees it.
Whatever was not named is closed by its own flag: nothing of ours is inheritable. What the program may use is bounded
by its group, and by the stub.
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from typing import Final, NamedTuple

from tipstaff.isolation.cgroup import Group

_HIGH: Final = 256  # sources are moved up here first, so that none is overwritten on the way to its number
_SIGNALS: Final = [number for number in range(1, 32) if number not in {signal.SIGKILL, signal.SIGSTOP}]


class Start(NamedTuple):
    """One program to start."""

    command: list[str]
    descriptors: dict[int, int]  # the number that it is to have: the number that it has here
    uid: int | None  # None: as ourselves
    group: Group | None


def launch(start: Start) -> int:
    """Start the program and give its process id; OSError when it cannot be started."""
    high = {number: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number, source in start.descriptors.items()}
    moves = [(os.POSIX_SPAWN_DUP2, source, number) for number, source in high.items()]
    try:
        with _member(start.group), _identity(start.uid):
            return os.posix_spawn(
                start.command[0],
                start.command,
                {},
                file_actions=moves,
                resetids=True,
                # What Python, we or our caller ignore is nothing to the program.
                setsigdef=_SIGNALS,
                setsigmask=[],
            )
    finally:
        for source in high.values():
            os.close(source)


@contextlib.contextmanager
def _member(group: Group | None) -> Iterator[None]:
    if group is None:
        yield
        return
    try:
        group.join()
        yield
    finally:
        group.leave()


@contextlib.contextmanager
def _identity(uid: int | None) -> Iterator[None]:
    """Have `uid` as our real one; the effective one, which is what we may, stays."""
    if uid is None:
        yield
        return
    try:
        os.setresgid(uid, -1, -1)
        os.setresuid(uid, -1, -1)
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
