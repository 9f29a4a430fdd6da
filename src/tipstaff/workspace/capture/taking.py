"""One attempt at capturing a folder as it is, into a base of the depot.

Where nothing has changed since the last capture, nothing is read and nothing is written. Where little has, the new base
shares the rest with the last one. Git lists and packs while we read and copy. What comes out depends on the content
alone: the same folder gives the same manifest.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tipstaff.canonical import digest
from tipstaff.errors import RefusedError, StoreError
from tipstaff.workspace import listing
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture import filling, remembered, shallow
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.filling import Filled, Known, entries
from tipstaff.workspace.capture.manifest import Left, notices, some, tree_manifest
from tipstaff.workspace.capture.remembered import FORMAT, Remembered
from tipstaff.workspace.capture.repository import Repository
from tipstaff.workspace.capture.scan import Limits, Looker, Scan, Wanted, joined, scan
from tipstaff.workspace.depot import TREE, Depot

Json = dict[str, Any]


class Task(NamedTuple):
    """What is to be captured, and with what."""

    folder: Path
    form: str
    denied: Denied
    depot: Depot
    limits: Limits
    room: Path = Path()  # where the new base is made
    repository: Repository | None = None


class Taken(NamedTuple):
    """What came of it."""

    manifest: Json
    notices: list[str]
    listed: bytes


def take(task: Task) -> Taken:
    """Capture once; ChangedError where the folder changes meanwhile."""
    with Beneath(task.folder) as top, ExitStack() as stack:
        return _Taking(task, top, stack).taken()


class _Done(NamedTuple):
    """What an attempt read."""

    found: Scan
    filled: Filled
    unchanged: Mapping[bytes, str]


class _Taking:
    """The steps, and what they know of each other."""

    def __init__(self, task: Task, top: Beneath, stack: ExitStack) -> None:
        self._task = task
        self._depot = task.depot
        self._repository = task.repository
        self._top = top
        self._stack = stack
        self._looker = Looker(top)
        self._began_nanoseconds = time.time_ns()
        self._source = remembered.source_of(task.folder)
        self._past = remembered.read(self._depot.remembered(self._source))
        self._packing: shallow.Packing | None = None

    def taken(self) -> Taken:
        """Look whether anything has changed, and capture it if so."""
        if self._repository is not None:
            self._repository.begin()
            self._begin_packing(self._repository)
        if self._past is not None:  # while git lists
            self._looker.look_ahead([name for name, _, _ in self._past.rooms])
        elif self._repository is not None:
            self._looker.look_around(self._repository.is_listing)
        key = self._key()
        return self._as_before(key) or self._anew(key)

    def _key(self) -> str:
        """Name all but the files that the manifest depends on."""
        said: list[Any] = [self._task.form, self._task.denied.patterns]
        if self._repository is not None:
            one = self._repository
            said += [one.commit, one.ref, one.object_format, one.exclude, one.notices]
            said.append(sha256(one.listed()).hexdigest())
        return sha256(repr(said).encode()).hexdigest()

    def _as_before(self, key: str) -> Taken | None:
        past = self._past
        if past is None or past.key != key or not past.holds(self._looker):
            return None
        listed = self._depot.listed(past.base)
        return Taken(past.manifest, past.notices, listed) if listed is not None else None

    def _anew(self, key: str) -> Taken:
        """Capture what has changed, or everything."""
        found = self._scan()
        known = self._known(found)
        if known.previous is not None:
            filled = filling.hashed(self._top, found, known.unchanged)
            listed, manifest = self._spelled(found, filled.digests)
            if self._depot.known(digest(manifest)) is not None:
                return self._told(key, _Done(found, filled, known.unchanged), manifest, listed)
            known = known._replace(expected=filled.digests)
        return self._made(key, found, known)

    def _begin_packing(self, repository: Repository) -> None:
        """Let git begin to pack the commit, unless it did so for an earlier capture."""
        if self._task.form == "lean" and not self._depot.pack(self._source, repository.commit or ""):
            self._packing = shallow.Packing(repository, self._task.room / "pack")
            self._stack.callback(self._packing.stop)
            repository.begin_committed()

    def _pack(self, repository: Repository) -> Path:
        """Give the commit's pack; wait for git if it is still at work."""
        commit = repository.commit or ""
        if self._packing is not None:
            self._packing.finish()
            self._depot.keep_pack(self._packing.folder, self._source, commit)
            self._packing = None
        found = self._depot.pack(self._source, commit)
        if found is None:
            raise StoreError("the pack of the repository's commit was removed while it was used", hint="try again")
        return found

    def _scan(self) -> Scan:
        one, task = self._repository, self._task
        if one is None:
            return scan(self._looker, None, task.denied, task.limits)
        found = scan(self._looker, Wanted(one.names()), task.denied, task.limits)
        if task.form == "lean":
            _refuse_denied(one, task.denied, found)
        return found

    def _known(self, found: Scan) -> Known:
        """Say what is as it was at the last capture, whose base is held meanwhile."""
        base = self._depot.held(self._past.base) if self._past is not None else None
        if base is None or self._past is None:
            return Known()
        self._stack.enter_context(base)
        return Known(self._past.digests(found), base.path)

    def _made(self, key: str, found: Scan, known: Known) -> Taken:
        """Make a new base."""
        tree = self._task.room / TREE
        tree.mkdir(mode=0o755)
        filled = filling.fill(self._top, tree, found, known)
        listed, manifest = self._spelled(found, filled.digests)
        if self._repository is not None and self._task.form == "lean":
            shallow.place(self._pack(self._repository), tree, self._repository)
        taken = self._told(key, _Done(found, filled, known.unchanged), manifest, listed)
        self._depot.keep(self._task.room, manifest, listed=listed, source=self._source)
        return taken

    def _spelled(self, found: Scan, digests: Mapping[bytes, str]) -> tuple[bytes, Json]:
        """Spell the list and the manifest."""
        listed = listing.encode(entries(found, digests))
        one, git = self._repository, None
        if one is not None and self._task.form == "lean":
            pack = shallow.digest_of(self._pack(one))
            git = {"commit": one.commit, "ref": one.ref, "packHash": pack, "format": one.object_format}
            git |= {"exclude": one.exclude} if one.exclude else {}
        return listed, tree_manifest(listed, self._task.denied.patterns, Left(found.denied, found.left_out), git)

    def _told(self, key: str, done: _Done, manifest: Json, listed: bytes) -> Taken:
        """Be sure that the folder is still what was captured; say what there is to say, and remember it all."""
        found = done.found
        self._looker.check_unchanged(found)
        pointers = done.filled.pointers | {name for name in self._old_pointers() if name in done.unchanged}
        one = self._repository
        told = [*one.notices] if one is not None else []
        told += notices(Left(found.denied, found.left_out), pointers, one.names().hidden if one is not None else 0)
        rooms, settled = remembered.rooms_of(found, done.filled.digests, self._began_nanoseconds)
        past = Remembered(FORMAT, key, digest(manifest), manifest, told, rooms, sorted(pointers), settled)
        remembered.write(self._depot.remembered(self._source), past)
        return Taken(manifest, told, listed)

    def _old_pointers(self) -> list[bytes]:
        return self._past.pointers if self._past is not None else []


def _refuse_denied(repository: Repository, denied: Denied, found: Scan) -> None:
    """Refuse a repository that tracks what may not leave: it is in the commit, which comes along whole.

    What the scan takes is not denied, so only the rest has to be looked at.
    """
    names, rest = repository.names(), repository.only_committed()
    if sum(len(room.files) + len(room.links) for room in found.rooms) != len(names.tracked) + len(names.untracked):
        rest |= names.tracked.keys()
        for room in found.rooms:
            rest.difference_update(joined(room.name, last) for last in (*room.files, *room.links))
    if tracked := [name for name in rest if denied.matches(name)]:
        raise RefusedError(
            f"the repository tracks what the deny patterns match: {some(tracked)}",
            hint="capture the folder without these and without its history: --capture tree",
        )
