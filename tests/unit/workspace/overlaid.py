"""What a command leaves in a real overlay, or in a whole copy, and the collection of it."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.unit.workspace.shelf import Shelf
from tipstaff.isolation import trees
from tipstaff.model.changes import Change
from tipstaff.workspace.collect.collecting import Bounds, Collected, Mask, View, collect
from tipstaff.workspace.collect.layers import own_marks

MOUNT = (
    'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,$3" "$2/merged" && cd "$2/merged"'
    ' && (eval "$4"); code=$?; cd / && umount "$2/merged" && rm -rf "$2/work" && exit $code'
)


def overlaid(base: Path, place: Path, script: str) -> View:
    """Run a script in a copy-on-write view of `base`; what it wrote lies in the upper layer."""
    for name in ("upper", "work", "merged"):
        (place / name).mkdir(parents=True)
    root = os.geteuid() == 0
    options = "redirect_dir=nofollow,metacopy=off,index=off" if root else "userxattr"
    how = ["unshare", "-m" if root else "-Urm", "bash", "-c", MOUNT, "bash"]
    subprocess.run([*how, str(base), str(place), options, script], check=True, timeout=60)
    return View(base, upper=place / "upper", marks=own_marks())


def copied(base: Path, place: Path, script: str) -> View:
    """Run a script in a whole copy of `base`."""
    (place / "copy").mkdir(parents=True)
    folder = os.open(base, os.O_RDONLY)
    trees.copy(folder, str(place / "copy"), 1 << 30)
    os.close(folder)
    bash = ["bash", "-c", script]
    subprocess.run(bash, check=True, timeout=60, cwd=place / "copy")
    return View(base, copy=place / "copy")


FORMS = {"overlay": overlaid, "copy": copied}


class Taken(NamedTuple):
    """A collection, and what was put on the shelf."""

    collected: Collected
    shelf: Shelf

    @property
    def by_name(self) -> dict[bytes, Change]:
        return {change.name: change for change in self.collected.changes}

    @property
    def told(self) -> dict[str, str]:
        """Every name with the word for what happened to it."""
        return {os.fsdecode(change.name): change.status for change in self.collected.changes}

    @property
    def diff(self) -> bytes:
        return self.shelf.get(self.collected.diff) if self.collected.diff else b""

    @property
    def contents(self) -> bytes:
        return self.shelf.get(self.collected.contents) if self.collected.contents else b""


def taken(view: View, bounds: Bounds | None = None, mask: Mask = None) -> Taken:
    """Collect onto a new shelf."""
    shelf = Shelf()
    return Taken(collect(view, bounds or Bounds(), mask, shelf), shelf)


def repository(folder: Path, files: dict[str, str]) -> Path:
    """Make a git repository with one commit of these files."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        git(folder, *words)
    return folder


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Run git in a folder."""
    command = ["git", *words]
    done = subprocess.run(command, cwd=folder, input=stdin, check=True, timeout=60, env=plain_environ(), stdout=-1)
    return done.stdout


def plain_environ() -> dict[str, str]:
    """Variables for a git that reads nobody's configuration."""
    nowhere = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **nowhere}
