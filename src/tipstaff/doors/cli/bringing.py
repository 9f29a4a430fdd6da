"""What `diff` and `apply` share: a run's change with its proof checked, names, contents, hazards, and where it goes."""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tipstaff.doors.cli.desk import Desk, find, is_refused_request, opened, trusted_keys
from tipstaff.doors.cli.output import complain, emit_json
from tipstaff.doors.cli.planes import chosen
from tipstaff.doors.cli.quoting import shown_name
from tipstaff.doors.folders import Surroundings, granted_folder
from tipstaff.errors import NotFoundError, TipstaffError, UsageError
from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.model import names
from tipstaff.model.changes import Change
from tipstaff.plane.changes import Kept
from tipstaff.workspace.apply.choosing import Chosen, Selection, choose, within
from tipstaff.workspace.apply.contents import Content, Contents
from tipstaff.workspace.apply.hazards import Hazard
from tipstaff.workspace.apply.hazards import find as find_hazards
from tipstaff.workspace.collect.gathering import MOST_NAMED

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


class UnprovenError(TipstaffError):
    """A run whose proof does not hold: nothing of it is shown or brought."""

    def __init__(self, message: str, problems: Iterable[str], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


def run_of(plane: Desk, word: str) -> str:
    """Give the id of the run that a word names; NotFoundError for a request that never became one."""
    name = find(plane, word)
    if is_refused_request(name):
        raise NotFoundError(f"{name} was refused: nothing ran", hint=f"see: tipstaff why {name}")
    return name


def change_of(args: argparse.Namespace) -> tuple[str, Kept]:
    """Read what the run that `args` name changed, with its id; UnprovenError when its proof does not hold."""
    with opened(args) as plane:
        run_id = run_of(plane, args.run)
        kept, known = plane.changes(run_id), trusted_keys(plane)
    report = verify(kept.bundle, known=known)
    if kept.contract.get("runId") != run_id:
        raise UnprovenError(f"the proof is another run's than {run_id}: nothing of it is shown or brought", [])
    if report.verdict != "valid":
        raise UnprovenError(
            f"the proof of {run_id} is not valid: nothing of it is shown or brought",
            [str(problem) for problem in report.problems] or [report.verdict],
            hint=f"see: tipstaff bundle {run_id} | tipstaff verify -",
        )
    return run_id, kept


def goal_of(run_id: str, args: argparse.Namespace, contract: Json, home: Home) -> Goal:
    """Find the folder: the one that was named, or the one that the run was started for."""
    folder = args.to if args.to is not None else contract.get("files", {}).get("workspace")
    if args.to is None and chosen(args):  # another machine's folder is none of ours
        from tipstaff.remote.noted import noted_folder  # noqa: PLC0415 - only for a plane elsewhere

        folder = noted_folder(home, run_id) or _around(Path.cwd())
    if not folder:
        raise UsageError(f"{run_id} was not started for a folder", hint="name one with --to DIR")
    target = granted_folder(folder, "--to", Surroundings.of(home.root, os.environ))
    return Goal(run_id, target, home.root / "applied")


def _around(folder: Path) -> str:
    """Give the top of the repository that a folder is in, or the folder itself."""
    return str(next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), folder))


def bringing_of(goal: Goal, kept: Kept, selection: Selection) -> Bringing:
    """Choose what is brought, or say why there is nothing to bring."""
    run_id = goal.run_id
    if kept.problem:
        raise NotFoundError(f"{run_id}: {kept.problem}", hint=f"see: tipstaff show {run_id}")
    if not kept.changes:
        raise UsageError(f"{run_id} changed nothing", hint=f"see: tipstaff show {run_id}")
    chosen, content = choose(kept.changes, selection), contents_of(kept)
    if content is None:
        raise NotFoundError(
            f"the contents that {run_id} left are not kept any more", hint="its receipt has the digests"
        )
    return Bringing(goal, kept, chosen, content, hazards_of(kept, chosen.changes, content))


def called(name: bytes) -> str:
    """Write out a name for people."""
    return shown_name(names.shown(name))


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
            raise UsageError(f"the run changed nothing that is called {called(wish)}", hint="see: tipstaff diff")


def edited_of(kept: Kept) -> frozenset[bytes]:
    """Name what was edited in the live folder while the run went on; all, where the record had no room for all."""
    edited = frozenset(kept.named("edited"))
    if len(edited) < MOST_NAMED:
        return edited
    return frozenset(change.name for change in kept.changes if change.base is not None)


def contents_of(kept: Kept) -> Content | None:
    """Give the contents that the run left; None where they are not kept."""
    return Contents(kept.changes, kept.contents) if kept.contents is not None and _has_contents(kept) else None


def _has_contents(kept: Kept) -> bool:
    return bool(kept.contents) or not any(change.kept and change.after and change.after.size for change in kept.changes)


def hazards_of(kept: Kept, changes: Sequence[Change], content: Content | None) -> list[Hazard]:
    """Find what the host would execute later among these changes."""
    chosen = {change.name for change in changes}
    return find_hazards(changes, content, [name for name in kept.named("setuid") if name in chosen])


def hazard_json(hazard: Hazard) -> Json:
    """Spell a hazard for a program."""
    return {**names.spelled(hazard.name), "kind": hazard.kind, "why": hazard.why}


def refused(
    args: argparse.Namespace, error: TipstaffError, lines: Iterable[str] = (), **reasons: Iterable[object]
) -> int:
    """Tell every reason, then the sentence."""
    if args.json:
        told = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
        emit_json({"error": told, **{what: list(items) for what, items in reasons.items()}})
        return error.exit_code
    for line in lines:
        complain(line)
    raise error
