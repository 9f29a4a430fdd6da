"""Two folders, side by side: which names are not as they were, found by descriptor and without following a link.

The second folder is an overlay's upper layer, below which the first one shows, or a whole copy. Every name that differs
in type, content or rights is handed to `take`, in no order. Contents are compared when their sizes are equal; what is
different is not read to its end. Folders themselves are not compared: one that is empty is no change.
Below DEEPEST folders nothing is looked at: the folder is handed over in place of what is in it.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.model import names
from tipstaff.workspace import internals
from tipstaff.workspace.beneath import FOLDER, READ
from tipstaff.workspace.collect import layers

DEEPEST: Final = 100
_PART: Final = 1 << 18


class Found(NamedTuple):
    """A name that is not as it was. A folder stands for all in it: too deep to look at, or a `.git` that is gone."""

    name: bytes
    base: os.stat_result | None
    now: os.stat_result | None
    same: bool = False  # the content is as it was
    internal: bool = False  # it is in a `.git`
    astray: bool = False  # a folder above it was none before


@dataclass(slots=True)
class _Level:
    """One folder on the way down, on both sides where it is there."""

    name: bytes
    base: int | None
    now: int | None
    covered: bool  # nothing of the base shows through
    depth: int = 0
    internal: bool = False
    astray: bool = False
    cut: bool = False

    def below(self, last: bytes) -> bytes:
        return b"%s/%s" % (self.name, last) if self.name else last


class Comparison:
    """One comparison; `marks` are those of an upper layer, empty for a whole copy."""

    def __init__(self, take: Callable[[Found], None], marks: str = "") -> None:
        self._take = take
        self._marks = marks

    def run(self, base: Path, now: Path) -> None:
        """Compare two folders."""
        before = os.open(base, FOLDER)
        try:
            after = layers.entered(now)
            try:
                self._compare(_Level(b"", before, after, not self._marks or layers.is_opaque(after, self._marks)))
            finally:
                os.close(after)
        finally:
            os.close(before)

    def _compare(self, level: _Level) -> None:
        hidden = _listed(level.base) if level.covered and level.base is not None else {}
        if level.now is not None:
            with os.scandir(level.now) as entries:
                for entry in entries:
                    last = os.fsencode(entry.name)
                    hidden.pop(last, None)
                    self._look(level, last, entry.stat(follow_symlinks=False))
        for last, base in hidden.items():
            self._gone(level, last, base)

    def _look(self, level: _Level, last: bytes, now: os.stat_result) -> None:
        base = _stat(level.base, last)
        if self._marks and layers.is_whiteout(now):
            if base is not None:
                self._gone(level, last, base)
        elif stat.S_ISDIR(now.st_mode):
            self._enter(level, last, base)
        else:
            if base is not None and stat.S_ISDIR(base.st_mode):
                self._gone(level, last, base)
                base = None
            self._told(level, last, base, now)

    def _enter(self, level: _Level, last: bytes, base: os.stat_result | None) -> None:
        """Go into a folder of the second side."""
        was_folder = base is not None and stat.S_ISDIR(base.st_mode)
        if base is not None and not was_folder:
            self._told(level, last, base, None)
        if level.now is None or not self._may_enter(level, last):
            return
        now = layers.entered(last, level.now)
        try:
            covered = level.covered or (bool(self._marks) and layers.is_opaque(now, self._marks))
            astray = level.astray or (base is not None and not was_folder)
            below = self._level(level, last, now=now, covered=covered, astray=astray)
            self._down(below, level.base if was_folder else None, last)
        finally:
            os.close(now)

    def _gone(self, level: _Level, last: bytes, base: os.stat_result) -> None:
        """Tell that a name of the first side, or all that was in it, is gone."""
        whole = internals.is_git(last) and not level.internal
        if not stat.S_ISDIR(base.st_mode) or whole:
            if self._marks or _is_ordinary(base) or whole:  # a copy never had the others
                self._told(level, last, base, None)
        elif self._may_enter(level, last):
            self._down(self._level(level, last, now=None, covered=True, astray=level.astray), level.base, last)

    def _down(self, below: _Level, above: int | None, last: bytes) -> None:
        """Compare a folder's content, with that of the first side's folder in `above` where that was one."""
        below.base = _folder(above, last)
        try:
            self._compare(below)
        finally:
            if below.base is not None:
                os.close(below.base)

    def _level(self, above: _Level, last: bytes, *, now: int | None, covered: bool, astray: bool) -> _Level:
        internal = above.internal or internals.is_git(last)
        return _Level(above.below(last), None, now, covered, above.depth + 1, internal, astray)

    def _may_enter(self, level: _Level, last: bytes) -> bool:
        if level.depth < DEEPEST and not names.fault(level.below(last)):
            return True
        self._cut(level)
        return False

    def _cut(self, level: _Level) -> None:
        """Hand over a folder in place of what is in it, once."""
        if not level.cut:
            level.cut = True
            gone = level.now is None
            now = os.fstat(level.now) if level.now is not None else None
            base = os.fstat(level.base) if level.base is not None and gone else None
            self._take(Found(level.name, base, now, internal=level.internal))

    def _told(self, level: _Level, last: bytes, base: os.stat_result | None, now: os.stat_result | None) -> None:
        name = level.below(last)
        if names.fault(name):
            self._cut(level)
            return
        internal = level.internal or internals.is_git(last)
        same = base is not None and now is not None and self._is_same(level, last, base, now, internal=internal)
        if same and base is not None and now is not None and base.st_mode == now.st_mode:
            return
        self._take(Found(name, base, now, same, internal, level.astray))

    def _is_same(
        self, level: _Level, last: bytes, base: os.stat_result, now: os.stat_result, *, internal: bool
    ) -> bool:
        if stat.S_IFMT(base.st_mode) != stat.S_IFMT(now.st_mode) or level.base is None or level.now is None:
            return False
        if stat.S_ISLNK(now.st_mode):
            return os.readlink(last, dir_fd=level.base) == os.readlink(last, dir_fd=level.now)
        if not stat.S_ISREG(now.st_mode):
            return base.st_rdev == now.st_rdev
        if base.st_size != now.st_size:
            return False
        if internal and internals.is_noise(level.below(last)):
            return not self._marks  # only counted: not worth reading
        return _same_content(last, level.base, level.now)


def _is_ordinary(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)


def _stat(folder: int | None, last: bytes) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _folder(above: int | None, last: bytes) -> int | None:
    """Open a folder of the base; None where there is none any more."""
    if above is None:
        return None
    try:
        return os.open(last, FOLDER, dir_fd=above)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _listed(folder: int) -> dict[bytes, os.stat_result]:
    """List a folder of the base; what vanishes meanwhile is not there."""
    with os.scandir(folder) as entries:
        found = {last: _stat(folder, last) for last in (os.fsencode(entry.name) for entry in entries)}
    return {last: known for last, known in found.items() if known is not None}


def _same_content(last: bytes, base: int, now: int) -> bool:
    """Compare two files of one size; one that cannot be read any more is not the same."""
    try:
        before = os.open(last, READ, dir_fd=base)
    except OSError:
        return False
    try:
        after = layers.opened(last, now)
        try:
            while (part := os.read(after, _PART)) == os.read(before, _PART):
                if not part:
                    return True
            return False
        finally:
            os.close(after)
    finally:
        os.close(before)
