"""A run's change as a branch: from which commit it begins, what the commit says, and how it is deleted again."""

import os
from pathlib import Path
from typing import Any, Final

from tipstaff.doors.cli.bringing import Bringing
from tipstaff.doors.cli.output import complain
from tipstaff.doors.cli.wording import command_of, shortened
from tipstaff.errors import UsageError
from tipstaff.model import names
from tipstaff.workspace.apply.branch import (
    HEADS,
    Message,
    Start,
    delete_branch,
    first_commit,
    make_branch,
    person,
    points_to,
    reference,
    refuse_unfit,
    repository,
)
from tipstaff.workspace.apply.undo import Record, held

Json = dict[str, Any]
SUBJECT: Final = 72
NAMED: Final = 5  # names that one line tells


def bring_to_branch(bringing: Bringing, name: str, *, dry_run: bool) -> str:
    """Make the branch; gives its commit, or the one that it would begin from."""
    directory = repository(Path(bringing.goal.target))
    ref = reference(name)
    parent = first_commit(directory, _began_at(bringing.kept.contract))
    refuse_unfit(bringing.chosen.changes)
    if dry_run:
        if points_to(directory, ref):
            raise UsageError(f"the branch {name} exists", hint="give another name, or delete it first")
        return parent
    message = Message(_message(bringing), person(os.environ))
    made = make_branch(Start(directory, ref, parent), bringing.chosen.changes, bringing.content, message)
    with held(bringing.goal.applied, bringing.goal.run_id, bringing.goal.target) as record:
        record.note_branch(made.ref, made.commit)
    if made.others:
        listed = ", ".join(map(names.shown, made.others[:NAMED])) + (" …" if len(made.others) > NAMED else "")
        complain(f"tipstaff: the run did not begin with what {parent[:12]} has, but with other content, for: {listed}")
    return made.commit


def delete_branches(record: Record, target: str) -> list[str]:
    """Delete the branches that were made and are still as they were; says so about the others. Gives their names."""
    deleted = []
    for ref, commit in list(record.written.branches.items()):
        name = ref.removeprefix(HEADS)
        if why := delete_branch(repository(Path(target)), ref, commit):
            complain(f"tipstaff: the branch {name} is left: {why}")
        else:
            deleted.append(name)
        record.forget_branch(ref)
    return deleted


def _began_at(contract: Json) -> str | None:
    """Give the commit that the contract names; None for a folder that was not captured from git."""
    workspace: Json = contract.get("workspace") or {}
    if isinstance(workspace.get("git"), dict):
        return str(workspace["git"].get("commit"))
    return str(workspace.get("baseRef")) if workspace.get("bundleHash") and "kind" not in workspace else None


def _message(bringing: Bringing) -> str:
    contract, receipt = bringing.kept.contract, bringing.kept.bundle["receipt"]
    execution = contract.get("execution") or {}
    asked = execution.get("prompt") or command_of(execution)
    subject = shortened(" ".join(asked.split()) or bringing.goal.run_id, SUBJECT)
    return f"{subject}\n\nTipstaff-Run: {bringing.goal.run_id}\nTipstaff-Contract: {receipt['contractHash']}\n"
