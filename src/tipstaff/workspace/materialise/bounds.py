"""How much a workspace may unpack to: names, bytes, and bytes for each that arrived; counted before one is written.

The names are looked at here too: what cannot lie beneath a folder, and what would be a `.git`, is refused. That none
comes twice, or beneath what is no folder, is for the kernel to say when they are written. Pure.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace import internals
from tipstaff.workspace.listing import Entry

LONGEST_TARGET: Final = 4095  # of a link: PATH_MAX without its NUL


class Caps(NamedTuple):
    """The most that is unpacked."""

    entries: int = 1_000_000  # files, links and folders
    bytes: int = 64 * 2**30
    ratio: int = 200  # bytes that come of one byte that arrived
    small: int = 64 * 2**20  # bytes up to which nobody asks for the ratio


def check(entries: Iterable[Entry], caps: Caps, arrived_bytes: int) -> None:
    """Refuse a tree that is too large for `caps`, or names what no workspace may hold."""
    folders: set[bytes] = set()
    total = 0
    for count, entry in enumerate(entries, 1):
        check_name(entry.name)
        _add_folders(entry.name, folders)
        total += entry.size
        if count + len(folders) > caps.entries:
            raise too_many(caps)
    if total > caps.bytes:
        raise InputError(f"the workspace would unpack to {total} bytes; at most {caps.bytes} are taken")
    if total > caps.small and total > caps.ratio * arrived_bytes:
        raise InputError(
            f"the workspace would unpack to {total} bytes from {arrived_bytes}: more than {caps.ratio} times as many"
        )


def too_many(caps: Caps) -> InputError:
    """Say that there are too many entries."""
    return InputError(f"the workspace has more than {caps.entries} files, links and folders")


def check_name(name: bytes) -> None:
    """Refuse what cannot be a name in a workspace."""
    is_git = b"g" in name.lower() and any(map(internals.is_git, name.split(b"/")))
    if problem := names.fault(name) or ("a .git never travels as files" if is_git else ""):
        raise InputError(f"the workspace names {names.shown(name)[:200]!r}: {problem}")


def _add_folders(name: bytes, folders: set[bytes]) -> None:
    """Count the folders that a name lies in, too: an entry may name a thousand that nothing else names."""
    above = name.rpartition(b"/")[0]
    while above and above not in folders:
        folders.add(above)
        above = above.rpartition(b"/")[0]
