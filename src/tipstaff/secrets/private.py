"""Files that hold secrets: read only while nobody else can read them.

What was opened is judged, never its name: a name can be swapped between look and open. No link is followed, nothing
but a plain file is read, and never more than the caller's bound. A file is private when it belongs to us or to root
and grants nothing to group and others; the group's bits may also stand for an access list that names us alone, which
is how systemd hands a credential to a service that is not root.
"""

import os
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from tipstaff.errors import SecretError

GROUP: Final = 0o070
OTHERS: Final = 0o007
WRITABLE_BY_OTHERS: Final = 0o022

_ACCESS_LIST: Final = "system.posix_acl_access"
_HEADER, _ITEM = struct.Struct("<I"), struct.Struct("<HHI")
_USER, _OWNING_GROUP, _GROUP = 0x02, 0x04, 0x08


def read_private(path: Path, max_bytes: int, *, folder: int | None = None, alone: bool = False) -> bytes | None:
    """Read a private file whole, or None where there is none; `alone` also refuses one that has a second name.

    A second name is how somebody who may write the folder could have another private file of ours read in its place.
    """
    try:
        name = path.name if folder is not None else path
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecretError(_unreadable(path, error), hint=_what_helps(path)) from None
    try:
        if problem := _problem(descriptor, path, max_bytes, alone=alone):
            raise SecretError(problem[0], hint=problem[1])
        data = os.read(descriptor, max_bytes)
        if os.read(descriptor, 1):
            del data  # a traceback can show what a frame holds
            raise SecretError(f"{path} changed while it was read", hint="try again when it is written")
    except OSError as error:
        raise SecretError(_unreadable(path, error)) from None
    finally:
        os.close(descriptor)
    return data


def open_folder(path: Path) -> int | None:
    """Open a folder in which only we and root can change anything, or None where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecretError(_unreadable(path, error), hint="see that it is a folder which you may read") from None
    found = os.fstat(descriptor)
    if found.st_uid in (0, os.geteuid()) and not found.st_mode & WRITABLE_BY_OTHERS:
        return descriptor
    os.close(descriptor)
    raise SecretError(
        f"the folder {path} can be changed by other users, who could put a value of theirs in it",
        hint=f"look at it, then run: chown $USER {path} && chmod go-w {path}",
    )


def write_private(folder: int, name: str, data: bytes) -> None:
    """Write a file 0600 in an opened folder, whole and to the disk, or not at all; the caller holds the lock."""
    temporary = f".{name}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)  # what a kill left behind
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123 - beneath a descriptor
            os.fchmod(file.fileno(), 0o600)  # an odd umask may have taken bits away
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise SecretError(
            f"{name} cannot be written: {error.strerror}", hint="see whether its disk is full or failing"
        ) from None


def _problem(descriptor: int, path: Path, max_bytes: int, *, alone: bool) -> tuple[str, str] | None:
    """Say why an opened file is not private, and what to do."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is not a plain file", "name the file itself"
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user", f"look at it, then run: chown $USER {path}"
    if found.st_mode & OTHERS or (found.st_mode & GROUP and not _names_us_alone(descriptor)):
        return f"{path} can be read or written by others", f"change what was in it, then run: chmod 600 {path}"
    if alone and found.st_nlink != 1:
        return f"{path} has {found.st_nlink} names (hard links)", "remove the others: who can reach them is unknown"
    if found.st_size > max_bytes:
        return f"{path} is larger than {max_bytes} bytes", "is it the right file?"
    return None


def _names_us_alone(descriptor: int) -> bool:
    """Say whether the group's bits are the mask of an access list that grants nothing but to us and root."""
    try:
        data = os.getxattr(descriptor, _ACCESS_LIST)
        items = list(_ITEM.iter_unpack(data[_HEADER.size :]))
    except (OSError, struct.error):
        return False
    groups = [allowed for tag, allowed, _ in items if tag in (_OWNING_GROUP, _GROUP)]
    users = [who for tag, allowed, who in items if tag == _USER and allowed]
    return bool(items) and not any(groups) and all(who in (0, os.geteuid()) for who in users)


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror}"


def _what_helps(path: Path) -> str:
    return "name the file itself: a link is not followed" if path.is_symlink() else "see that you may read it"
