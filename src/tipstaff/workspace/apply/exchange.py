"""Moves that write over nothing and follow nothing: a name is put where nothing is, or two names change places.

A plain rename replaces whatever somebody has put there since it was looked at; these do not, so that what is found to
be wrong afterwards can be put back. File systems that know neither move are asked by look and rename.
"""

import ctypes
import errno
import os
from contextlib import suppress
from typing import Final

Place = tuple[int, bytes]  # an open folder, and a name in it
_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_UNKNOWN: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_SPARE: Final = b".spare"
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def move(source: Place, goal: Place) -> None:
    """Move a name to where nothing is; FileExistsError when something is there."""
    if _renamed(source, goal, _NOREPLACE):
        return
    if is_there(goal):
        raise FileExistsError(errno.EEXIST, "something is there", os.fsdecode(goal[1]))
    os.rename(source[1], goal[1], src_dir_fd=source[0], dst_dir_fd=goal[0])


def exchange(one: Place, other: Place) -> None:
    """Let two names change places, of which both are there."""
    if _renamed(one, other, _EXCHANGE):
        return
    spare = (one[0], one[1] + _SPARE)
    move(other, spare)
    try:
        move(one, other)
    except OSError:
        with suppress(FileExistsError):  # somebody has put another there since: theirs stays
            move(spare, other)
        raise
    move(spare, one)


def is_there(place: Place) -> bool:
    """Say whether anything has this name."""
    try:
        os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _renamed(source: Place, goal: Place, how: int) -> bool:
    """Ask the kernel; no where it, or the file system, does not know how."""
    if _renameat2 is None:
        return False
    if _renameat2(source[0], source[1], goal[0], goal[1], how) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(goal[1]))
