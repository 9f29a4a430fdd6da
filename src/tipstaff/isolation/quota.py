"""The file system's own bound on what one sandbox writes: a project quota, where it has them switched on.

The project's number is the sandbox's leased uid, so that it is nobody else's on this host. Its folder gets the number
before anything is in it, and passes it on. Only root can set this, and only inside a user namespace of its own can a
command not take its files out of the project again: no quota is set for others. What a killed spawner left set is
bound to a number that nobody writes under, and is set anew with its next lease.
Says what the kernel says; whether that is enough is judged elsewhere.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from typing import Final, NamedTuple

from tipstaff.isolation import kernel

FEWEST_FILES: Final = 1024
MOST_FILES: Final = 10_000_000
_FILE_BYTES: Final = 4096  # as many files as there would be blocks: an empty file takes space too
_UNIT: Final = 1024  # of the limits on space

_QUOTACTL_FD: Final = 443  # Linux 5.14
_PROJECTS: Final = 2
_GET: Final = (0x800007 << 8) | _PROJECTS
_SET: Final = (0x800008 << 8) | _PROJECTS
_STATE: Final = (((ord("X") << 8) + 8) << 8) | _PROJECTS  # Q_XGETQSTATV
_STATE_VERSION: Final = 1
_STATE_BYTES: Final = 256
_ENFORCED: Final = 1 << 5  # FS_QUOTA_PDQ_ENFD
_LIMITS_ONLY: Final = 1 | 4
_RECORD: Final = struct.Struct("=8QI4x")

_GET_ATTRIBUTES: Final = 0x801C581F
_SET_ATTRIBUTES: Final = 0x401C5820
_ATTRIBUTES: Final = struct.Struct("=5I8x")
_PASSED_ON: Final = 0x200  # FS_XFLAG_PROJINHERIT


class Bound(NamedTuple):
    """How much a sandbox may write in all."""

    bytes: int
    files: int


class Use(NamedTuple):
    """What the kernel says of one project: how much it may have, and how much it has. A limit of 0 is none."""

    limit: Bound
    taken: Bound


def bound(disk_bytes: int) -> Bound:
    """Say which limits stand for `disk_bytes`: never more bytes, and a number of files that fits them."""
    space = disk_bytes // _UNIT * _UNIT
    return Bound(space, max(FEWEST_FILES, min(disk_bytes // _FILE_BYTES, MOST_FILES)))


def full(use: Use, block_bytes: int) -> bool:
    """Say whether a project has come to its end: not another block, or not another file."""
    space = 0 < use.limit.bytes < use.taken.bytes + block_bytes
    return space or 0 < use.limit.files <= use.taken.files


class Quota:
    """The project quotas of the file system that holds `folder`."""

    def __init__(self, folder: str) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.offered = os.geteuid() == 0 and _enforced(self._descriptor)
        self._block_bytes = os.fstatvfs(self._descriptor).f_bsize

    def bind(self, folder: str, project: int, disk_bytes: int) -> None:
        """Bound what will be in the empty `folder`; OSError where it cannot be, or where the project has files."""
        if self.read(project).taken != (0, 0):
            raise OSError(errno.EEXIST, "files of this project are there already", folder)
        self._set(project, bound(disk_bytes))
        _mark(folder, project)

    def read(self, project: int) -> Use:
        """Ask the kernel what holds for a project."""
        record = ctypes.create_string_buffer(_RECORD.size)
        try:
            _ask(self._descriptor, _GET, project, record)
        except ProcessLookupError:  # ESRCH: it never had any
            return Use(Bound(0, 0), Bound(0, 0))
        space, _, taken, files, _, taken_files, *_ = _RECORD.unpack(record.raw)
        return Use(Bound(space * _UNIT, files), Bound(taken, taken_files))

    def full(self, project: int) -> bool:
        """Say whether nothing more fits; False where the kernel does not say."""
        with contextlib.suppress(OSError):
            return full(self.read(project), self._block_bytes)
        return False

    def clear(self, project: int) -> None:
        """Take the limits away, when its files are gone."""
        self._set(project, Bound(0, 0))

    def _set(self, project: int, limit: Bound) -> None:
        record = _RECORD.pack(limit.bytes // _UNIT, 0, 0, limit.files, 0, 0, 0, 0, _LIMITS_ONLY)
        _ask(self._descriptor, _SET, project, record)


def _enforced(descriptor: int) -> bool:
    """Say whether limits on projects hold here; without the mount's own option they are counted, and not held."""
    state = ctypes.create_string_buffer(bytes([_STATE_VERSION]), _STATE_BYTES)
    try:
        _ask(descriptor, _STATE, 0, state)
    except OSError:
        return False
    (flags,) = struct.unpack_from("=H", state.raw, 2)
    return bool(flags & _ENFORCED)


def _ask(descriptor: int, command: int, project: int, record: object) -> None:
    kernel.call(_QUOTACTL_FD, descriptor, ctypes.c_uint(command), ctypes.c_uint(project), record)


def _mark(folder: str, project: int) -> None:
    """Make a folder a project's, with all that will be made in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = fcntl.ioctl(descriptor, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
        flags, extent, extents, _, copied = _ATTRIBUTES.unpack(found)
        wanted = _ATTRIBUTES.pack(flags | _PASSED_ON, extent, extents, project, copied)
        fcntl.ioctl(descriptor, _SET_ATTRIBUTES, wanted)
    finally:
        os.close(descriptor)
