"""What of a run's changes goes into a folder, and whether it can: chosen, then held against what is there.

1. No name twice, and nothing beneath a name that is a file or a link: a change that says so is taken for an attack.
2. What is beneath a `.git`, has lost a secret to the mask or was not kept is never written; it is named instead.
3. Every other name must be as it was when the run began, or already as the run left it. What was edited while the run
   went on must be as the run left it: nobody knows what the run had begun with.

Looks, and writes nothing: `writing` does, from the plan that is made here.
"""

import os
from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from tipstaff.errors import InputError, UsageError
from tipstaff.model import names
from tipstaff.model.changes import Change, Side
from tipstaff.workspace.apply.divergence import Conflict, Present, present, same
from tipstaff.workspace.apply.writing import Step, parents
from tipstaff.workspace.beneath import Beneath

REDACTED: Final = "a secret was in it: it is never written with the mask"
IN_GIT: Final = "it is part of a git directory, whose hooks and configuration the host would obey"
NOT_KEPT: Final = "its content was not kept"
EDITED: Final = "it was edited here while the run went on"
IGNORED: Final = "the repository ignores it; --ignored brings it too"
# Characters that some file systems leave out when they compare names, and so take `.g\u200cit` for `.git`.
_INVISIBLE: Final = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_READ_BY_GIT: Final = frozenset({".gitmodules", ".gitattributes", ".gitignore", ".mailmap", "gitmod~1"})


class Selection(NamedTuple):
    """What somebody wants of the changes; `only` are names, or folders that names lie in."""

    only: tuple[bytes, ...] = ()
    ignored: bool = False


class Skipped(NamedTuple):
    """A change that is not brought, and why."""

    change: Change
    why: str


class Chosen(NamedTuple):
    """What is to be brought, and what is not."""

    changes: list[Change]
    skipped: list[Skipped]


class Plan(NamedTuple):
    """The steps from what is there to what the run left; `done` is so already, `conflicts` stand in the way."""

    steps: list[Step]
    done: list[Change]
    conflicts: list[Conflict]


def choose(changes: Sequence[Change], selection: Selection = Selection()) -> Chosen:  # noqa: B008 - it is frozen
    """Sort the changes into those that are brought and those that are not; UsageError for a wish that fits nothing."""
    _refuse_impossible(changes)
    wanted = [change for change in changes if not selection.only or within(change.name, selection.only)]
    for only in selection.only:
        if not any(within(change.name, (only,)) for change in changes):
            raise UsageError(f"the run changed nothing that is called {names.shown(only)}", hint="see: tipstaff diff")
    reasons = [(change, why_not(change, ignored=selection.ignored)) for change in wanted]
    return Chosen(
        [change for change, why in reasons if not why], [Skipped(change, why) for change, why in reasons if why]
    )


def within(name: bytes, wishes: Iterable[bytes]) -> bool:
    """Say whether a name is one of these, or lies in one of them."""
    return any(name == wish or name.startswith(wish + b"/") for wish in wishes)


def why_not(change: Change, *, ignored: bool = False) -> str:
    """Say why a change is not written; empty when it is."""
    if is_in_git(change.name):
        return change.withheld or IN_GIT
    if change.withheld or change.redacted:
        return change.withheld or REDACTED
    if change.ignored and not ignored:
        return IGNORED
    return NOT_KEPT if change.after is not None and not change.kept and change.status != "mode" else ""


def is_in_git(name: bytes) -> bool:
    """Say whether a name is, or is beneath, what any file system that git knows would take for a `.git`."""
    return any(part in {".git", "git~1"} for part in _parts(name))


def is_link_for_git(change: Change) -> bool:
    """Say whether a change is a link where git reads a file of its own: it does not follow it, and may refuse it."""
    return change.after is not None and change.after.is_link and _parts(change.name)[-1] in _READ_BY_GIT


def _parts(name: bytes) -> list[str]:
    """Give the parts of a name as a file system may compare them that is less exact than Linux's own."""
    parts = names.shown(name).translate(_INVISIBLE).casefold().split("/")
    return [part.partition(":")[0].rstrip(". ") for part in parts]


def plan_apply(
    changes: Sequence[Change], target: Beneath, *, umask: int = 0o022, edited: Container[bytes] = ()
) -> Plan:
    """Hold the chosen changes against the folder; `edited` are names that somebody edited while the run went on."""
    plan = Plan([], [], [])
    deleted = {change.name for change in changes if change.after is None}
    folders = {above for change in changes if change.after is not None for above in parents(change.name)}
    for change in changes:
        here = present(target, change.name)
        if _can_give_way(change, here, target, deleted):
            here = Present("nothing")
        goal = _goal(change, here, umask)
        plain = here.kind in {"nothing", "file", "link"}
        unknown = EDITED if change.name in edited else ""
        if not unknown and plain and same(here.side, change.base) and here.side != goal:
            plan.steps.append(Step(change.name, here.side, goal, here.stamp))
        elif (plain and same(here.side, goal)) or (change.after is None and _is_gone(change.name, here, folders)):
            plan.done.append(change)
        else:
            plan.conflicts.append(Conflict(change.name, change.base, here, change.after, unknown))
    return plan


def _goal(change: Change, here: Present, umask: int) -> Side | None:
    """Give what is to be there: the folder's own rights stay where the run did not change them."""
    now = change.after
    if now is None or now.is_link:
        return now
    untouched = change.base is not None and not change.base.is_link and change.base.mode == now.mode
    if untouched and here.side is not None and here.kind == "file":
        return now._replace(mode=here.side.mode)
    return now._replace(mode=now.mode & ~umask)


def _is_gone(name: bytes, here: Present, folders: set[bytes]) -> bool:
    """Say whether a deleted name is gone although something is in its place: a folder of the change, or no folder."""
    return here.kind == "blocked" or (here.kind == "folder" and name in folders)


def _can_give_way(change: Change, here: Present, target: Beneath, deleted: set[bytes]) -> bool:
    """Say whether what is in the way of a new name is itself deleted by the change."""
    if change.base is not None or change.after is None:
        return False
    if here.kind == "blocked":
        above = change.name.rpartition(b"/")[0]
        while above and present(target, above).kind in {"nothing", "blocked"}:
            above = above.rpartition(b"/")[0]
        return above in deleted
    return here.kind == "folder" and _holds_only(target, change.name, deleted)


def _holds_only(target: Beneath, folder: bytes, deleted: set[bytes]) -> bool:
    """Say whether everything beneath a folder is deleted."""
    inside = os.listdir(target.folder(folder))  # noqa: PTH208 - by descriptor
    for last in inside:
        name = folder + b"/" + os.fsencode(last)
        if name in deleted:
            continue
        if present(target, name).kind != "folder" or not _holds_only(target, name, deleted):
            return False
    return bool(inside)


def _refuse_impossible(changes: Sequence[Change]) -> None:
    """Refuse what no folder can look like after a run: one name twice, or something beneath a file or a link."""
    there: set[bytes] = set()
    for change in changes:
        if problem := names.fault(change.name):
            raise InputError(f"the run names {names.shown(change.name)[:200]!r}: {problem}")
    seen: set[bytes] = set()
    for change in changes:
        if change.name in seen:
            raise InputError(f"the run speaks twice of {names.shown(change.name)!r}")
        seen.add(change.name)
        if change.after is not None:
            there.add(change.name)
    for name in there:
        if there.intersection(parents(name)):
            raise InputError(f"the run puts {names.shown(name)!r} beneath what is no folder")
