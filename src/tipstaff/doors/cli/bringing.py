"""What `diff` and `apply` share: names that somebody typed, the contents of a run, its hazards, and where it goes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tipstaff.doors.folders import Surroundings, granted_folder
from tipstaff.errors import NotFoundError, UsageError
from tipstaff.home import Home
from tipstaff.model import names
from tipstaff.model.changes import Change
from tipstaff.plane.changes import Kept
from tipstaff.workspace.apply import Chosen, Selection, choose, within
from tipstaff.workspace.contents import Content, Contents
from tipstaff.workspace.hazards import Hazard
from tipstaff.workspace.hazards import find as find_hazards

Json = dict[str, Any]


class Goal(NamedTuple):
    """Which run goes into which folder, and where that is written down."""

    run_id: str
    target: str
    applied: Path


class Bringing(NamedTuple):
    """One run's change on its way."""

    goal: Goal
    kept: Kept
    chosen: Chosen
    content: Content
    hazards: list[Hazard]


def goal_of(run_id: str, wish: str | None, contract: Json, home: Home) -> Goal:
    """Find the folder: the one that was named, or the one that the run was started for."""
    folder = wish if wish is not None else contract.get("files", {}).get("workspace")
    if not folder:
        raise UsageError(f"{run_id} was not started for a folder", hint="name one with --to DIR")
    target = granted_folder(folder, "--to", Surroundings.of(home.root, os.environ))
    return Goal(run_id, target, home.root / "applied")


def bringing_of(goal: Goal, kept: Kept, selection: Selection) -> Bringing:
    """Choose what is brought, or say why there is nothing to bring."""
    run_id = goal.run_id
    if kept.contract.get("files", {}).get("inPlace"):
        raise UsageError(f"{run_id} worked in place: what it changed is there already")
    if kept.summary.get("problem"):
        raise NotFoundError(f"{run_id}: {kept.summary['problem']}; its content is not kept")
    if not kept.changes:
        raise UsageError(f"{run_id} changed nothing", hint=f"see: tipstaff show {run_id}")
    chosen, content = choose(kept.changes, selection), contents_of(kept)
    if content is None:
        raise NotFoundError(
            f"the contents that {run_id} left are not kept any more", hint="its receipt has the digests"
        )
    return Bringing(goal, kept, chosen, content, hazards_of(kept, chosen.changes, content))


def wished(words: Sequence[str]) -> tuple[bytes, ...]:
    """Read the names that somebody typed; `./a/` is `a`."""
    wishes = [os.fsencode(os.path.normpath(word)) for word in words]
    for word, wish in zip(words, wishes, strict=True):
        if names.fault(wish):
            raise UsageError(f"'{word}' is not a name in the workspace: {names.fault(wish)}")
    return tuple(wishes)


def refuse_unknown(changes: Sequence[Change], wishes: Sequence[bytes]) -> None:
    """Refuse a name that the run did not change."""
    for wish in wishes:
        if not any(within(change.name, (wish,)) for change in changes):
            raise UsageError(f"the run changed nothing that is called {names.shown(wish)}")


def contents_of(kept: Kept) -> Content | None:
    """Give the contents that the run left; None where they are not kept."""
    return Contents(kept.changes, kept.contents) if kept.contents is not None and _has_contents(kept) else None


def _has_contents(kept: Kept) -> bool:
    return bool(kept.contents) or not any(change.kept and change.after and change.after.size for change in kept.changes)


def hazards_of(kept: Kept, changes: Sequence[Change], content: Content | None) -> list[Hazard]:
    """Find what the host would execute later among these changes."""
    chosen = {change.name for change in changes}
    setuid = [name for one in kept.summary.get("setuid", ()) if (name := names.read(one)) in chosen]
    return find_hazards(changes, content, setuid)


def hazard_json(hazard: Hazard) -> Json:
    """Spell a hazard for a program."""
    return {**names.spelled(hazard.name), "kind": hazard.kind, "why": hazard.why}
