"""Files that are read, hashed and written: the innermost loop of a capture, and a second process that takes a part.

Standard library only, and little of that, because the second process must have started before there is nothing left to
do. It is handed two open folders and, on its stdin, which files are to be copied; it looks each folder up beneath them,
follows no link, and gives the digests back. A file that is not what was looked at before stops the whole.
"""

import errno
import marshal
import os
import sys
from hashlib import sha256

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from collections.abc import Iterable

PART_BYTES = 1 << 20
NOWHERE = -1
LFS = b"version https://git-lfs.github.com/spec/"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in its place is not waited for
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
File = tuple[bytes, int, int, int, int, int]  # its last name, size, times of content and of change, inode, rights
Job = tuple[bytes, list[File]]  # a folder, and which of its files are to be copied
Copied = tuple[list[str], list[int]]  # the digest of each, and which of them only stand for a larger one
CHANGED, UNREADABLE, UNWRITABLE = range(3)


class StoppedError(Exception):
    """Why it could not go on: what kind of reason, the file, and the kernel's number for it."""

    def __init__(self, reason: int, name: bytes, number: int = 0) -> None:
        super().__init__(reason, name, number)
        self.reason = reason
        self.name = name
        self.number = number


def copy(job: Job, here: int, there: int, umask: int) -> Copied:
    """Copy the files of one open folder into another, or only hash them where `there` is NOWHERE."""
    name, files = job
    digests: list[str] = []
    pointers: list[int] = []
    for file in files:
        last, size, modified, changed, inode, _ = file
        try:
            source = os.open(last, READ, dir_fd=here)
        except OSError as error:
            raise StoppedError(UNREADABLE, _joined(name, last), error.errno or 0) from error
        try:
            content, digest = _content(source, file, there, umask)
            after = os.fstat(source)
        except OSError as error:
            raise StoppedError(UNWRITABLE, _joined(name, last), error.errno or 0) from error
        finally:
            os.close(source)
        # It is the file that was looked at, and nobody has written to it since: that would change its times.
        if (
            after.st_ctime_ns != changed
            or after.st_mtime_ns != modified
            or after.st_ino != inode
            or after.st_size != size
            or digest == ""
        ):
            raise StoppedError(CHANGED, _joined(name, last))
        if content.startswith(LFS):
            pointers.append(len(digests))
        digests.append(digest)
    return digests, pointers


def _content(source: int, file: File, there: int, umask: int) -> tuple[bytes, str]:
    """Copy one file; gives its content, or the beginning of a large one's, and its digest: none where it is shorter."""
    last, size, _, _, _, rights = file
    if size >= PART_BYTES:
        return b"", _in_parts(source, file, there, umask)
    content = os.read(source, size + 1)
    if len(content) != size:
        return content, ""
    if there != NOWHERE:
        target = _created(there, last, rights, umask)
        try:
            if os.write(target, content) != size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(target)
    return content, sha256(content).hexdigest()


def _in_parts(source: int, file: File, there: int, umask: int) -> str:
    """Go through a large file in bounded memory; what there is more of it than was said is not read."""
    last, left, _, _, _, rights = file
    digest = sha256()
    target = _created(there, last, rights, umask) if there != NOWHERE else NOWHERE
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


def _created(there: int, last: bytes, rights: int, umask: int) -> int:
    target = os.open(last, CREATE, rights, dir_fd=there)
    if rights & umask:
        os.fchmod(target, rights)
    return target


def _joined(folder: bytes, last: bytes) -> bytes:
    return folder + b"/" + last if folder else last


def copy_all(jobs: "Iterable[Job]", source: int, target: int, umask: int) -> list[Copied]:
    """Copy what the jobs say, from beneath one open folder to beneath another."""
    copied = []
    for job in jobs:
        try:
            here = _entered(source, job[0])
        except OSError as error:
            raise StoppedError(CHANGED, job[0], error.errno or 0) from error
        try:
            there = _entered(target, job[0]) if target != NOWHERE else NOWHERE
            try:
                copied.append(copy(job, here, there, umask))
            finally:
                if there != NOWHERE:
                    os.close(there)
        finally:
            os.close(here)
    return copied


def _entered(folder: int, name: bytes) -> int:
    """Open a folder beneath an open one, step by step."""
    found = os.dup(folder)
    for part in name.split(b"/") if name else ():
        above, found = found, NOWHERE
        try:
            found = os.open(part, FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return found


def main() -> None:
    """Be the second process: descriptors and umask as arguments, jobs on stdin, what came of them on stdout."""
    source, target, umask = map(int, sys.argv[-3:])
    answer: tuple[tuple[int, bytes, int] | None, list[Copied]]
    try:
        answer = None, copy_all(marshal.load(sys.stdin.buffer), source, target, umask)  # noqa: S302 - from our own process
    except StoppedError as error:
        answer = (error.reason, error.name, error.number), []
    marshal.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
