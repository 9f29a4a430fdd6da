"""What a comparison finds, sorted as it comes: changes to bring back, ignored output, and what happened to a `.git`.

Counts everything and holds no more names than the bounds allow: a run that made a million files is told so in a
sentence, not in a million entries. Reads no content.
"""

import stat
from typing import Final, NamedTuple

from tipstaff.model.changes import RIGHTS
from tipstaff.workspace import internals
from tipstaff.workspace.collect.comparing import Found
from tipstaff.workspace.collect.ignored import Ignored
from tipstaff.workspace.collect.layers import View

MIB: Final = 1 << 20
SPECIAL: Final = 0o6000  # set-uid and set-gid
MOST_NAMED: Final = 1_000
_BATCH: Final = 512


class Bounds(NamedTuple):
    """How much of a change is brought back."""

    files: int = 10_000
    bytes: int = 512 * MIB  # contents kept
    name_bytes: int = 4 * MIB  # each name is an event, and long in many spellings
    diff_bytes: int = 64 * MIB
    file_in_diff_bytes: int = 8 * MIB
    ignored_files: int = 1_000
    ignored_bytes: int = 16 * MIB
    diff_seconds: float = 60.0


class Pile:
    """Changes of one sort: all counted, as many held as are allowed."""

    def __init__(self, most: int, most_name_bytes: int) -> None:
        self._most = most
        self._most_name_bytes = most_name_bytes
        self.files = 0
        self.bytes = 0
        self.name_bytes = 0
        self.held: list[Found] = []

    def add(self, found: Found) -> None:
        """Count one, and hold it if there is room."""
        self.files += 1
        self.name_bytes += len(found.name)
        self.bytes += found.now.st_size if found.now is not None and not stat.S_ISDIR(found.now.st_mode) else 0
        if len(self.held) < self._most and self.name_bytes <= self._most_name_bytes:
            self.held.append(found)


class Gathering:
    """Takes what a comparison finds."""

    def __init__(self, view: View, bounds: Bounds, ignored: Ignored) -> None:
        self._view = view
        self._asked = ignored
        self._waiting: list[Found] = []
        self.changes = Pile(bounds.files, bounds.name_bytes)
        self.ignored = Pile(bounds.ignored_files, bounds.name_bytes)
        self.planted = Pile(bounds.files, bounds.name_bytes)  # in a `.git`, and named
        self.noise = Pile(0, 0)
        self.privileged: list[bytes] = []
        self.edited: list[bytes] = []

    def take(self, found: Found) -> None:
        """Sort one in."""
        self._remark(found)
        if found.internal:
            (self.noise if _is_noise(found) else self.planted).add(found)
        elif _is_same_but_for_bits(found):
            return
        elif found.astray or _is_folder(found):
            self.changes.add(found)
        else:
            self._waiting.append(found)
            if len(self._waiting) >= _BATCH:
                self.finish()

    def finish(self) -> None:
        """Sort in what waits for git's word on it."""
        waiting, self._waiting = self._waiting, []
        covered = self._asked.covers([(found.name, found.base is not None) for found in waiting])
        for found, is_ignored in zip(waiting, covered, strict=True):
            (self.ignored if is_ignored else self.changes).add(found)

    @property
    def ignored_problem(self) -> str:
        """Say why nothing is ignored although it might be."""
        return self._asked.problem

    def _remark(self, found: Found) -> None:
        """Note bits that make a program run as its owner, and a base that was changed meanwhile."""
        base, now = (side.st_mode if side is not None else 0 for side in (found.base, found.now))
        if stat.S_ISREG(now) and now & SPECIAL & ~base and len(self.privileged) < MOST_NAMED:
            self.privileged.append(found.name)
        since = self._view.started_ns
        if since and found.base is not None and found.base.st_ctime_ns > since and len(self.edited) < MOST_NAMED:
            self.edited.append(found.name)


def _is_noise(found: Found) -> bool:
    """Say whether something in a `.git` is bookkeeping: a file that is, or the removal of anything but the whole."""
    if found.now is None:
        return internals.parts_inside(found.name) != ()
    return stat.S_ISREG(found.now.st_mode) and internals.is_noise(found.name)


def _is_same_but_for_bits(found: Found) -> bool:
    """Say whether only bits differ that are never brought back."""
    if found.base is None or found.now is None or not found.same:
        return False
    return not (found.base.st_mode ^ found.now.st_mode) & RIGHTS


def _is_folder(found: Found) -> bool:
    return any(side is not None and stat.S_ISDIR(side.st_mode) for side in (found.base, found.now))
