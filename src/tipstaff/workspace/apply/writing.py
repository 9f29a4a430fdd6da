"""Steps written into a folder, all or none: staged beside, moved into place, and moved back when one does not fit.

1. Every new content lies in a folder of ours at the top of the target, flushed, before the first name changes.
2. A name changes by a move that writes over nothing; what was there comes into our folder and is held against what was
   checked before. So nothing is lost that somebody put there in between, and going back needs no room on the disk.
3. Parts of names are opened one by one, no link followed. Hooks, filters and git have no part in it.

Does not decide what is written, and keeps no record: see `undo`.
"""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tipstaff.errors import TipstaffError
from tipstaff.model import names
from tipstaff.model.changes import RIGHTS, Side
from tipstaff.workspace.apply.contents import Content
from tipstaff.workspace.apply.divergence import DivergedError, Stamp, present, read, stamp_of
from tipstaff.workspace.apply.exchange import Place, exchange, move
from tipstaff.workspace.beneath import Beneath

PREFIX: Final = b".tipstaff-apply-"
_NEW_FOLDER: Final = 0o777  # less what the umask takes


class NotAppliedError(TipstaffError):
    """A folder that could not be written; it is as it was, or the message says what is not."""

    exit_code = 74

    def __init__(self, message: str, left: Iterable[bytes] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.left = tuple(left)  # names that could not be put back


class Step(NamedTuple):
    """One name: what is there, which was looked at as `stamp`, and what is to be there."""

    name: bytes
    before: Side | None
    after: Side | None
    stamp: Stamp = (0, 0, 0)


class Folders(NamedTuple):
    """What is known about folders: those that may go when they are empty (None: any), and rights of those to make."""

    removable: frozenset[bytes] | None = None
    rights: Mapping[bytes, int] = {}


def parents(name: bytes) -> list[bytes]:
    """Give the folders that a name lies in, the nearest first."""
    parts = name.split(b"/")
    return [b"/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def missing_folders(steps: Sequence[Step], target: Beneath) -> list[bytes]:
    """Find the folders that have to be made for these steps."""
    wanted = {above for step in steps if step.after is not None for above in parents(step.name)}
    return sorted(name for name in wanted if present(target, name).kind != "folder")


def write(target: Beneath, steps: Sequence[Step], content: Content, staging: bytes, folders: Folders) -> None:
    """Take every step, or none; DivergedError and NotAppliedError leave the folder as it was."""
    target.forget()
    writing = _Writing(target, content, staging, folders)
    try:
        writing.stage(steps)
        writing.move(steps)
    except BaseException as error:
        left = writing.go_back()
        if left:  # what could not be put back still lies in our folder, which stays
            raise _half_done(left, staging) from error
        remove_staging(target, staging)
        if isinstance(error, OSError):
            raise _failed(error, writing.at) from error
        raise
    remove_staging(target, staging)


def remove_staging(target: Beneath, staging: bytes) -> None:
    """Take our folder away, with what lies in it."""
    target.forget()
    try:
        with Beneath(target.folder(staging)) as folder:
            for last in os.listdir(folder.descriptor):  # noqa: PTH208 - by descriptor
                with suppress(IsADirectoryError):  # somebody's folder, moved there in a race: it is not ours to remove
                    folder.remove(os.fsencode(last))
    except (FileNotFoundError, NotADirectoryError):
        return
    target.forget()
    with suppress(OSError):
        os.rmdir(staging, dir_fd=target.descriptor)


class _Writing:
    """The steps, and how each is taken back."""

    def __init__(self, target: Beneath, content: Content, staging: bytes, folders: Folders) -> None:
        self._target = target
        self._content = content
        self._staging = staging
        self._folders = folders
        self._needed: set[bytes] = set()  # folders in which something new will lie
        self._back: list[tuple[bytes, Callable[[], None]]] = []
        self.at = b""  # the name that is being worked on

    def stage(self, steps: Sequence[Step]) -> None:
        """Lay every new content beside."""
        os.mkdir(self._staging, 0o700, dir_fd=self._target.descriptor)
        for number, step in enumerate(steps):
            if step.after is not None:
                self.at = step.name
                self._lay(step, step.after, self._staged(number))
        self.at = b""
        os.fsync(self._target.folder(self._staging))

    def move(self, steps: Sequence[Step]) -> None:
        """Change the names: what goes, the folders that it leaves empty, then what comes."""
        self._needed = {above for step in steps if step.after is not None for above in parents(step.name)}
        numbered = list(enumerate(steps))
        for number, step in numbered:
            if step.after is None:
                self.at = step.name
                self._take(step, number)
        left = [step.name for step in steps if step.after is None]
        # What may go is known by name when a change is undone: a process that died may have left some of it empty.
        self._remove_empty([*left, *(name + b"/" for name in sorted(self._folders.removable or (), reverse=True))])
        for number, step in numbered:
            if step.after is not None:
                self.at = step.name
                self._put(step, number)
        for above in {step.name.rpartition(b"/")[0] for step in steps}:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.fsync(self._target.folder(above))

    def go_back(self) -> list[bytes]:
        """Take back what was done, the last first; gives the names for which that failed."""
        left = []
        for name, back in reversed(self._back):
            self._target.forget()
            try:
                back()
            except OSError:
                left.append(name)
        return left

    def _staged(self, number: int) -> bytes:
        return b"%s/%d" % (self._staging, number)

    def _lay(self, step: Step, after: Side, staged: bytes) -> None:
        if after.is_link:
            self._target.link(bytes(self._content(step.name)), staged, make=False)
            self._give_away(staged, step.name, *parents(step.name))
            return
        descriptor = self._target.create(staged, after.mode & RIGHTS, make=False)
        with os.fdopen(descriptor, "wb") as file:
            if step.before is not None and not step.before.is_link and step.before.digest == after.digest:
                for chunk in read(self._target, step.name):
                    file.write(chunk)
            else:
                file.write(self._content(step.name))
            file.flush()
            self._give_away(staged, step.name, *parents(step.name))
            os.fchmod(descriptor, after.mode & RIGHTS)  # again: a new owner may take rights away
            os.fsync(descriptor)

    def _give_away(self, made: bytes, *like: bytes) -> None:
        """As root: let the owner of the first of these that is there, or else of the folder, own what is new."""
        if os.geteuid() != 0:
            return
        around = next((found for one in like if (found := self._target.stat(one))), None)
        owner = around or os.fstat(self._target.descriptor)
        folder, last = self._target.place(made)
        os.chown(last, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)

    def _place(self, number: int) -> Place:
        return self._target.place(self._staged(number))

    def _take(self, step: Step, number: int) -> None:
        """Move what is there into our folder, and look whether it is what was checked."""
        self._change(move, step.name, lambda: (self._target.place(step.name), self._place(number)))
        self._back.append((step.name, lambda: move(self._place(number), self._target.place(step.name))))
        self._check(step, number)

    def _put(self, step: Step, number: int) -> None:
        """Move what is new to its name; what was there comes into our folder in exchange."""
        self._make_folders(step.name)
        how = exchange if step.before is not None else move
        self._change(how, step.name, lambda: (self._place(number), self._target.place(step.name)))
        self._back.append((step.name, lambda: how(self._target.place(step.name), self._place(number))))
        if step.before is not None:
            self._check(step, number)

    @staticmethod
    def _change(how: Callable[[Place, Place], None], name: bytes, places: Callable[[], tuple[Place, Place]]) -> None:
        try:
            how(*places())
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise changed_meanwhile(name) from error

    def _check(self, step: Step, number: int) -> None:
        folder, last = self._place(number)
        found = os.stat(last, dir_fd=folder, follow_symlinks=False)
        kind = stat.S_IFLNK if step.before is not None and step.before.is_link else stat.S_IFREG
        if stamp_of(found) != step.stamp or stat.S_IFMT(found.st_mode) != kind:
            raise changed_meanwhile(step.name)

    def _make_folders(self, name: bytes) -> None:
        for above in reversed(parents(name)):
            try:
                self._target.folder(above)
            except FileNotFoundError:
                self._make_folder(above)
            except NotADirectoryError as error:
                raise changed_meanwhile(name) from error

    def _make_folder(self, name: bytes) -> None:
        folder, last = self._target.place(name)
        os.mkdir(last, _NEW_FOLDER, dir_fd=folder)
        self._back.append((name, partial(self._remove_folder, name)))
        self._give_away(name, *parents(name))
        if name in self._folders.rights:
            os.fchmod(self._target.folder(name), self._folders.rights[name])

    def _remove_empty(self, gone: Sequence[bytes]) -> None:
        """Remove the folders that are empty now, as git does."""
        for name in gone:
            for above in parents(name):
                found = self._target.stat(above)
                if found is None or above in self._needed or not self._may_go(above):
                    break
                try:
                    self._remove_folder(above)
                except OSError:  # it is not empty, or not ours to remove: it stays
                    break
                self._back.append((above, partial(self._make_again, above, found)))

    def _may_go(self, name: bytes) -> bool:
        return self._folders.removable is None or name in self._folders.removable

    def _remove_folder(self, name: bytes) -> None:
        folder, last = self._target.place(name)
        os.rmdir(last, dir_fd=folder)
        self._target.forget()

    def _make_again(self, name: bytes, was: os.stat_result) -> None:
        folder, last = self._target.place(name)
        try:
            os.mkdir(last, 0o700, dir_fd=folder)
        except FileExistsError:
            self._target.folder(name)  # somebody's folder by now serves as well; anything else does not
            return
        made = self._target.folder(name)
        if os.geteuid() == 0:
            os.fchown(made, was.st_uid, was.st_gid)
        os.fchmod(made, stat.S_IMODE(was.st_mode))


def changed_meanwhile(name: bytes) -> DivergedError:
    """Make the error for a name that is no longer as it was checked."""
    return DivergedError(
        f"{names.shown(name)} was changed while the changes were brought: nothing was written", hint="try again"
    )


def _failed(error: OSError, name: bytes) -> NotAppliedError:
    where = f"{names.shown(name)}: " if name else ""
    return NotAppliedError(f"{where}{error.strerror or error}: nothing was changed", hint="mend it, and try again")


def _half_done(left: Sequence[bytes], staging: bytes) -> NotAppliedError:
    listed = ", ".join(map(names.shown, left))
    return NotAppliedError(
        f"it failed, and could not be taken back for {listed}; what was there lies in {names.shown(staging)}",
        left,
        hint="mend what hinders, then: tipstaff apply --revert RUN",
    )
