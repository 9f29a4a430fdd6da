"""What was brought into a folder, written down before the first name changes, so that it can be taken away again.

One record for a run and a folder: each step with what was there and what is there now, and the old contents beside it,
by digest. A record that says `applying` or `reverting` while nobody holds its lock was left by a process that died; the
next one brings the folder back to what was there before. A record of which nothing is left says so.

Only a whole run id names a record, only a record of this very folder counts, and none is believed that speaks of a git
directory: we never write there. What the host would execute is put back only if somebody agrees, or agreed before.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from tipstaff.errors import BusyError, InputError, NotFoundError, RefusedError, StoreError
from tipstaff.model import names
from tipstaff.model.changes import Change, Side, from_event, to_event
from tipstaff.model.ids import is_run_id
from tipstaff.workspace.apply.choosing import is_in_git, plan_apply
from tipstaff.workspace.apply.contents import Content
from tipstaff.workspace.apply.divergence import Conflict, DivergedError, read
from tipstaff.workspace.apply.hazards import Hazard
from tipstaff.workspace.apply.hazards import find as find_hazards
from tipstaff.workspace.apply.writing import (
    PREFIX,
    Folders,
    NotAppliedError,
    Step,
    changed_meanwhile,
    missing_folders,
    parents,
    remove_staging,
    write,
)
from tipstaff.workspace.beneath import Beneath

Json = dict[str, Any]
State = Literal["applying", "applied", "reverting", "reverted"]
Ask = Callable[[Sequence[Hazard]], None]  # raises where nobody agrees
UNFINISHED: Final = ("applying", "reverting")
KEY_DIGITS: Final = 16
_STAGING_BYTES: Final = 8
_OVERWRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Written(msgspec.Struct, forbid_unknown_fields=True):
    """The record as it lies on disk; steps are spelled as the fields of events."""

    target: str
    state: State = "applied"
    staging: str = ""
    steps: list[Json] = []
    pending: list[Json] = []
    made: list[Json] = []  # folders that were not there
    rights: list[Json] = []  # of folders that may be left empty
    branches: dict[str, str] = {}
    accepted: list[Json] = []  # names that the host would execute or obey, and that somebody agreed to


def refuse_hazards(hazards: Sequence[Hazard]) -> None:
    """Agree to nothing: for whoever cannot ask anybody."""
    if hazards:
        raise RefusedError(
            f"the host would execute or obey {names.shown(hazards[0].name)} later, and nobody agreed to put it back",
            hint="name it with --accept PATH",
        )


@contextmanager
def held(applied: Path, run_id: str, target: str) -> Iterator["Record"]:
    """Hold the record of a run and a folder; BusyError when another process does. One that stays empty goes again."""
    folder = _folder(applied, run_id, target)
    for one in (applied, folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, run_id)
        try:
            yield Record(folder, target)
        finally:
            _remove_empty(folder)
    finally:
        os.close(descriptor)


def is_recorded(applied: Path, run_id: str, target: str) -> bool:
    """Say whether there is a record of this run in this folder."""
    return (_folder(applied, run_id, target) / "record.json").exists()


def forget_missing(applied: Path, known: Callable[[str], bool]) -> int:
    """Remove the records of runs that are not `known` any more; gives how many.

    One that is held, or half-way, stays: it alone says how the folder was.
    """
    removed = 0
    for run in sorted(applied.iterdir()) if applied.is_dir() else ():
        if run.is_dir() and not run.is_symlink() and not known(run.name):
            removed += sum(_forgotten(folder, run.name) for folder in sorted(run.iterdir()))
    return removed


def _forgotten(folder: Path, run_id: str) -> bool:
    """Remove one record, if nobody needs it; one that cannot be read stays for a person to look at."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _lock(descriptor, run_id)
        if Record(folder, None).written.state in UNFINISHED:
            return False
        (folder / "record.json").unlink(missing_ok=True)
        _remove_empty(folder)
    except StoreError:
        return False
    finally:
        os.close(descriptor)
    return True


def _folder(applied: Path, run_id: str, target: str) -> Path:
    """Name the folder of a record: an id that is none could lead to somebody else's files, taken for our record."""
    if not is_run_id(run_id):
        raise InputError(f"{run_id[:64]!r} is not the id of a run: nothing was brought or taken away")
    return applied / run_id / sha256(target.encode()).hexdigest()[:KEY_DIGITS]


class Record:
    """The record of one run and one folder; whoever has it holds its lock."""

    def __init__(self, folder: Path, target: str | None) -> None:
        self.folder = folder
        self._file = folder / "record.json"
        self._old = folder / "old"
        self._was_there = self._file.exists()
        self.written = self._read(target)

    def bring(self, target: Beneath, steps: Sequence[Step], content: Content, accepted: Sequence[bytes] = ()) -> None:
        """Take the steps, all or none, and remember how to take them back; `accepted` are hazards agreed to."""
        before = msgspec.structs.replace(self.written)
        self._keep_old(target, steps)
        self._begin(
            "applying",
            pending=[to_event(Change(step.name, step.before, step.after)) for step in steps],
            made=[*before.made, *map(names.spelled, missing_folders(steps, target))],
            rights=[*before.rights, *_rights(target, steps)],
            accepted=[*before.accepted, *map(names.spelled, accepted)],
        )
        self._write(target, steps, content, Folders(), before)
        fresh = {step.name for step in steps}
        rest = [one for one in before.steps if names.read(one) not in fresh]
        self._save(state="applied", steps=[*rest, *self.written.pending], pending=[], staging="")

    def revert(self, target: Beneath, ask: Ask = refuse_hazards, *, dry_run: bool = False) -> list[Change]:
        """Put back what was there before, all or nothing; gives what was undone. DivergedError names what changed."""
        undone = [from_event(one) for one in self.written.steps]
        before = msgspec.structs.replace(self.written)
        steps = self._backwards(target, undone)
        if dry_run:
            return undone
        ask(self._hazards(undone))
        self._begin("reverting")
        self._write(target, steps, self._content(undone), self._folders(), before)
        self.forget()
        return undone

    def recover(self, target: Beneath, ask: Ask = refuse_hazards) -> bool:
        """Put back what was there before a process died half-way; says whether there was anything to do."""
        if self.written.state not in UNFINISHED:
            return False
        applying = self.written.state == "applying"
        undone = [from_event(one) for one in (self.written.pending if applying else self.written.steps)]
        steps = self._backwards(target, undone)
        ask(self._hazards(undone))
        if self.written.staging.encode().startswith(PREFIX):
            remove_staging(target, self.written.staging.encode())
        before = msgspec.structs.replace(self.written)
        self._begin(self.written.state)
        self._write(target, steps, self._content(undone), self._folders(), before)
        if applying and self.written.steps:
            self._save(state="applied", pending=[], staging="")
        else:
            self.forget()
        return True

    def note_branch(self, ref: str, commit: str) -> None:
        """Remember a branch that was made."""
        self._save(branches={**self.written.branches, ref: commit})

    def forget_branch(self, ref: str) -> None:
        """Forget a branch that is gone, or somebody else's by now."""
        self._save(branches={name: commit for name, commit in self.written.branches.items() if name != ref})

    def forget(self) -> None:
        """Keep no more than that it was reverted."""
        self._save(state="reverted", steps=[], pending=[], made=[], rights=[], accepted=[], staging="")
        shutil.rmtree(self._old, ignore_errors=True)

    def _write(
        self, target: Beneath, steps: Sequence[Step], content: Content, folders: Folders, before: Written
    ) -> None:
        """Write; where nothing was changed, the record is as it was."""
        try:
            write(target, steps, content, self.written.staging.encode(), folders)
        except BaseException as error:
            if not (isinstance(error, NotAppliedError) and error.left):
                self.written = before
                self._save() if self._was_there else self._file.unlink()
            raise

    def _begin(self, state: State, **fields: Any) -> None:
        staging = PREFIX.decode() + os.urandom(_STAGING_BYTES).hex()
        self._save(state=state, staging=staging, **fields)

    def _backwards(self, target: Beneath, undone: Sequence[Change]) -> list[Step]:
        plan = plan_apply([Change(one.name, one.after, one.base, kept=True) for one in undone], target, umask=0)
        if plan.conflicts:
            raise DivergedError(
                f"{len(plan.conflicts)} of the names are no longer as they were left: nothing was undone",
                [Conflict(one.name, one.now, one.here, one.base) for one in plan.conflicts],
                hint=f"the old contents are in {self._old}",
            )
        return plan.steps

    def _hazards(self, undone: Sequence[Change]) -> list[Hazard]:
        """Find what the host would execute or obey among what is put back, but for what was agreed to before."""
        agreed = {names.read(one) for one in self.written.accepted}
        back = [Change(one.name, one.after, one.base, kept=True) for one in undone if one.name not in agreed]
        return find_hazards(back, self._content(undone))

    def _folders(self) -> Folders:
        rights = {names.read(one): int(one["rights"]) for one in self.written.rights}
        return Folders(frozenset(names.read(one) for one in self.written.made), rights)

    def _content(self, undone: Sequence[Change]) -> Content:
        sides = {one.name: one.base for one in undone}

        def content(name: bytes) -> memoryview:
            return memoryview(self._old_content(name, sides[name]))

        return content

    def _old_content(self, name: bytes, side: Side | None) -> bytes:
        digest = side.digest if side else ""
        try:
            content = (self._old / digest).read_bytes()
        except OSError as error:
            raise NotFoundError(f"what {names.shown(name)} was before is not kept any more") from error
        if sha256(content).hexdigest() != digest:
            raise StoreError(f"what {names.shown(name)} was before is damaged in {self._old}", hint="restore a backup")
        return content

    def _keep_old(self, target: Beneath, steps: Sequence[Step]) -> None:
        """Keep what will be replaced or removed, on disk before anything else happens."""
        self._old.mkdir(mode=0o700, exist_ok=True)
        for step in steps:
            if step.before is not None and not (self._old / step.before.digest).exists():
                self._keep(target, step.name, step.before)
        _sync_folder(self._old)

    def _keep(self, target: Beneath, name: bytes, side: Side) -> None:
        digest, part = sha256(), self._old / "part"
        try:
            with _private(part) as file:
                for chunk in [target.target(name)] if side.is_link else read(target, name):
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{names.shown(name)} cannot be kept: {error.strerror}; nothing was changed") from error
        if digest.hexdigest() != side.digest:
            raise changed_meanwhile(name)
        part.rename(self._old / side.digest)

    def _read(self, target: str | None) -> Written:
        try:
            written = msgspec.json.decode(self._file.read_bytes(), type=Written)
            changes = [from_event(one) for one in [*written.steps, *written.pending]]
            for one in written.accepted:
                names.read(one)
        except FileNotFoundError:
            return Written(target=target or "", state="reverted")
        except (OSError, msgspec.DecodeError, InputError) as error:
            raise StoreError(f"the record {self._file} cannot be read: {error}", hint="restore a backup") from error
        self._refuse_foreign(written, changes, target)
        return written

    def _refuse_foreign(self, written: Written, changes: Sequence[Change], target: str | None) -> None:
        """Refuse a record that cannot be ours: of another folder, or of names that are never brought."""
        if target is not None and written.target != target:
            raise StoreError(f"the record {self._file} is of {written.target[:200]}, and not of {target}")
        inside = next((one.name for one in changes if is_in_git(one.name)), None)
        if inside is not None:
            raise StoreError(
                f"the record {self._file} speaks of {names.shown(inside)}, in a git directory, which is never brought",
                hint="it is not a record of ours: remove it",
            )

    def _save(self, **fields: Any) -> None:
        """Write the record down, durably, whole or not at all."""
        self.written = msgspec.structs.replace(self.written, **fields)
        part = self.folder / "part"
        try:
            with _private(part) as file:
                file.write(msgspec.json.encode(self.written))
                file.flush()
                os.fsync(file.fileno())
            part.rename(self._file)
            _sync_folder(self.folder)
        except OSError as error:
            raise StoreError(f"{self._file} cannot be written: {error.strerror}", hint="check the disk") from error


def _lock(descriptor: int, run_id: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(f"another process is applying {run_id}", hint="wait for it, then try again") from error


def _remove_empty(folder: Path) -> None:
    """Take away a record of nothing, and the folders that it leaves empty."""
    if (folder / "record.json").exists():
        return
    shutil.rmtree(folder)
    for above in (folder.parent, folder.parent.parent):
        with suppress(OSError):
            above.rmdir()


def _rights(target: Beneath, steps: Sequence[Step]) -> list[Json]:
    """Note the rights of folders that may be left empty."""
    gone = {above for step in steps if step.after is None for above in parents(step.name)}
    found = {name: target.stat(name) for name in sorted(gone)}
    return [{**names.spelled(name), "rights": there.st_mode & 0o7777} for name, there in found.items() if there]


def _private(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, _OVERWRITE, 0o600), "wb")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
