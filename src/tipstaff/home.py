"""The home: the folder where Tipstaff keeps its state on this machine.

`$TIPSTAFF_HOME`, else `$XDG_DATA_HOME/tipstaff`, else `~/.local/share/tipstaff`. A relative path is refused: it would
name another home in every folder. The home belongs to its user alone, because the private keys are in it: it is made
0700, and one that others may write, or that sandboxes show, is refused, never repaired in silence.
Says where things are; reads and writes none of them.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tipstaff.errors import UsageError

_ANOTHER = "set TIPSTAFF_HOME to a folder of your own"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# What every sandbox is made of: an ordinary user's command runs as that user, and could read the keys there.
_SHOWN_INSIDE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ssl/certs")


class Home:
    """The names of the files in one home."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.keys = root / "keys"
        self.known_keys = root / "known-keys.json"
        self.policy = root / "policy.yaml"

    def make(self) -> None:
        """Make the folder (0700) if it is not there, and refuse one that is not safe to keep keys in."""
        self._refuse_shown()
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)
            found = self.root.stat()
        except OSError as error:
            raise UsageError(f"the home {self.root} cannot be made: {error.strerror}", hint=_ANOTHER) from error
        if found.st_uid != os.geteuid():
            raise UsageError(f"the home {self.root} belongs to another user", hint=_ANOTHER)
        if found.st_mode & _WRITABLE_BY_OTHERS:
            raise UsageError(f"the home {self.root} can be written by other users", hint=f"run: chmod 700 {self.root}")

    def _refuse_shown(self) -> None:
        if folder := shown_inside(self.root):
            raise UsageError(
                f"the home {self.root} lies in {folder}, which every sandbox shows: a command could read its keys",
                hint=_ANOTHER,
            )


def shown_inside(path: Path) -> str:
    """Name the folder that every sandbox shows and that something lies in; empty where it lies in none."""
    real = os.path.realpath(path)
    return next((folder for folder in _SHOWN_INSIDE if real == folder or real.startswith(f"{folder}/")), "")


def locate(environ: Mapping[str, str]) -> Home:
    """Find the home that the environment names. Pure: makes nothing, looks at no disk."""
    if environ.get("TIPSTAFF_HOME"):
        return Home(_absolute(environ, "TIPSTAFF_HOME"))
    if environ.get("XDG_DATA_HOME"):
        return Home(_absolute(environ, "XDG_DATA_HOME") / "tipstaff")
    if environ.get("HOME"):
        return Home(_absolute(environ, "HOME") / ".local" / "share" / "tipstaff")
    raise UsageError("there is no place for state: TIPSTAFF_HOME, XDG_DATA_HOME and HOME are all unset", hint=_ANOTHER)


def _absolute(environ: Mapping[str, str], variable: str) -> Path:
    path = Path(environ[variable])
    if not path.is_absolute():
        raise UsageError(
            f"{variable} is '{path}', which is relative: it would name another folder in every folder",
            hint=f"set {variable} to a path that starts with /",
        )
    return path
