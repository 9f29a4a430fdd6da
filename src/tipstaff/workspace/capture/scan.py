"""What of a folder is captured, and what is not: found by reading folders, before any file is opened.

Folders are entered by descriptor, no link is followed. Where git has listed what is wanted, nothing else is looked at,
but folders with nothing in them come along. Sockets, pipes, devices, links that lead out, submodules and other
repositories' directories are left out by name; a file that only pretends to be large, or too many of them, is refused.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

from tipstaff.errors import InputError, RefusedError
from tipstaff.model import names
from tipstaff.workspace import links
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.repository import Names, submodules

_TYPE: Final = 0o170000
_BLOCK: Final = 512
_GIT: Final = b".git"
_ODD: Final = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_LINK_OUT: Final = "a link that leads out of the folder"
Seen = dict[bytes, os.stat_result]
Stamp = tuple[int, int, int, int, int, int]  # device, inode, size, mtime, ctime, mode


class Limits(NamedTuple):
    """How much is captured at most."""

    entries: int = 1_000_000
    total_bytes: int = 64 << 30
    sparse_bytes: int = 1 << 30  # a file above this …
    sparse_ratio: int = 100  # … may not be so many times larger than what it takes on disk


class ChangedError(InputError):
    """A folder changes while it is captured; `name` is what changed."""

    def __init__(self, name: bytes) -> None:
        super().__init__(
            f"{names.shown(name) or 'the folder'!r} changes while it is captured",
            hint="stop what writes to the folder, or ignore or deny the file",
        )


class Room(NamedTuple):
    """One folder of those that are captured, with what is in it."""

    name: bytes
    status: os.stat_result
    files: Seen
    links: dict[bytes, bytes]  # and their targets


class Scan(NamedTuple):
    """All that is captured, and what is not."""

    rooms: list[Room]  # a folder comes before those in it
    denied: list[bytes]
    left_out: list[tuple[bytes, str]]


class Wanted:
    """What git lists of a folder, as a scan needs it."""

    def __init__(self, listed: Names) -> None:
        self.others = {name[:-1] for name in listed.untracked if name.endswith(b"/")}  # repositories of their own
        self.names = {*listed.tracked, *listed.untracked}
        self.submodules = frozenset(submodules(listed))
        self.folders = _above(self.names)


def _above(found: Collection[bytes]) -> set[bytes]:
    """Name every folder that something is in."""
    folders = {name.removesuffix(b"/").rpartition(b"/")[0] for name in found}
    waiting = list(folders)
    while waiting:
        above = waiting.pop().rpartition(b"/")[0]
        if above not in folders:
            folders.add(above)
            waiting.append(above)
    return folders | {b""}


class Looker:
    """Reads each folder once."""

    def __init__(self, source: Beneath) -> None:
        self.source = source
        self._seen: dict[bytes, tuple[os.stat_result, Seen]] = {}

    def look(self, name: bytes) -> tuple[os.stat_result, Seen]:
        """Say what a folder is and what is in it."""
        found = self._seen.get(name)
        if found is None:
            found = self._seen[name] = self._read(name)
        return found

    def look_ahead(self, folders: Collection[bytes]) -> None:
        """Read folders that will probably be asked for."""
        for name in folders:
            with suppress(InputError):
                self.look(name)

    def look_around(self, busy: Callable[[], bool]) -> None:
        """Read folders from the top on, while something else is waited for: most of them will be asked for."""
        waiting = deque([b""])
        while waiting and busy():
            with suppress(InputError):
                name = waiting.popleft()
                for last, about in self.look(name)[1].items():
                    if stat.S_ISDIR(about.st_mode) and last.lower() != _GIT:
                        waiting.append(joined(name, last))

    def _read(self, name: bytes) -> tuple[os.stat_result, Seen]:
        try:
            descriptor = self.source.folder(name)
            status = os.fstat(descriptor)
            with os.scandir(descriptor) as entries:
                return status, {os.fsencode(one.name): one.stat(follow_symlinks=False) for one in entries}
        except PermissionError as error:
            raise InputError(
                f"the folder {names.shown(name)!r} cannot be read", hint="make it readable, ignore it or deny it"
            ) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ChangedError(name) from error

    def check_unchanged(self, found: Scan) -> None:
        """Look again at folders that are not as they were; ChangedError where that matters to what is captured."""
        self.source.forget()
        for room in found.rooms:
            status = self.source.stat(room.name) if room.name else os.fstat(self.source.descriptor)
            if status is None or stamp(status) != stamp(room.status):
                before = self._seen.pop(room.name)[1]
                _compare(room, before, self.look(room.name)[1])


def _compare(room: Room, before: Seen, after: Seen) -> None:
    """Refuse a folder where something has appeared, or a file that is captured is another now."""
    for last in after.keys() - before.keys():
        raise ChangedError(joined(room.name, last))
    for last in (*room.files, *room.links):
        if last not in after or stamp(after[last]) != stamp(before[last]):
            raise ChangedError(joined(room.name, last))


def joined(folder: bytes, last: bytes) -> bytes:
    """Name something in a folder."""
    return folder + b"/" + last if folder else last


def stamp(status: os.stat_result) -> Stamp:
    """Give that of a file by which it is known to be unchanged."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def scan(looker: Looker, wanted: Wanted | None, denied: Denied, limits: Limits) -> Scan:
    """Find what is captured; without `wanted` that is everything."""
    found = Scan([], [], [])
    entries = total = 0
    waiting = [b""]
    while waiting:
        name = waiting.pop()
        room, below = _sorted_out(looker, name, wanted, denied, found)
        waiting += sorted(below, reverse=True)
        entries += len(room.files) + len(room.links) + len(below)
        total += sum(_size(room, last, status, limits) for last, status in room.files.items())
        if entries > limits.entries or total > limits.total_bytes:
            raise RefusedError(
                f"the folder holds more than {limits.entries} entries or {limits.total_bytes} bytes",
                hint="capture a smaller folder, or ignore or deny what a run does not need",
            )
    _leave_out_links(found)
    return found


def _leave_out_links(found: Scan) -> None:
    """Leave out links that lead out by way of others: whoever unpacks the workspace elsewhere would refuse them."""
    every = {joined(room.name, last): target for room in found.rooms for last, target in room.links.items()}
    out = {name for name, target in every.items() if b".." in target and links.leads_out(name, every)}
    for room in found.rooms if out else ():
        for last in [last for last in room.links if joined(room.name, last) in out]:
            del room.links[last]
            found.left_out.append((joined(room.name, last), _LINK_OUT))


def _sorted_out(
    looker: Looker, name: bytes, wanted: Wanted | None, denied: Denied, found: Scan
) -> tuple[Room, list[bytes]]:
    """Sort what is in one folder into files, links, folders and what is left out."""
    status, seen = looker.look(name)
    room, below = Room(name, status, {}, {}), []
    found.rooms.append(room)
    prefix = name + b"/" if name else b""
    for last, about in seen.items():
        kind = about.st_mode & _TYPE
        full = prefix + last
        if kind != stat.S_IFDIR and wanted is not None and full not in wanted.names:
            continue
        if last[:1] == b"." and last.lower() == _GIT:
            if name:
                found.left_out.append((full, "a repository of its own, or what names one"))
        elif kind == stat.S_IFDIR:
            below += _folder(looker, full, wanted, denied, found)
        elif denied.matches_in(name, last):
            found.denied.append(full)
        elif kind == stat.S_IFREG:
            room.files[last] = about
        elif kind == stat.S_IFLNK:
            _link(looker, room, last, full, found)
        else:
            found.left_out.append((full, _ODD.get(kind, "neither a file, a link nor a folder")))
    return room, below


def _folder(looker: Looker, name: bytes, wanted: Wanted | None, denied: Denied, found: Scan) -> list[bytes]:
    """Judge a folder in a folder: gives it, if it is to be entered."""
    if wanted is not None and name in wanted.submodules:
        found.left_out.append((name, "a submodule: only its empty folder is captured"))
        found.rooms.append(Room(name, looker.look(name)[0], {}, {}))
        return []
    if wanted is not None and name in wanted.others:
        found.left_out.append((name, "a repository of its own"))
        return []
    if wanted is not None and name not in wanted.folders:
        if not denied.matches(name):
            found.rooms.extend(_hollow(looker, name, denied))
        return []
    if denied.matches_in(*name.rpartition(b"/")[::2]):
        found.denied.append(name)
        return []
    return [name]


def _hollow(looker: Looker, name: bytes, denied: Denied) -> list[Room]:
    """Give a folder that git has nothing to say of, if it holds nothing but folders; otherwise it is ignored."""
    rooms, waiting = [], [name]
    with suppress(InputError, OSError):
        while waiting:
            one = waiting.pop()
            if one.rpartition(b"/")[2].lower() == _GIT or denied.matches(one) or not _only_folders(looker.source, one):
                return []
            status, seen = looker.look(one)
            rooms.append(Room(one, status, {}, {}))
            waiting += [joined(one, last) for last in seen]
        return rooms
    return []


def _only_folders(source: Beneath, name: bytes) -> bool:
    """Say so without reading a folder of many files to its end."""
    with os.scandir(source.folder(name)) as entries:
        return all(one.is_dir(follow_symlinks=False) for one in entries)


def _link(looker: Looker, room: Room, last: bytes, name: bytes, found: Scan) -> None:
    try:
        target = os.readlink(last, dir_fd=looker.source.folder(room.name))
    except OSError as error:
        raise ChangedError(name) from error
    if leads_out(name, target):
        found.left_out.append((name, _LINK_OUT))
    else:
        room.links[last] = target


def leads_out(name: bytes, target: bytes) -> bool:
    """Say whether a link's target is absolute, or climbs above the top by `..`."""
    depth = name.count(b"/")
    for part in target.split(b"/"):
        depth += -1 if part == b".." else part not in {b"", b"."}
        if depth < 0:
            return True
    return target.startswith(b"/")


def _size(room: Room, last: bytes, status: os.stat_result, limits: Limits) -> int:
    size = status.st_size
    if size > limits.sparse_bytes and size > limits.sparse_ratio * status.st_blocks * _BLOCK:
        raise RefusedError(
            f"{names.shown(joined(room.name, last))!r} says that it has {size} bytes, but hardly any are there",
            hint="remove the file, or ignore or deny it",
        )
    return size
