"""A folder and what lies beneath it: every step by descriptor, no symbolic link followed, nothing above reached.

Whoever can write beneath the folder can exchange a part of a name for a link at any time; the open then fails instead
of leading elsewhere (CVE-2026-39861 and its kind). Names are bytes, relative, as `model.names` allows them.
"""

import errno
import os
import stat
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace.copying import CREATE, FOLDER, READ

__all__ = ["CREATE", "FOLDER", "READ", "Beneath"]
HELD: Final = 256  # folders that are kept open


class Beneath:
    """One folder, held open; names are looked up from it."""

    def __init__(self, path: Path | str | int) -> None:
        """Hold `path`, which may be a descriptor of a folder (it is then used by duplicate)."""
        self.descriptor = os.dup(path) if isinstance(path, int) else os.open(path, FOLDER)
        self._held: OrderedDict[bytes, int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        self.forget()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def forget(self) -> None:
        """Let go of the folders beneath, so that they are looked up anew."""
        while self._held:
            os.close(self._held.popitem()[1])

    def folder(self, name: bytes, *, make: bool = False) -> int:
        """Give a descriptor of a folder beneath, ours to keep; b"" is the folder itself. `make` makes what is missing.

        NotADirectoryError where a part of the name is a link or a file; FileNotFoundError where it is not there.
        """
        held, missing = name, []
        while held and held not in self._held:
            held, _, last = held.rpartition(b"/")
            missing.append(last)
        found = self._held[held] if held else self.descriptor
        if held:
            self._held.move_to_end(held)
        for last in reversed(missing):
            found = self._entered(found, last, make=make)
            held = b"/".join((held, last)) if held else last
            self._held[held] = found
            if len(self._held) > HELD:  # the oldest may be above this one: from here on the way leads down
                os.close(self._held.popitem(last=False)[1])
        return found

    def _entered(self, above: int, name: bytes, *, make: bool) -> int:
        """Open a folder in an open folder."""
        try:
            return os.open(name, FOLDER, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise NotADirectoryError(error.errno, "a part of the name is no folder", names.shown(name)) from error
            raise
        os.mkdir(name, 0o755, dir_fd=above)
        return os.open(name, FOLDER, dir_fd=above)

    def place(self, name: bytes, *, make: bool = False) -> tuple[int, bytes]:
        """Give the folder that a name is in, and the last part of the name; InputError for what is no name."""
        if problem := names.fault(name):
            raise InputError(f"{names.shown(name)[:200]!r} is not the name of something in a folder: {problem}")
        above, _, last = name.rpartition(b"/")
        return self.folder(above, make=make), last

    def stat(self, name: bytes) -> os.stat_result | None:
        """Say what is there, without following a link; None where nothing is, or a part of the name is no folder."""
        try:
            folder, last = self.place(name)
            return os.stat(last, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: bytes) -> int:
        """Open a file to read it; OSError when it is no regular file."""
        folder, last = self.place(name)
        descriptor = os.open(last, READ, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file", names.shown(name))
        return descriptor

    def target(self, name: bytes) -> bytes:
        """Read where a link points to."""
        folder, last = self.place(name)
        return os.readlink(last, dir_fd=folder)

    def create(self, name: bytes, rights: int, *, make: bool = True) -> int:
        """Make a new file and open it to write; FileExistsError when anything is there."""
        folder, last = self.place(name, make=make)
        descriptor = os.open(last, CREATE, 0o600, dir_fd=folder)
        os.fchmod(descriptor, rights & 0o777)
        return descriptor

    def link(self, target: bytes, name: bytes, *, make: bool = True) -> None:
        """Make a symbolic link."""
        folder, last = self.place(name, make=make)
        os.symlink(target, last, dir_fd=folder)

    def make_folder(self, name: bytes, rights: int = 0o755) -> None:
        """Make a folder; one that is there is given these rights."""
        folder, last = self.place(name, make=True)
        with suppress(FileExistsError):
            os.mkdir(last, dir_fd=folder)
        os.fchmod(self.folder(name), rights & 0o777)

    def remove(self, name: bytes) -> None:
        """Remove a file or a link."""
        folder, last = self.place(name)
        os.unlink(last, dir_fd=folder)
