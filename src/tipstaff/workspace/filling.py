"""A folder being filled with what a scan found: one pass over every file, which is read, hashed and written.

What is known to be unchanged is not read at all: it is linked from the last copy, which nobody can write. A file that
is another one when it is opened, or changes while it is read, stops the whole (`ChangedError`). Memory is flat whatever
the size of a file.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tipstaff.errors import InputError, StoreError, TipstaffError
from tipstaff.model import names
from tipstaff.workspace.beneath import CREATE, READ, Beneath
from tipstaff.workspace.listing import FILE, FOLDER, LINK, NO_DIGEST, RIGHTS, Entry
from tipstaff.workspace.scan import ChangedError, Room, Scan, joined

PART_BYTES: Final = 1 << 20
LFS: Final = b"version https://git-lfs.github.com/spec/"
NOWHERE: Final = -1
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
Digests = Mapping[bytes, str]
Job = tuple[Room, list[bytes]]  # a folder, and which of its files are to be copied
MANY: Final = 200  # files


class Known(NamedTuple):
    """What is known before anything is written."""

    unchanged: Digests = MappingProxyType({})  # files that are as they are in `previous`
    previous: Path | None = None  # the last copy of the folder
    expected: Digests = MappingProxyType({})  # what was read a moment ago


class Filled(NamedTuple):
    """What was found on the way: the digests of all files, and which of them only stand for a larger one."""

    digests: dict[bytes, str]
    pointers: set[bytes]


def hashed(source: Beneath, scan: Scan, known: Digests) -> Filled:
    """Read what is not known, and write nothing."""
    copying = _Copying(Filled(dict(known), set()), 0)
    for room in scan.rooms:
        left = [last for last in room.files if joined(room.name, last) not in known]
        copying.copy(room, left, _entered(source, room.name), NOWHERE)
    return copying.filled


def fill(source: Beneath, target: Path, scan: Scan, known: Known) -> Filled:
    """Write all that a scan found into an empty folder."""
    copying = _Copying(Filled(dict(known.expected or known.unchanged), set()), _umask(target))
    before = Beneath(known.previous) if known.previous is not None and known.unchanged else None
    try:
        with Beneath(target) as top:
            jobs = [(room, _unlinked(room, known, before, _made(top, room))) for room in scan.rooms]
            _copy_all(copying, jobs, source, top)
            for room in reversed(scan.rooms[1:]):  # rights last: they may keep even us from writing
                os.fchmod(top.folder(room.name), room.status.st_mode & RIGHTS)
    except OSError as error:
        raise StoreError(
            f"the copy of the workspace cannot be written: {error.strerror}",
            hint="make room on the disk, or set TIPSTAFF_HOME to a folder on a larger one",
        ) from error
    finally:
        if before is not None:
            before.close()
    return copying.filled


def _copy_all(copying: "_Copying", jobs: list[Job], source: Beneath, top: Beneath) -> None:
    """Copy what the jobs say, two at once where there is much: most of it is waiting for the kernel."""
    waiting = iter(jobs)
    if sum(len(left) for _, left in jobs) < MANY:
        _copy_some(copying, waiting, source, top)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few captures have so much to copy

    with ThreadPoolExecutor(1) as other, Beneath(source.descriptor) as here, Beneath(top.descriptor) as there:
        beside = other.submit(_copy_some, copying, waiting, here, there)
        _copy_some(copying, waiting, source, top)
        beside.result()


def _copy_some(copying: "_Copying", waiting: Iterator[Job], source: Beneath, top: Beneath) -> None:
    for room, left in waiting:
        if left:
            copying.copy(room, left, _entered(source, room.name), top.folder(room.name))


def _made(top: Beneath, room: Room) -> int:
    """Make a folder with its links, and open it."""
    if room.name:
        above, last = top.place(room.name)
        os.mkdir(last, 0o700, dir_fd=above)
    there = top.folder(room.name)
    for last, target in room.links.items():
        os.symlink(target, last, dir_fd=there)
    return there


def _unlinked(room: Room, known: Known, before: Beneath | None, there: int) -> list[bytes]:
    """Link what is unchanged from the last copy, and give what is left: all, where a file system has no links."""
    if before is None:
        return list(room.files)
    prefix = room.name + b"/" if room.name else b""
    with suppress(OSError):
        old = before.folder(room.name)
        return [last for last in room.files if prefix + last not in known.unchanged or not _linked(last, old, there)]
    return list(room.files)


def _linked(last: bytes, old: int, there: int) -> bool:
    try:
        os.link(last, last, src_dir_fd=old, dst_dir_fd=there, follow_symlinks=False)
    except OSError:
        return False
    return True


class _Copying:
    """The innermost loop: it takes most of the time of a first capture."""

    def __init__(self, filled: Filled, umask: int) -> None:
        """Add to `filled`; a digest that is in it already must come out again."""
        self.filled = filled
        self._umask = umask

    def copy(self, room: Room, lasts: list[bytes], here: int, there: int) -> None:
        """Copy some files of a folder, or only hash them; ChangedError when one is not what the scan saw."""
        prefix = room.name + b"/" if room.name else b""
        digests, files = self.filled.digests, room.files
        for last in lasts:
            name, status = prefix + last, files[last]
            try:
                source = os.open(last, READ, dir_fd=here)
            except OSError as error:
                raise _unopened(name, error) from error
            try:
                digest = self._copied(source, there, last, name, status)
                after = os.fstat(source)
            finally:
                os.close(source)
            # It is the file that was looked at, and nobody has written to it since: that would change its times.
            if (
                after.st_ctime_ns != status.st_ctime_ns
                or after.st_mtime_ns != status.st_mtime_ns
                or after.st_ino != status.st_ino
                or after.st_size != status.st_size
                or digests.setdefault(name, digest) != digest
            ):
                raise ChangedError(name)

    def _copied(self, source: int, there: int, last: bytes, name: bytes, status: os.stat_result) -> str:
        size = status.st_size
        if size >= PART_BYTES:
            return self._in_parts(source, there, last, status)
        content = os.read(source, size + 1)
        if len(content) != size:
            raise ChangedError(name)
        if there != NOWHERE:
            target = self._created(there, last, status.st_mode & RIGHTS)
            try:
                if os.write(target, content) != size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(target)
        if content.startswith(LFS):
            self.filled.pointers.add(name)
        return sha256(content).hexdigest()

    def _in_parts(self, source: int, there: int, last: bytes, status: os.stat_result) -> str:
        """Go through a large file in bounded memory; what there is more of it than was said is not read."""
        digest, left = sha256(), status.st_size
        target = self._created(there, last, status.st_mode & RIGHTS) if there != NOWHERE else NOWHERE
        try:
            while left and (part := os.read(source, min(PART_BYTES, left))):
                digest.update(part)
                left -= len(part)
                while part and target != NOWHERE:
                    part = part[os.write(target, part) :]
        finally:
            if target != NOWHERE:
                os.close(target)
        return digest.hexdigest()

    def _created(self, there: int, last: bytes, rights: int) -> int:
        target = os.open(last, CREATE, rights, dir_fd=there)
        if rights & self._umask:
            os.fchmod(target, rights)
        return target


def _entered(source: Beneath, name: bytes) -> int:
    try:
        return source.folder(name)
    except OSError as error:
        raise ChangedError(name) from error


def _unopened(name: bytes, error: OSError) -> TipstaffError:
    """Say why a file could not be opened."""
    if error.errno in _GONE:
        return ChangedError(name)
    hint = "make it readable, ignore it or deny it"
    return InputError(f"{names.shown(name)!r} cannot be read: {error.strerror}", hint=hint)


def entries(scan: Scan, digests: Digests) -> list[Entry]:
    """Give the list's entries for what was captured."""
    found = []
    for room in scan.rooms:
        if room.name:
            found.append(Entry(room.name, FOLDER | room.status.st_mode & RIGHTS, NO_DIGEST, 0))
        prefix = room.name + b"/" if room.name else b""
        for last, status in room.files.items():
            name = prefix + last
            found.append(Entry(name, FILE | status.st_mode & RIGHTS, digests[name], status.st_size))
        for last, target in room.links.items():
            found.append(Entry(prefix + last, LINK | RIGHTS, sha256(target).hexdigest(), len(target)))
    return found


def _umask(folder: Path) -> int:
    """Find which rights new files are not given here, without changing that for other threads."""
    probe = folder / ".probe"
    probe.mkdir(mode=RIGHTS)
    try:
        return RIGHTS & ~probe.stat().st_mode
    finally:
        probe.rmdir()
