"""The contents that a run left, cut out of the one blob in which they lie, each checked against its signed digest.

They lie one behind another, in the order of the changes that are `kept`. Bytes with another digest are given to nobody.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

from tipstaff.errors import InputError, NotFoundError
from tipstaff.model import names
from tipstaff.model.changes import Change

Content = Callable[[bytes], memoryview]  # a name → what is to lie there


class Contents:
    """The contents of a run's changes, by name."""

    def __init__(self, changes: Sequence[Change], blob: bytes) -> None:
        self._blob = memoryview(blob)
        self._places: dict[bytes, tuple[int, Change]] = {}
        start = 0
        for change in changes:
            if change.kept and change.after is not None:
                self._places[change.name] = (start, change)
                start += change.after.size
        if start != len(blob):
            raise InputError(f"the contents of the run are {len(blob)} bytes, but its changes speak of {start}")

    def __call__(self, name: bytes) -> memoryview:
        """Give a content; InputError when it is not the one that was signed for."""
        if name not in self._places:
            raise NotFoundError(f"the content of {names.shown(name)} is not kept")
        start, change = self._places[name]
        if change.after is None:
            raise NotFoundError(f"{names.shown(name)} was deleted by the run")
        content = self._blob[start : start + change.after.size]
        if sha256(content).hexdigest() != change.after.digest:
            raise InputError(f"the content of {names.shown(name)} is not what the run's events speak of")
        return content
