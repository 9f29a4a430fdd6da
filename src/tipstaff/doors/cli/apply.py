"""`tipstaff apply`: bring what a run changed into the folder that it was started for, or onto a branch; or undo that.

The proof of the run is checked first. What the host would execute later is asked for, name by name, or refused where
there is nobody to ask. A folder that is no longer as it was is left alone, with an account of what differs. Everything
is written, or nothing; git, hooks and filters have no part in it. Exit code 1: the proof or the folder does not fit.

Example:
  tipstaff apply last
  tipstaff apply run_1a2b3c4d --branch agent/fix
  tipstaff apply last --revert
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tipstaff.doors.cli.bringing import (
    Bringing,
    Goal,
    UnprovenError,
    bringing_of,
    called,
    change_of,
    edited_of,
    goal_of,
    hazard_json,
    refuse_unknown,
    refused,
    run_of,
    wished,
)
from tipstaff.doors.cli.desk import add_run, opened
from tipstaff.doors.cli.hazards import ask_about
from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.planes import chosen, program
from tipstaff.errors import RefusedError, UsageError
from tipstaff.home import Home, locate
from tipstaff.model import names
from tipstaff.model.changes import Change
from tipstaff.workspace.apply.choosing import Plan, Selection, Skipped, plan_apply
from tipstaff.workspace.apply.divergence import Conflict, DivergedError, account
from tipstaff.workspace.apply.undo import Ask, held, is_recorded
from tipstaff.workspace.beneath import Beneath

Json = dict[str, Any]
LETTERS: Final = {"added": "A", "changed": "M", "deleted": "D", "mode": "M"}
WAYS_ON: Final = (
    "take it to a branch with --branch NAME, a part of it with --only PATH, or another folder with --to DIR"
)
REMOTE: Final = True  # it works with a plane elsewhere too
PART_OF_IT: Final = "take it to a branch with --branch NAME, or the others with --only PATH"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument("--to", metavar="DIR", help="the folder to write into (default: the run's own workspace)")
    parser.add_argument(
        "--only", metavar="PATH", nargs="+", default=[], help="only these files, or the files in these folders"
    )
    parser.add_argument("--branch", metavar="NAME", help="make a commit on this new branch, and touch no file")
    parser.add_argument("--ignored", action="store_true", help="also bring what the repository ignores")
    parser.add_argument(
        "--accept",
        metavar="PATH",
        action="append",
        default=[],
        help="do not ask about this file, or this folder, although the host would execute it (may be repeated)",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, and write nothing")
    parser.add_argument("--revert", action="store_true", help="take away what an earlier apply brought")


def run(args: argparse.Namespace) -> int:
    """Bring it, or take it away."""
    home = locate(os.environ)
    if args.revert:
        return _revert(args, _brought_to(args, home))
    try:
        run_id, kept = change_of(args)
    except UnprovenError as error:
        return refused(args, error, error.problems, problems=error.problems)
    goal = goal_of(run_id, args, kept.contract, home)
    bringing = bringing_of(goal, kept, Selection(wished(args.only), args.ignored))
    refuse_unknown(kept.changes, wished(args.accept))
    if not args.json:
        for one in bringing.chosen.skipped:
            complain(f"tipstaff: not brought: {called(one.change.name)}: {one.why}")
    try:
        return _to_branch(args, bringing) if args.branch is not None else _to_folder(args, bringing)
    except RefusedError as error:
        skipped = map(_skipped_json, bringing.chosen.skipped)
        return refused(args, error, hazards=map(hazard_json, bringing.hazards), skipped=skipped)


def _brought_to(args: argparse.Namespace, home: Home) -> Goal:
    """Find what is to be undone; where the folder is known here, our own record is enough, whatever became of the run.

    A plane elsewhere says at most which run is meant: what is undone is what the record in this home says of that id.
    """
    with opened(args) as plane:
        run_id = run_of(plane, args.run)
        contract = {} if args.to is not None or chosen(args) else plane.run(run_id)["contract"]
    return goal_of(run_id, args, contract, home)


def _to_branch(args: argparse.Namespace, bringing: Bringing) -> int:
    from tipstaff.doors.cli.branching import bring_to_branch  # noqa: PLC0415 - git is needed only here

    if not bringing.chosen.changes:
        return _tell(args, bringing, [])
    if not args.dry_run:
        ask_about(bringing.hazards, wished(args.accept))
    commit = bring_to_branch(bringing, args.branch, dry_run=args.dry_run)
    return _tell(args, bringing, bringing.chosen.changes, commit)


def _to_folder(args: argparse.Namespace, bringing: Bringing) -> int:
    goal, changes = bringing.goal, bringing.chosen.changes
    with Beneath(goal.target) as target:
        if not args.dry_run:
            _recover(args, goal, target)
        plan = plan_apply(changes, target, umask=_umask(), edited=edited_of(bringing.kept))
        if plan.conflicts:
            return _diverged(args, bringing, plan, target)
        if plan.steps and not args.dry_run:
            ask_about(bringing.hazards, wished(args.accept))
            with held(goal.applied, goal.run_id, goal.target) as record:
                record.bring(target, plan.steps, bringing.content, [hazard.name for hazard in bringing.hazards])
    fresh = {step.name for step in plan.steps}
    return _tell(args, bringing, [change for change in changes if change.name in fresh])


def _recover(args: argparse.Namespace, goal: Goal, target: Beneath) -> bool:
    """Put right what a process that died left half-way."""
    if not is_recorded(goal.applied, goal.run_id, goal.target):
        return False
    with held(goal.applied, goal.run_id, goal.target) as record:
        if not record.recover(target, _asking(args)):
            return False
    complain(f"tipstaff: an earlier apply of {goal.run_id} was cut short: what it had written was taken back")
    return True


def _asking(args: argparse.Namespace) -> Ask:
    """Give who is asked about what the host would execute, before it is put back."""
    return partial(ask_about, accepted=wished(args.accept), what="put back")


def _umask() -> int:
    """Read the umask without setting it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o077


def _diverged(args: argparse.Namespace, bringing: Bringing, plan: Plan, target: Beneath) -> int:
    from tipstaff.doors.cli.diverged import Explanation  # noqa: PLC0415 - most folders fit

    explanation = Explanation(bringing.kept, bringing.content, target)
    lines = [line for conflict in plan.conflicts for line in explanation.lines(conflict)]
    error = DivergedError(
        f"in {bringing.goal.target} {_counted(plan.conflicts)}: nothing was brought",
        hint=PART_OF_IT if all(conflict.unknown for conflict in plan.conflicts) else WAYS_ON,
    )
    return refused(args, error, lines, conflicts=map(_conflict_json, plan.conflicts))


def _counted(conflicts: Sequence[Conflict]) -> str:
    count, were = ("1 name", "was") if len(conflicts) == 1 else (f"{len(conflicts)} names", "were")
    if all(conflict.unknown for conflict in conflicts):
        return f"{count} {were} edited while the run went on"
    return f"{count} {'is' if were == 'was' else 'are'} not as when the run began"


def _conflict_json(conflict: Conflict) -> Json:
    before = None if conflict.unknown else conflict.base
    sides = {"before": before, "here": conflict.here.side, "after": conflict.now}
    told = {name: side._asdict() if side else None for name, side in sides.items()}
    unknown = {"unknown": conflict.unknown} if conflict.unknown else {}
    return {**names.spelled(conflict.name), **told, "found": str(conflict.here), **unknown}


def _skipped_json(skipped: Skipped) -> Json:
    return {**names.spelled(skipped.change.name), "why": skipped.why}


def _revert(args: argparse.Namespace, goal: Goal) -> int:
    if not is_recorded(goal.applied, goal.run_id, goal.target):
        raise UsageError(
            f"{goal.run_id} was not applied to {goal.target}", hint="was it another folder? name it with --to"
        )
    with Beneath(goal.target) as target:
        try:
            return _undo(args, goal, target)
        except DivergedError as error:
            lines = [line for conflict in error.conflicts for line in account(conflict)]
            return refused(args, error, lines, conflicts=map(_conflict_json, error.conflicts))


def _undo(args: argparse.Namespace, goal: Goal, target: Beneath) -> int:
    from tipstaff.doors.cli.branching import delete_branches  # noqa: PLC0415 - as above

    recovered = not args.dry_run and _recover(args, goal, target)
    with held(goal.applied, goal.run_id, goal.target) as record:
        written = record.written
        if not (written.steps or written.branches or recovered):
            raise UsageError(f"{goal.run_id} was reverted already: there is nothing to undo")
        undone = record.revert(target, _asking(args), dry_run=args.dry_run)
        deleted = [] if args.dry_run else delete_branches(record, goal.target)
    return _tell_undone(args, goal, undone, deleted)


def _tell_undone(args: argparse.Namespace, goal: Goal, undone: Sequence[Change], deleted: Sequence[str]) -> int:
    if args.json:
        reverted = [{**names.spelled(one.name), "status": one.status} for one in undone]
        told = {"runId": goal.run_id, "reverted": reverted, "branches": deleted, "target": goal.target}
        emit_json({**told, "dryRun": args.dry_run})
        return 0
    for line in _listed(undone):
        say(line)
    if undone:
        would = "would be undone" if args.dry_run else "undone"
        complain(f"tipstaff: {_amount(undone)} {would} in {goal.target}")
    for name in deleted:
        complain(f"tipstaff: the branch {name} was deleted")
    return 0


def _tell(args: argparse.Namespace, bringing: Bringing, brought: Sequence[Change], commit: str = "") -> int:
    if args.json:
        emit_json(
            {
                "runId": bringing.goal.run_id,
                "applied": [{**names.spelled(one.name), "status": one.status} for one in brought],
                "skipped": [_skipped_json(one) for one in bringing.chosen.skipped],
                "hazards": [hazard_json(hazard) for hazard in bringing.hazards],
                "target": bringing.goal.target,
                "branch": args.branch,
                "commit": commit or None,
                "dryRun": args.dry_run,
            }
        )
        return 0
    for line in _listed(brought):
        say(line)
    if args.dry_run:
        for hazard in bringing.hazards:
            complain(f"tipstaff: would be asked about: {called(hazard.name)}: {hazard.kind}: {hazard.why}")
    complain(f"tipstaff: {_summary(args, bringing, brought)}")
    return 0


def _listed(brought: Sequence[Change]) -> Iterator[str]:
    """List names with a letter each; a rename is one line."""
    gone = {change.name for change in brought if change.after is None}
    origins = {change.origin for change in brought if change.origin in gone}
    for change in brought:
        if change.origin in origins and change.origin is not None:
            yield f"R  {called(change.origin)} => {called(change.name)}"
        elif change.name not in origins:
            yield f"{LETTERS[change.status]}  {called(change.name)}"


def _summary(args: argparse.Namespace, bringing: Bringing, brought: Sequence[Change]) -> str:
    goal = bringing.goal
    if not bringing.chosen.changes:
        return f"nothing of what {goal.run_id} changed can be brought"
    if not brought:
        return f"everything is in {goal.target} already: nothing to do"
    where = f"the branch {args.branch} of {goal.target}" if args.branch else goal.target
    if args.dry_run:
        return f"{_amount(brought)} would be brought to {where}; nothing was written"
    return f"{_amount(brought)} brought to {where}; undo with: {program(args)} apply --revert {goal.run_id}"


def _amount(changes: Sequence[Change]) -> str:
    return "1 change" if len(changes) == 1 else f"{len(changes)} changes"
