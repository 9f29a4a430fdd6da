"""The list of a captured tree: every file, link and folder with its digest, as one blob whose sha-256 names the whole.

One entry is `[mode, path, digest, bytes]`, and the path's own bytes in base64 behind it where it is no text. Sorted by
the bytes of the path, none twice, nothing beneath what is no folder. Rights are kept; what would change who runs a
program (set-uid, set-gid, sticky) is not. Pure.
"""

import base64
import binascii
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.changes import FILE, LINK, RIGHTS, is_digest

__all__ = ["FILE", "FOLDER", "LINK", "NO_DIGEST", "RIGHTS", "TYPES", "Entry", "decode", "encode", "tree_hash"]
FOLDER: Final = 0o040000
TYPES: Final = (FILE, LINK, FOLDER)
NO_DIGEST: Final = ""
_SHORT, _LONG = 4, 5  # parts of an entry
_encode = msgspec.json.Encoder().encode


class Entry(NamedTuple):
    """One name of a tree."""

    name: bytes
    mode: int  # type and rights, as `st_mode` has them
    digest: str  # of a file's content, or of a link's target; empty for a folder
    size: int

    @property
    def type(self) -> int:
        """Give FILE, LINK or FOLDER."""
        return self.mode & ~RIGHTS


def encode(entries: Collection[Entry]) -> bytes:
    """Spell a tree's entries as its list; they are put in order."""
    rows: list[list[Any]] = []
    modes = {entry.mode: f"{entry.mode:06o}" for entry in entries}
    for entry in sorted(entries):
        name, mode, digest, size = entry
        try:
            rows.append([modes[mode], name.decode(), digest, size])
        except UnicodeDecodeError:
            rows.append(_spelled(entry))
    return _encode(rows)


def tree_hash(listed: bytes) -> str:
    """Name a tree by its list."""
    return sha256(listed).hexdigest()


def decode(listed: bytes) -> list[Entry]:
    """Read a list; InputError for anything that `encode` would not have written."""
    try:
        rows = msgspec.json.decode(listed, type=list[list[Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the list of the workspace cannot be read: {error}") from error
    entries = [_entry(row) for row in rows]
    if encode(entries) != listed:
        raise InputError("the list of the workspace is not in its one spelling")
    _check_nesting(entries)
    return entries


def _spelled(entry: Entry) -> list[Any]:
    """Spell an entry whose name is no text."""
    said = names.spelled(entry.name)
    return [f"{entry.mode:06o}", said["path"], entry.digest, entry.size, said["pathBytes"]]


def _entry(row: list[Any]) -> Entry:
    if len(row) not in {_SHORT, _LONG} or [type(one) for one in row[:_SHORT]] != [str, str, str, int]:
        raise InputError("an entry of the workspace's list is not [mode, path, digest, bytes]")
    mode, path, digest, size = row[:_SHORT]
    try:
        name = path.encode() if len(row) == _SHORT else base64.b64decode(row[_SHORT], validate=True)
        entry = Entry(name, int(mode, 8), digest, size)
    except (UnicodeEncodeError, binascii.Error, TypeError, ValueError) as error:
        raise InputError(f"an entry of the workspace's list cannot be read: {path!r}") from error
    if problem := names.fault(name) or _problem(entry):
        raise InputError(f"the workspace's list names {names.shown(name)[:200]!r}: {problem}")
    return entry


def _problem(entry: Entry) -> str:
    if entry.type not in TYPES:
        return "it is neither a file, a link nor a folder"
    if entry.size < 0 or (entry.type == FOLDER and (entry.size, entry.digest) != (0, NO_DIGEST)):
        return "its size cannot be"
    if entry.type != FOLDER and not is_digest(entry.digest):
        return "its digest is none"
    return ""


def _check_nesting(entries: list[Entry]) -> None:
    """Refuse a name twice, and anything beneath a file or a link."""
    kinds: dict[bytes, int] = {}
    for entry in entries:
        if entry.name in kinds:
            raise InputError(f"the workspace's list names {names.shown(entry.name)!r} twice")
        kinds[entry.name] = entry.type
    for name in kinds:
        above = name.rpartition(b"/")[0]
        while above:
            if kinds.get(above, FOLDER) != FOLDER:
                raise InputError(f"the workspace's list names {names.shown(name)!r} beneath what is no folder")
            above = above.rpartition(b"/")[0]
