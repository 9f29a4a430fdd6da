"""The upper layer of an overlay: what its marks mean.

A character device 0/0 says that the name is gone; a folder with the mark `opaque` hides all that was below it. Only the
marks that the kernel itself sets for this mount count (`trusted.overlay.` as root, else `user.overlay.`): the others
can be set by a command in the sandbox, which could so hide what it did. Reads, and changes nothing but rights that
keep us out: the layer is ours, and goes away.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.workspace.beneath import FOLDER, READ

OWN: Final = 0o700
_OPAQUE: Final = "opaque"
_YES: Final = b"y"


class View(NamedTuple):
    """A workspace after a run: the folder as it was, and either the layer above it or a whole copy."""

    base: Path  # a depot's base, or the live folder
    upper: Path | None = None
    copy: Path | None = None
    marks: str = ""  # how the names of the kernel's marks begin in `upper`
    started_ns: int = 0  # when the run began: what was changed in a live base since then is named
    scratch: Path | None = None  # what a killed process leaves here, others clear away; None: the system's place


def own_marks() -> str:
    """Say how the names of marks begin in an overlay that we mounted ourselves."""
    return "trusted.overlay." if os.geteuid() == 0 else "user.overlay."


def is_whiteout(found: os.stat_result) -> bool:
    """Say whether this stands for a name that is gone."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def is_opaque(folder: int, marks: str) -> bool:
    """Say whether this open folder hides the one below it."""
    try:
        return os.getxattr(folder, marks + _OPAQUE) == _YES
    except OSError:  # it has no such mark, or the file system knows none
        return False


def holds_any(layer: Path) -> bool:
    """Say whether anything is in the layer."""
    folder = entered(layer)
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    finally:
        os.close(folder)


def entered(name: bytes | Path, above: int | None = None) -> int:
    """Open a folder of the layer, if need be with rights that the command has taken away."""
    try:
        folder = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        _open_up(name, above)
        return os.open(name, FOLDER, dir_fd=above)
    if os.fstat(folder).st_mode & OWN != OWN:  # it can be listed, and what is in it not be looked at
        os.fchmod(folder, OWN)
    return folder


def opened(name: bytes, above: int) -> int:
    """Open a file of the layer to read it, if need be with rights that the command has taken away."""
    try:
        return os.open(name, READ, dir_fd=above)
    except PermissionError:
        _open_up(name, above)
        return os.open(name, READ, dir_fd=above)


def _open_up(name: bytes | Path, above: int | None) -> None:
    """Give the owner, who is us, all rights. By descriptor: a link in its place is not followed."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        if not stat.S_ISLNK(os.fstat(held).st_mode):
            os.chmod(f"/proc/self/fd/{held}", OWN)  # noqa: PTH101 - a descriptor that may only name, not read
    finally:
        os.close(held)
