"""The folders of the host that somebody names at a door: spelled in the one real way, and refused with a reason.

The parents of a path are resolved, its last name is not: what is granted is a real thing, never a link that somebody
could turn while it is looked at. Policy and the stage check again; this is where a person learns why in time.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tipstaff.errors import RefusedError, UsageError


class Surroundings(msgspec.Struct, frozen=True):
    """What a grant must not touch: our own home, and a person's whole home folder."""

    state: Path
    person: Path | None = None

    @classmethod
    def of(cls, state: Path, environ: Mapping[str, str]) -> "Surroundings":
        """Read where the caller's home folder is; one that is no absolute path is none."""
        home = environ.get("HOME", "")
        return cls(Path(os.path.realpath(state)), Path(os.path.realpath(home)) if home.startswith("/") else None)


def granted_folder(name: str, option: str, around: Surroundings) -> str:
    """Give the real path of a folder that a run may have, or say why it cannot."""
    path, mode = _real(name, option)
    if not stat.S_ISDIR(mode):
        raise UsageError(f"{option}: {path} is not a folder", hint="name the folder that it is in")
    _refuse_too_much(path, option, around)
    return path


def granted_path(name: str, option: str, around: Surroundings) -> str:
    """Give the real path of a file or folder that a run may read, or say why it cannot."""
    path, _ = _real(name, option)
    _refuse_too_much(path, option, around)
    return path


def _real(name: str, option: str) -> tuple[str, int]:
    _refuse_odd(name, option)
    parent, last = os.path.split(name.rstrip("/") or "/")
    # A path that ends in dots names a folder by way of others: it has no last name that could be a link.
    path = os.path.realpath(name if last in {"", ".", ".."} else parent or ".")
    path = path if last in {"", ".", ".."} else str(Path(path) / last)
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        raise UsageError(f"{option}: {path} {reason}", hint="name one that exists") from error
    if stat.S_ISLNK(mode):
        raise RefusedError(
            f"{option}: {path} is a symbolic link", hint=f"name what it points to: {os.path.realpath(path)}"
        )
    return path, mode


def _refuse_odd(name: str, option: str) -> None:
    if not name:
        raise UsageError(f"{option}: an empty path names nothing", hint="write . for the folder that you are in")
    if "\0" in name:
        raise UsageError(f"{option}: the path holds a NUL")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{option}: the path {os.fsencode(name)!r} is not UTF-8, so no receipt can name it") from None


def _refuse_too_much(path: str, option: str, around: Surroundings) -> None:
    granted = Path(path)
    narrower = "name a folder with only what the run needs"
    if granted == Path("/"):
        raise RefusedError(f"{option}: / is the whole machine", hint=narrower)
    state = around.state
    if granted == state or granted in state.parents or state in granted.parents:
        relation = "contains" if granted in state.parents else "is or lies in"
        raise RefusedError(
            f"{option}: {path} {relation} {state}, where Tipstaff keeps its keys and receipts", hint=narrower
        )
    if around.person is not None and (granted == around.person or granted in around.person.parents):
        relation = "is" if granted == around.person else "contains"
        raise RefusedError(f"{option}: {path} {relation} your whole home folder", hint=narrower)
