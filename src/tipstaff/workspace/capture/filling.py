"""A folder being filled with what a scan found: one pass over every file, which is read, hashed and written.

What is known to be unchanged is not read at all: it is linked from the last copy, which nobody can write. A file that
is another one when it is opened, or changes while it is read, stops the whole (`ChangedError`). Memory is flat whatever
the size of a file. Where there is much to copy and a second processor, a second process takes a part of it.
"""

import errno
import marshal
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tipstaff.errors import InputError, StoreError, TipstaffError
from tipstaff.model import names
from tipstaff.workspace import copying
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.scan import ChangedError, Room, Scan, joined
from tipstaff.workspace.copying import Copied, Job, StoppedError
from tipstaff.workspace.listing import FILE, FOLDER, LINK, NO_DIGEST, RIGHTS, Entry

MANY: Final = 1000  # files, from which on a second process is worth its start
SHARE: Final = 0.44  # of the work: it starts later
FILE_BYTES: Final = 20_000  # how much could be copied in the time that it takes to open and close a file
_PACKAGES: Final = str(Path(__file__).resolve().parents[3])
# As the spawner is started: no site, no variables, nothing from the current folder.
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from tipstaff.workspace.copying import main; main()"
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
Digests = Mapping[bytes, str]


class Known(NamedTuple):
    """What is known before anything is written."""

    unchanged: Digests = MappingProxyType({})  # files that are as they are in `previous`
    previous: Path | None = None  # the last copy of the folder
    expected: Digests = MappingProxyType({})  # what was read a moment ago


class Filled(NamedTuple):
    """What was found on the way: the digests of all files, and which of them only stand for a larger one."""

    digests: dict[bytes, str]
    pointers: set[bytes]

    def add(self, jobs: Iterable[Job], copied: Iterable[Copied]) -> None:
        """Take in what came of some jobs; ChangedError where a digest is not the one that was known."""
        for (folder, files), (digests, pointers) in zip(jobs, copied, strict=True):
            for file, digest in zip(files, digests, strict=True):
                name = joined(folder, file[0])
                if self.digests.setdefault(name, digest) != digest:
                    raise ChangedError(name)
            self.pointers.update(joined(folder, files[place][0]) for place in pointers)


def hashed(source: Beneath, scan: Scan, known: Digests) -> Filled:
    """Read what is not known, and write nothing."""
    filled = Filled(dict(known), set())
    left = [(room, [last for last in room.files if joined(room.name, last) not in known]) for room in scan.rooms]
    jobs = [_job(room, lasts) for room, lasts in left if lasts]
    try:
        filled.add(jobs, copying.copy_all(jobs, source.descriptor, copying.NOWHERE, 0))
    except StoppedError as stopped:
        raise _told(stopped) from stopped
    return filled


def fill(source: Beneath, target: Path, scan: Scan, known: Known) -> Filled:
    """Write all that a scan found into an empty folder."""
    filled = Filled(dict(known.expected or known.unchanged), set())
    before = Beneath(known.previous) if known.previous is not None and known.unchanged else None
    try:
        with Beneath(target) as top:
            left = [(room, _unlinked(room, known, before, _made(top, room))) for room in scan.rooms]
            jobs = [_job(room, lasts) for room, lasts in left if lasts]
            filled.add(jobs, _copied(jobs, source.descriptor, top.descriptor, _umask(target)))
            for room in reversed(scan.rooms[1:]):  # rights last: they may keep even us from writing
                os.fchmod(top.folder(room.name), room.status.st_mode & RIGHTS)
    except StoppedError as stopped:
        raise _told(stopped) from stopped
    except OSError as error:
        raise _unwritable(str(error.strerror)) from error
    finally:
        if before is not None:
            before.close()
    return filled


def _job(room: Room, lasts: list[bytes]) -> Job:
    files = []
    for last in lasts:
        one = room.files[last]
        about = (one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino, one.st_mode & RIGHTS)
        files.append((last, *about))
    return room.name, files


def _copied(jobs: list[Job], source: int, target: int, umask: int) -> list[Copied]:
    """Copy it all, alone or with a second process, which has the last of the jobs."""
    if sum(len(files) for _, files in jobs) < MANY or len(os.sched_getaffinity(0)) == 1:
        return copying.copy_all(jobs, source, target, umask)
    ours = _ours(jobs)
    words = [_PACKAGES, str(source), str(target), str(umask)]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _PROGRAM, *words],
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(source, target),
    ) as other:
        try:
            assert other.stdin is not None  # noqa: S101 - asked for above
            with suppress(BrokenPipeError), other.stdin:
                marshal.dump(jobs[ours:], other.stdin)
            copied = copying.copy_all(jobs[:ours], source, target, umask)
            return copied + _answered(other)
        finally:
            other.kill()


def _ours(jobs: list[Job]) -> int:
    """Say how many of the jobs are ours, by how much there is in them."""
    weights = [sum(file[1] + FILE_BYTES for file in files) for _, files in jobs]
    left, place = sum(weights) * (1 - SHARE), 0
    while place < len(weights) and left > 0:
        left -= weights[place]
        place += 1
    return place


def _answered(other: "subprocess.Popen[bytes]") -> list[Copied]:
    assert other.stdout is not None  # noqa: S101 - asked for above
    try:
        stopped, copied = marshal.load(other.stdout)  # noqa: S302 - a process of our own
    except (EOFError, ValueError, TypeError) as error:
        raise StoreError("the process that copies a part of the workspace was ended", hint="try again") from error
    if stopped is not None:
        raise StoppedError(*stopped)
    found: list[Copied] = copied
    return found


def _told(stopped: StoppedError) -> TipstaffError:
    """Say in our words why the copying stopped."""
    if stopped.reason == copying.CHANGED or (stopped.reason == copying.UNREADABLE and stopped.number in _GONE):
        return ChangedError(stopped.name)
    if stopped.reason == copying.UNREADABLE:
        hint = "make it readable, ignore it or deny it"
        return InputError(f"{names.shown(stopped.name)!r} cannot be read: {os.strerror(stopped.number)}", hint=hint)
    return _unwritable(os.strerror(stopped.number))


def _unwritable(reason: str) -> StoreError:
    return StoreError(
        f"the copy of the workspace cannot be written: {reason}",
        hint="make room on the disk, or set TIPSTAFF_HOME to a folder on a larger one",
    )


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
