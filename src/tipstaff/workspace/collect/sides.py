"""One side of a change, read: its digest, its content where it is small enough to hold, and whether a secret is in it.

A content with a secret is spoken of as it looks masked: neither its digest nor its size tells the secret. One too large
to hold is searched in overlapping pieces, and nothing of it is told when a secret is in it. Links are not followed.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.changes import FILE, LINK, RIGHTS, Side
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.collect import layers

Mask = Callable[[bytes], bytes] | None  # gives a content with its secrets masked; None: there are no secrets
NOTHING: Final = sha256(b"").hexdigest()
_PART: Final = 1 << 20
_SEARCHED: Final = 4 << 20
_OVERLAP: Final = 1 << 20  # longer than any spelling of the longest secret


class Content(NamedTuple):
    """What lies, or lay, under a name."""

    side: Side
    data: bytes | None = None  # masked where it had to be; None when it is too large to hold, or cannot be read
    redacted: bool = False
    trouble: str = ""  # why it cannot be read


class Sides:
    """One of the two folders, and how it is read; `ours`: rights that keep us out may be changed."""

    def __init__(self, folder: Path, most_held: int, mask: Mask, *, ours: bool) -> None:
        self._beneath = Beneath(folder)
        self._most_held = most_held
        self._mask = mask
        self._ours = ours

    def close(self) -> None:
        """Let go of the folder."""
        self._beneath.close()

    def read(self, name: bytes, found: os.stat_result) -> Content:
        """Read what `found` says is there."""
        is_link = stat.S_ISLNK(found.st_mode)
        if not is_link and not stat.S_ISREG(found.st_mode):
            return Content(Side(FILE, NOTHING, 0), trouble=kind_of(found))
        mode = LINK | RIGHTS if is_link else FILE | (found.st_mode & RIGHTS)
        try:
            return self._held(mode, self._beneath.target(name)) if is_link else self._file(name, mode, found.st_size)
        except OSError as error:
            if self._ours:
                raise
            return Content(Side(mode, NOTHING, 0), trouble=f"what it was cannot be read: {error.strerror}")

    def _file(self, name: bytes, mode: int, size: int) -> Content:
        with self._open(name) as descriptor:
            if size <= self._most_held:
                return self._held(mode, _whole(descriptor, size, name))
            return self._streamed(mode, descriptor, size)

    def parts(self, name: bytes, wanted: Side) -> Iterator[bytes]:
        """Give a content that is too large to hold, piece by piece; InputError when it is not the one that was read."""
        digest, size = sha256(), 0
        with self._open(name) as descriptor:
            while part := os.read(descriptor, _PART):
                digest.update(part)
                size += len(part)
                yield part
        if (digest.hexdigest(), size) != (wanted.digest, wanted.size):
            raise InputError(f"{names.shown(name)} changed while it was collected")

    def beginning(self, name: bytes, most: int) -> bytes:
        """Give the first bytes of a file; nothing where there is none."""
        try:
            with self._open(name) as descriptor:
                return os.read(descriptor, most)
        except OSError:
            return b""

    @contextmanager
    def _open(self, name: bytes) -> Iterator[int]:
        if self._ours:
            folder, last = self._beneath.place(name)
            descriptor = layers.opened(last, folder)
        else:
            descriptor = self._beneath.open(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _held(self, mode: int, data: bytes) -> Content:
        masked = data if self._mask is None else self._mask(data)
        return Content(Side(mode, sha256(masked).hexdigest(), len(masked)), masked, redacted=masked != data)

    def _streamed(self, mode: int, descriptor: int, size: int) -> Content:
        digest, kept = sha256(), b""
        while part := os.read(descriptor, _SEARCHED if self._mask else _PART):
            digest.update(part)
            if self._mask is not None:
                kept = kept[-_OVERLAP:] + part
                if self._mask(kept) != kept:
                    untold = sha256(b"now" if self._ours else b"base").hexdigest()
                    return Content(Side(mode, untold, 0), redacted=True)
        return Content(Side(mode, digest.hexdigest(), size))


def kind_of(found: os.stat_result) -> str:
    """Say what this is that is neither a file nor a link."""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(found.st_mode), "a device")


def _whole(descriptor: int, size: int, name: bytes) -> bytes:
    pieces, left = [], size + 1
    while left > 0 and (part := os.read(descriptor, left)):
        pieces.append(part)
        left -= len(part)
    if left == 0:
        raise InputError(f"{names.shown(name)} grew while it was collected")
    return b"".join(pieces)
