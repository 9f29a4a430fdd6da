"""The home, looked at from outside: whether it can hold the store and the keys, and who else could touch them.

Makes nothing: a home that is not there yet is judged by the nearest folder above it. Opens no database.
"""

import os
import shlex
import shutil
import stat
from pathlib import Path
from typing import Final

from tipstaff.home import Home
from tipstaff.keys.files import OTHERS, SUFFIX
from tipstaff.model.noun import Noun
from tipstaff.store.place import MOUNTS, NETWORKED, file_system

LEAST_FREE_BYTES: Final = 256 * 1024**2
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class KeyFinding(Noun):
    """One private key."""

    path: str
    mode: str
    trouble: str = ""
    remedy: str = ""


class HomeFinding(Noun):
    """The home."""

    path: str
    there: bool
    usable: bool
    file_system: str = ""
    free_bytes: int = 0
    troubles: tuple[tuple[str, str], ...] = ()  # what is wrong, and what mends it
    keys: tuple[KeyFinding, ...] = ()


def look_at(home: Home, mounts: Path = MOUNTS) -> HomeFinding:
    """Judge the home."""
    root = home.root
    there = os.path.isdir(root)  # noqa: PTH112 - unlike pathlib's, it says no where we may not look
    ground = _nearest(root)
    kind = _kind(ground, mounts)
    free = shutil.disk_usage(ground).free
    keys = tuple(_key(path) for path in sorted(home.keys.glob(f"*{SUFFIX}"))) if there else ()
    troubles = (*_folder_troubles(root, ground), *_ground_troubles(root, kind, free))
    usable = not troubles and not any(key.trouble for key in keys)
    return HomeFinding(
        path=str(root), there=there, usable=usable, file_system=kind, free_bytes=free, troubles=troubles, keys=keys
    )


def _nearest(path: Path) -> Path:
    """Find what is there: the folder itself, or the nearest one above it."""
    return next(place for place in (path, *path.parents) if os.path.isdir(place))  # noqa: PTH112 - as above


def _kind(ground: Path, mounts: Path) -> str:
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return file_system(Path(os.path.realpath(ground)), table)


def _folder_troubles(root: Path, ground: Path) -> list[tuple[str, str]]:
    another = "set TIPSTAFF_HOME to a folder of your own"
    if ground != root and os.path.lexists(root):
        return [(f"{root} is not a folder", another)]
    if not os.access(ground, os.W_OK | os.X_OK):
        return [(f"{ground} cannot be written", another)]
    found = ground.stat()
    if ground == root and found.st_uid != os.geteuid():
        return [(f"{root} belongs to another user", another)]
    if ground == root and found.st_mode & _WRITABLE_BY_OTHERS:
        return [(f"{root} can be written by other users", f"chmod 700 {_quoted(root)}")]
    return []


def _ground_troubles(root: Path, kind: str, free: int) -> list[tuple[str, str]]:
    local = "set TIPSTAFF_HOME to a folder on a local disk"
    checks = (
        (bool(kind), f"what holds {root} is unknown", f"see whether {MOUNTS} can be read"),
        (kind not in NETWORKED, f"{root} lies on a network file system ({kind})", local),
        (free >= LEAST_FREE_BYTES, f"only {free >> 20} MiB are free for {root}", "tipstaff prune --older-than 30d"),
    )
    return [(trouble, remedy) for holds, trouble, remedy in checks if not holds]


def _key(path: Path) -> KeyFinding:
    found = path.lstat()
    trouble, remedy = _key_trouble(found, _quoted(path))
    return KeyFinding(path=str(path), mode=f"{stat.S_IMODE(found.st_mode):04o}", trouble=trouble, remedy=remedy)


def _key_trouble(found: os.stat_result, name: str) -> tuple[str, str]:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a plain file", f"mv {name} {name}.not-a-key"
    if found.st_uid != os.geteuid():
        return "it belongs to another user", f"chown {os.geteuid()} {name}"
    if found.st_mode & OTHERS:
        return "it can be read by others", f"chmod 600 {name}"
    return "", ""


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
