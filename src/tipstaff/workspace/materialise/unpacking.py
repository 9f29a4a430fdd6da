"""A tree from its packs: every content is hashed before the name that it belongs to is anything but a new file.

Contents come in the order of the packs. A long one is written piece by piece, and only one such is open at a time. A
content that no name asks for is passed over: an older tree's pack may be used again.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from tipstaff.errors import InputError, NotFoundError
from tipstaff.model import names
from tipstaff.model.blobs import BlobStore
from tipstaff.workspace.listing import FILE, FOLDER, LINK, RIGHTS, Entry
from tipstaff.workspace.materialise import packing
from tipstaff.workspace.materialise.planting import Planting, write

_EMPTY = sha256().hexdigest()


class _Begun(NamedTuple):
    """A long content of which a part is written."""

    digest: str
    descriptor: int
    found: Any  # a hash of hashlib
    size: int


class Unpacking:
    """One tree that is being written from packs."""

    def __init__(self, entries: Iterable[Entry], planting: Planting) -> None:
        self._planting = planting
        self._wanted: defaultdict[str, list[Entry]] = defaultdict(list)
        self._begun: _Begun | None = None
        for entry in entries:
            if entry.type == FOLDER:
                planting.folder(entry.name, entry.mode & RIGHTS)
            elif entry.size == 0:
                self._plant_empty(entry)
            else:
                self._wanted[entry.digest].append(entry)

    def take_all(self, packs: Iterable[str], blobs: BlobStore) -> None:
        """Write what the packs hold; NotFoundError when something is missing at the end."""
        try:
            for digest in packs:
                with packing.opened(blobs, digest, "a pack") as pack:
                    for content, piece in packing.read(pack):
                        self._take(content, piece)
        finally:
            if self._begun is not None:
                os.close(self._begun.descriptor)
        for digest, entries in self._wanted.items():
            name = names.shown(entries[0].name)
            raise NotFoundError(f"no pack of the workspace holds {digest}, the content of {name!r}")

    def _plant_empty(self, entry: Entry) -> None:
        if entry.type != FILE or entry.digest != _EMPTY:
            raise InputError(
                f"the workspace's list says that {names.shown(entry.name)!r} is empty, but not by its digest"
            )
        self._planting.file(entry.name, entry.mode & RIGHTS, b"")

    def _take(self, digest: str, piece: memoryview) -> None:
        if self._begun is not None and self._begun.digest != digest:
            raise InputError(f"a pack of the workspace breaks off in the middle of {self._begun.digest}")
        if digest not in self._wanted:
            return
        if self._begun is not None or self._wanted[digest][0].size != len(piece):
            self._continue(digest, piece)
            return
        _check(digest, sha256(piece).hexdigest())
        for entry in self._wanted.pop(digest):
            _check_size(entry, len(piece))
            if entry.type == LINK:
                self._planting.link(entry.name, bytes(piece))
            else:
                self._planting.file(entry.name, entry.mode & RIGHTS, piece)

    def _continue(self, digest: str, piece: memoryview) -> None:
        """Write a piece of a long content."""
        first = self._wanted[digest][0]
        if self._begun is None:
            if first.type != FILE:
                raise InputError(f"the workspace's link {names.shown(first.name)!r} is longer than a link can be")
            descriptor = self._planting.create(first.name, first.mode & RIGHTS)
            self._begun = _Begun(digest, descriptor, sha256(), 0)
        begun = self._begun = self._begun._replace(size=self._begun.size + len(piece))
        begun.found.update(piece)
        if begun.size > first.size:
            _check_size(first, begun.size)
        write(begun.descriptor, piece)
        if begun.size == first.size:
            self._complete(begun)

    def _complete(self, begun: _Begun) -> None:
        self._begun = None
        os.close(begun.descriptor)
        _check(begun.digest, begun.found.hexdigest())
        first, *others = self._wanted.pop(begun.digest)
        for entry in others:
            self._copy(first, entry)

    def _copy(self, first: Entry, entry: Entry) -> None:
        """Write a long content again, under another name."""
        _check_size(entry, first.size)
        if entry.type != FILE:
            raise InputError(f"the workspace's link {names.shown(entry.name)!r} is longer than a link can be")
        descriptor = self._planting.create(entry.name, entry.mode & RIGHTS)
        try:
            for chunk in self._planting.chunks(first.name):
                write(descriptor, chunk)
        finally:
            os.close(descriptor)


def _check(digest: str, found: str) -> None:
    if found != digest:
        raise InputError(f"a pack of the workspace says that it holds {digest}, but holds {found}")


def _check_size(entry: Entry, size: int) -> None:
    if entry.size != size:
        raise InputError(f"the workspace's list says {names.shown(entry.name)!r} has {entry.size} bytes, not {size}")
