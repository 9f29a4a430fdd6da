"""What the last capture of a folder found, so that the next one reads only what has changed since.

A file's digest is believed while its device, inode, size, times and mode are the same, and its times were already past
when the capture began: a file that was written in that very moment may be written again without its times telling.
Whatever cannot be read is as if nothing were remembered. One file for each folder, ours alone.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.workspace.capture.scan import ChangedError, Looker, Scan, Stamp, joined, stamp

Json = dict[str, Any]
FORMAT: Final = 1
RACY_NANOSECONDS: Final = 50_000_000
File = tuple[int, int, int, int, int, int, str]  # a stamp and the digest
Rooms = list[tuple[bytes, Stamp, dict[bytes, File]]]


class Remembered(msgspec.Struct, array_like=True):
    """One capture: what was asked (`key`), what came of it, and every folder with its files."""

    format: int
    key: str
    base: str  # the hash of the manifest
    manifest: Json
    notices: list[str]
    rooms: Rooms
    pointers: list[bytes]
    settled: bool  # no file was written while it was captured

    def digests(self, scan: Scan) -> dict[bytes, str]:
        """Give the digests of those files that are as they were."""
        rooms = {name: files for name, _, files in self.rooms}
        found: dict[bytes, str] = {}
        for room in scan.rooms:
            files = rooms.get(room.name, {})
            for last, status in room.files.items():
                if (file := files.get(last)) is not None and stamp(status) == file[:-1]:
                    found[joined(room.name, last)] = file[-1]
        return found

    def holds(self, looker: Looker) -> bool:
        """Say whether every folder and file is as it was."""
        if not self.settled:
            return False
        with suppress(ChangedError):
            for name, about, files in self.rooms:
                status, seen = looker.look(name)
                if stamp(status) != about:
                    return False
                for last, file in files.items():
                    found = seen.get(last)
                    if found is None or stamp(found) != file[:-1]:
                        return False
            return True
        return False


def rooms_of(scan: Scan, digests: Mapping[bytes, str], began_nanoseconds: int) -> tuple[Rooms, bool]:
    """Give what is to be remembered of a scan, and whether that is all of it."""
    latest = began_nanoseconds - RACY_NANOSECONDS
    rooms, settled = [], True
    for room in scan.rooms:
        prefix = room.name + b"/" if room.name else b""
        files: dict[bytes, File] = {}
        for last, status in room.files.items():
            file = (*stamp(status), digests[prefix + last])
            if file[3] < latest and file[4] < latest:
                files[last] = file
        settled &= len(files) == len(room.files) and max(room.status.st_mtime_ns, room.status.st_ctime_ns) < latest
        rooms.append((room.name, stamp(room.status), files))
    return rooms, settled


def source_of(folder: Path) -> str:
    """Name a folder by its path, as the name of a file."""
    return sha256(os.fsencode(os.path.realpath(folder))).hexdigest()


def read(path: Path) -> Remembered | None:
    """Read what is remembered; None where nothing is, or it was written by another version."""
    try:
        found = msgspec.msgpack.decode(path.read_bytes(), type=Remembered)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.format == FORMAT else None


def write(path: Path, capture: Remembered) -> None:
    """Remember a capture instead of the last one."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.write_bytes(msgspec.msgpack.encode(capture))
        part.replace(path)
    except OSError:  # the next capture reads everything again: slower, and as right
        part.unlink(missing_ok=True)
