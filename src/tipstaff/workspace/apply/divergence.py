"""Whether a folder is still as it was when a run began, name by name, and a three-way account of where it is not.

What is there is looked at by descriptor, beneath the folder. Content counts, type counts, and of the rights whether a
file can be executed: what a person's umask makes of the others is no divergence. Changes nothing.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from tipstaff.errors import TipstaffError
from tipstaff.model import names
from tipstaff.model.changes import FILE, LINK, RIGHTS, Side
from tipstaff.workspace.beneath import Beneath

Kind = Literal["nothing", "file", "link", "folder", "other", "blocked"]
Stamp = tuple[int, int, int]  # inode, size, time of change: what tells that a file was exchanged since
EXECUTE: Final = 0o100
CHUNK_BYTES: Final = 1 << 20
LOOKS: Final = 3
_EXCHANGED: Final = frozenset({errno.EINVAL, errno.ELOOP, errno.ENOENT, errno.ENOTDIR})  # between two looks at a name
_WORDS: Final = {
    "nothing": "nothing",
    "folder": "a folder",
    "other": "neither a file, a link nor a folder",
    "blocked": "beneath what is no folder",
}


class Present(NamedTuple):
    """What is there under a name."""

    kind: Kind
    side: Side | None = None
    stamp: Stamp = (0, 0, 0)

    def __str__(self) -> str:
        return _WORDS.get(self.kind) or told(self.side)


class Conflict(NamedTuple):
    """A name that is neither as it was when the run began, nor as the run left it."""

    name: bytes
    base: Side | None
    here: Present
    now: Side | None
    unknown: str = ""  # why it is not known what was there before the run; `base` does not count then


class DivergedError(TipstaffError):
    """The folder is not as it was: nothing was written."""

    def __init__(self, message: str, conflicts: Iterable[Conflict] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.conflicts = tuple(conflicts)


def present(target: Beneath, name: bytes) -> Present:
    """Look at what is there, without following a link or waiting for a pipe; what is exchanged meanwhile is no file."""
    for _ in range(LOOKS):
        try:
            return _looked(target, name)
        except OSError as error:
            if error.errno not in _EXCHANGED:
                raise
    return Present("other")


def _looked(target: Beneath, name: bytes) -> Present:
    try:
        folder, last = target.place(name)
        found = os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return Present("nothing")
    except NotADirectoryError:
        return Present("blocked")
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(last, dir_fd=folder)
        return Present("link", Side(LINK | RIGHTS, sha256(content).hexdigest(), len(content)), stamp_of(found))
    if stat.S_ISREG(found.st_mode):
        return _file(target, name)
    return Present("folder" if stat.S_ISDIR(found.st_mode) else "other")


def stamp_of(found: os.stat_result) -> Stamp:
    """Take what tells a file from another that took its place."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def read(target: Beneath, name: bytes) -> Iterator[bytes]:
    """Read a file, chunk by chunk."""
    descriptor = target.open(name)
    try:
        while chunk := os.read(descriptor, CHUNK_BYTES):
            yield chunk
    finally:
        os.close(descriptor)


def same(one: Side | None, other: Side | None) -> bool:
    """Say whether two are the same to a person who reviews: type, content, and whether it can be executed."""
    if one is None or other is None:
        return one is other
    if (one.is_link, one.digest) != (other.is_link, other.digest):
        return False
    return one.is_link or (one.mode ^ other.mode) & EXECUTE == 0


def told(side: Side | None) -> str:
    """Say in a few words what a side is."""
    if side is None:
        return "nothing"
    kind = "a link" if side.is_link else "executable, " if side.mode & EXECUTE else ""
    return f"{kind}{', ' if side.is_link else ''}{side.size} bytes, sha256 {side.digest[:12]}"


def account(conflict: Conflict) -> list[str]:
    """Write out a conflict in three lines below its name."""
    return [
        names.shown(conflict.name),
        f"  before the run: {f'not known: {conflict.unknown}' if conflict.unknown else told(conflict.base)}",
        f"  here now:       {conflict.here}",
        f"  after the run:  {told(conflict.now)}",
    ]


def _file(target: Beneath, name: bytes) -> Present:
    descriptor = target.open(name)
    try:
        found = os.fstat(descriptor)
        content, size = sha256(), 0
        while chunk := os.read(descriptor, CHUNK_BYTES):
            content.update(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return Present("file", Side(FILE | found.st_mode & RIGHTS, content.hexdigest(), size), stamp_of(found))
