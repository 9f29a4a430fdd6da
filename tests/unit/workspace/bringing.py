"""A run that never ran: its changes and their contents, made from what a folder was and what it is to become."""

import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tipstaff.model.changes import FILE, LINK, Change, Side
from tipstaff.workspace.apply.choosing import Plan, Selection, choose, plan_apply
from tipstaff.workspace.apply.contents import Contents
from tipstaff.workspace.apply.undo import held
from tipstaff.workspace.beneath import Beneath

RUN = "run_00000000-0000-4000-8000-000000000000"


class Thing(NamedTuple):
    """A file or a link, with its content or its goal."""

    content: bytes
    mode: int = FILE | 0o644

    @property
    def side(self) -> Side:
        """Give what a record says of it."""
        return Side(self.mode, sha256(self.content).hexdigest(), len(self.content))


def link(goal: bytes) -> Thing:
    """Make a symbolic link."""
    return Thing(goal, LINK | 0o777)


def program(content: bytes) -> Thing:
    """Make a file that can be executed."""
    return Thing(content, FILE | 0o755)


Tree = Mapping[bytes, Thing]
WAS: Tree = {b"a": Thing(b"was a\n"), b"b": Thing(b"was b\n"), b"c/d": Thing(b"was d\n")}
BECOMES: Tree = {b"a": Thing(b"is a\n"), b"n/e/w": Thing(b"new\n"), b"b": Thing(b"is b\n")}


class Ran(NamedTuple):
    """What a run left."""

    changes: list[Change]
    contents: Contents


def ran(was: Tree, becomes: Tree, **flags: object) -> Ran:
    """Compare two trees as a run's record does; `flags` are set on every change."""
    changed = sorted(name for name in {*was, *becomes} if was.get(name) != becomes.get(name))
    changes = [
        Change(
            name,
            was[name].side if name in was else None,
            becomes[name].side if name in becomes else None,
            kept=name in becomes,
        )._replace(**flags)  # type: ignore[arg-type]  # whichever field a test sets
        for name in changed
    ]
    blob = b"".join(becomes[one.name].content for one in changes if one.kept and one.after)
    return Ran(changes, Contents(changes, blob))


def fill(folder: Path, tree: Tree) -> Path:
    """Make a folder that looks so."""
    folder.mkdir(exist_ok=True)
    for name, thing in tree.items():
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if thing.mode & 0o170000 == LINK:
            path.symlink_to(os.fsdecode(thing.content))
        else:
            path.write_bytes(thing.content)
            path.chmod(thing.mode & 0o777)
    return folder


def seen(folder: Path) -> dict[bytes, Thing]:
    """Look at everything in a folder; empty folders count too."""
    found = {}
    for path in folder.rglob("*"):
        name, mode = os.fsencode(path.relative_to(folder)), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[name] = link(os.fsencode(path.readlink()))
        elif stat.S_ISREG(mode):
            found[name] = Thing(path.read_bytes(), mode)
        elif not any(path.iterdir()):
            found[name] = Thing(b"", mode & 0o170000)
    return found


def planned(run: Ran, folder: Path, selection: Selection = Selection()) -> Plan:  # noqa: B008 - it is frozen
    """Plan to bring what a run left."""
    with Beneath(folder) as target:
        return plan_apply(choose(run.changes, selection).changes, target)


def bring(run: Ran, folder: Path, home: Path, selection: Selection = Selection()) -> Plan:  # noqa: B008 - it is frozen
    """Bring what a run left; nothing must stand in the way."""
    with Beneath(folder) as target, held(home / "applied", RUN, str(folder)) as record:
        plan = plan_apply(choose(run.changes, selection).changes, target)
        assert plan.conflicts == []
        record.bring(target, plan.steps, run.contents)
    return plan


def revert(folder: Path, home: Path) -> list[Change]:
    """Take back what was brought."""
    with Beneath(folder) as target, held(home / "applied", RUN, str(folder)) as record:
        return record.revert(target)
