"""Three ways a file can be: before the run, here now, after the run; with a few lines of what each side changed.

What was there before the run is found by going back from its result over the diff, and counts only when its digest is
the signed one. Reads the folder by descriptor, and changes nothing.
"""

import difflib
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Final

from tipstaff.errors import TipstaffError
from tipstaff.model import names
from tipstaff.plane.changes import Kept
from tipstaff.workspace.apply.contents import Content
from tipstaff.workspace.apply.divergence import Conflict, account, read
from tipstaff.workspace.apply.sections import before, split
from tipstaff.workspace.beneath import Beneath

LINES: Final = 6  # that are shown of what one side changed
MOST_BYTES: Final = 256 * 1024


class Explanation:
    """What is known about both sides of a run's conflicts."""

    def __init__(self, kept: Kept, content: Content, target: Beneath) -> None:
        self._sections = {section.name: section.text for section in split(kept.diff or b"")}
        self._content = content
        self._target = target

    def lines(self, conflict: Conflict) -> Iterator[str]:
        """Write out one conflict."""
        yield from account(conflict)
        old, new, here = self._old(conflict), self._new(conflict), self._here(conflict)
        if conflict.unknown and here is not None:  # what the run had before it is lost: only the two sides are left
            yield from _told("apply", here, new)
        elif old is not None:
            yield from _told("here", old, here)
            yield from _told("the run", old, new)

    def _new(self, conflict: Conflict) -> bytes | None:
        if conflict.now is None or conflict.now.is_link or conflict.now.size > MOST_BYTES:
            return None
        with suppress(TipstaffError):
            return bytes(self._content(conflict.name))
        return None

    def _old(self, conflict: Conflict) -> bytes | None:
        new = self._new(conflict)
        if new is None or conflict.base is None or conflict.name not in self._sections:
            return None
        old = before(new, self._sections[conflict.name])
        return old if old is not None and sha256(old).hexdigest() == conflict.base.digest else None

    def _here(self, conflict: Conflict) -> bytes | None:
        side = conflict.here.side
        if conflict.here.kind != "file" or side is None or side.size > MOST_BYTES:
            return None
        with suppress(OSError):
            return b"".join(read(self._target, conflict.name))
        return None


def _told(who: str, old: bytes, new: bytes | None) -> Iterator[str]:
    """Give the first lines that one side changed."""
    if new is None or b"\0" in old + new:
        return
    was, now = (names.shown(one).splitlines() for one in (old, new))
    changed = list(difflib.unified_diff(was, now, n=0, lineterm=""))[2:]  # behind the two lines with names
    marked = [line for line in changed if line[:1] in {"+", "-"}]
    yield from (f"  {who + ':':<9}{line}" for line in islice(marked, LINES))
    if len(marked) > LINES:
        yield f"  {who + ':':<9}… and {len(marked) - LINES} lines more"
