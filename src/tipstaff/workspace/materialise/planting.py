"""Writing a tree into an empty folder: files first, links when all files are there, the rights of folders at the end.

So no link exists while anything is written, and a folder without the right to write is no obstacle. All goes by
descriptor (`Beneath`); what would be there twice, or beneath what is no folder, the kernel refuses.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace import links
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.materialise import bounds

CHUNK: Final = 1024 * 1024  # bytes
FOLDER_RIGHTS: Final = 0o755


class Planting:
    """One folder that is being filled."""

    def __init__(self, target: Path) -> None:
        self._folder = Beneath(target)
        self._rights: dict[bytes, int] = {}
        self._links: dict[bytes, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._folder.close()

    def folder(self, name: bytes, rights: int = FOLDER_RIGHTS) -> None:
        """Make a folder; it gets its rights when all is written."""
        bounds.check_name(name)
        self._folder.folder(name, make=True)
        self._note(name)
        self._rights[name] = rights

    def create(self, name: bytes, rights: int) -> int:
        """Make a file and open it to write; the caller closes it."""
        bounds.check_name(name)
        self._note(name.rpartition(b"/")[0])
        return self._folder.create(name, rights)

    def file(self, name: bytes, rights: int, content: bytes | memoryview) -> None:
        """Make a file with this content."""
        descriptor = self.create(name, rights)
        try:
            write(descriptor, content)
        finally:
            os.close(descriptor)

    def link(self, name: bytes, target: bytes) -> None:
        """Take a link, to be made when all files are there; InputError when there can be no such link."""
        bounds.check_name(name)
        if name in self._links:
            raise FileExistsError(f"{names.shown(name)} is there twice")
        if not target or len(target) > bounds.LONGEST_TARGET or b"\0" in target:
            raise InputError(f"the workspace's link {names.shown(name)[:200]!r} points to what no link can point to")
        self._links[name] = target

    def chunks(self, name: bytes) -> Iterator[bytes]:
        """Read a file again that was written."""
        with os.fdopen(self._folder.open(name), "rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _note(self, name: bytes) -> None:
        while name and name not in self._rights:
            self._rights[name] = FOLDER_RIGHTS
            name = name.rpartition(b"/")[0]

    def _finish(self) -> None:
        for name in self._links:
            if links.leads_out(name, self._links):
                raise InputError(f"the workspace's link {names.shown(name)[:200]!r} leads out of it")
        for name, target in self._links.items():
            self._note(name.rpartition(b"/")[0])
            self._folder.link(target, name)
        self._folder.forget()
        for name in sorted(self._rights, reverse=True):  # what is inside comes first: a folder may close the way to it
            os.fchmod(self._folder.folder(name), self._rights[name] & 0o777)


def write(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of it."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
