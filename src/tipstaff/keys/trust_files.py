"""The files in which a home notes whom it trusts: known keys, and the keys of planes.

Read only while nobody but their owner and root can write them, up to a bound; written whole, 0600 and to the disk, so
that a reader sees the old one or the new one; changed under a lock. What stands in them is their readers' business.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tipstaff.errors import InputError, StoreError

MAX_BYTES: Final = 4 * 1024 * 1024
RESTORE: Final = "restore it, or move it away to start anew"
WRITABLE_BY_OTHERS: Final = 0o022


def read_trust_file(path: Path, danger: str) -> bytes | None:
    """Read a file, or None where there is none; `danger` is what others could do who can write it."""
    try:
        with path.open("rb") as file:
            status, data = os.fstat(file.fileno()), file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & WRITABLE_BY_OTHERS:
        raise InputError(
            f"{path} can be written by other users, who could {danger}",
            hint=f"look at it, then run: chown $USER {path} && chmod 600 {path}",
        )
    if len(data) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES} bytes", hint=RESTORE)
    return data


def write_trust_file(path: Path, data: bytes) -> None:
    """Write a file whole; the caller holds the lock."""
    temporary = path.with_name(f".{path.name}.new")  # one name: what a kill left behind is written over
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:  # noqa: PTH123 - a mode at creation
            os.fchmod(file.fileno(), 0o600)  # it may have been there already
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint="check the disk") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: two that change its files at once wait for each other."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
