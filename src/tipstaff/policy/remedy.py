"""Edits of a policy file, as values: what would have to change for one reason to fall away.

An edit speaks of a place in the document (`("rules", 3, "except")`) and of plain values; how it looks in the file
is the business of `edit`. Nothing here decides, and nothing here says that a change is wise.
"""

from typing import Any

import msgspec

from tipstaff.model.decision import Reason

Path = tuple[str | int, ...]


class Append(msgspec.Struct, frozen=True):
    """Add `value` at the end of the list at `path`, which exists."""

    path: Path
    value: Any


class SetValue(msgspec.Struct, frozen=True):
    """Put `value` in the place of the value at `path`, which exists."""

    path: Path
    value: Any


class AddKey(msgspec.Struct, frozen=True):
    """Add `key` with `value` to the mapping at `path`, which has no such key."""

    path: Path
    key: str
    value: Any


class Remove(msgspec.Struct, frozen=True):
    """Take the list item or the key at `path` away."""

    path: Path


Edit = Append | SetValue | AddKey | Remove


class Remedy(msgspec.Struct, frozen=True):
    """What would remove one reason; no edits means that no policy can."""

    reason: Reason
    edits: tuple[Edit, ...] = ()


def appended(document: Any, path: Path, value: Any) -> Edit:
    """Add `value` to the list at `path`, and make whatever of `path` is not there yet."""
    there = depth_of(document, path)
    return Append(path, value) if there == len(path) else _grown(path, there, [value])


def assigned(document: Any, path: Path, value: Any) -> Edit:
    """Set the value at `path`, and make whatever of `path` is not there yet."""
    there = depth_of(document, path)
    return SetValue(path, value) if there == len(path) else _grown(path, there, value)


def depth_of(document: Any, path: Path) -> int:
    """Count how many steps of `path` exist in `document`."""
    for depth, step in enumerate(path):
        known = (
            document if isinstance(document, dict) else dict(enumerate(document if isinstance(document, list) else ()))
        )
        if step not in known:
            return depth
        document = known[step]
    return len(path)


def _grown(path: Path, there: int, value: Any) -> Edit:
    for step in reversed(path[there + 1 :]):
        value = {step: value}
    return AddKey(path[:there], str(path[there]), value)
