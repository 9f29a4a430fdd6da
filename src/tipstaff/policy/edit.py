"""Edits of a policy file that leave everything else as its author wrote it.

An edit is made in the text, by the places that `strict_yaml` noted, never by writing the whole file anew: comments,
order, quoting and line endings stay. Each one is read back: what comes out means exactly the edited value, or it is
an error and no text is given. `splice` knows where the characters go; nothing here knows what an edit permits.
"""

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tipstaff.errors import PolicyError
from tipstaff.policy.remedy import AddKey, Append, Edit, Remove, SetValue
from tipstaff.policy.spelling import spelling_of
from tipstaff.policy.splice import Splice, insertions, removals, replacements
from tipstaff.policy.strict_yaml import Path, Tree, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def apply(tree: Tree, edits: "Sequence[Edit]") -> str:
    """Make `edits`, all of which speak of `tree`, and return the new text; PolicyError where one has no place."""
    return plain(tree, edits).text


def plain(tree: Tree, edits: "Sequence[Edit]") -> Tree:
    """As `apply`, read again."""
    # What takes away comes last, and from the end, so that no edit moves the place of another.
    adding = [edit for edit in edits if not isinstance(edit, Remove)]
    taking = [edit for edit in edits if isinstance(edit, Remove)]
    for edit in [*adding, *sorted(taking, key=lambda edit: _order(edit.path), reverse=True)]:
        tree = _apply_one(tree, edit)
    return tree


def tidy(tree: Tree, edits: "Sequence[Edit]") -> Tree:
    """As `plain`, but a list that loses all its items goes with its key; for lists that are empty by default."""
    taken = [edit.path[:-1] for edit in edits if isinstance(edit, Remove)]
    emptied = {path for path in taken if path and isinstance(path[-1], str) and taken.count(path) == _size(tree, path)}
    kept: list[Edit] = [edit for edit in edits if not (isinstance(edit, Remove) and edit.path[:-1] in emptied)]
    return plain(tree, [*kept, *(Remove(path) for path in emptied)])


def compact(tree: Tree, edits: "Sequence[Edit]") -> Tree:
    """As `plain`, but what surrounds a removed item is written anew on one line: for blocks whose lines look alike."""
    around = {edit.path[:-2] for edit in edits if isinstance(edit, Remove)} - {()}
    after = plain(tree, edits)
    return plain(after, [SetValue(path, after.at(path).value) for path in sorted(around, key=_order)])


def _size(tree: Tree, path: Path) -> int:
    return len(tree.at(path).children)


def _order(path: Path) -> list[tuple[bool, str | int]]:
    return [(isinstance(step, int), step) for step in path]


def edited(value: Any, edit: Edit) -> Any:
    """Make `edit` in the plain value: what the new text must mean."""
    if isinstance(edit, Append):
        return _changed(value, edit.path, lambda items: [*items, edit.value])
    if isinstance(edit, AddKey):
        return _changed(value, edit.path, lambda mapping: {**mapping, edit.key: edit.value})
    if isinstance(edit, SetValue):
        return _changed(value, edit.path, lambda _: edit.value)
    last = edit.path[-1]
    return _changed(value, edit.path[:-1], lambda around: _without(around, last))


def _changed(value: Any, path: Path, change: Any) -> Any:
    if not path:
        return change(value)
    copy: Any = value.copy()
    copy[path[0]] = _changed(value[path[0]], path[1:], change)
    return copy


def _without(around: Any, step: str | int) -> Any:
    copy = around.copy()
    del copy[step]
    return copy


def _apply_one(tree: Tree, edit: Edit) -> Tree:
    _check_place(tree, edit)
    wanted = _meaning(edited(tree.value, edit))
    for splices in _ways(tree, edit):
        after = _reread(tree, splices)
        if after is not None and _meaning(after.value) == wanted:
            return after
    raise _misplaced(tree, edit, "cannot be edited as text; edit it by hand")


def _check_place(tree: Tree, edit: Edit) -> None:
    node = tree.node(edit.path)
    if node is None or (isinstance(edit, Remove) and not edit.path):
        raise _misplaced(tree, edit, "is not there")
    if isinstance(edit, Append) and node.kind != "sequence":
        raise _misplaced(tree, edit, "is not a list")
    if isinstance(edit, AddKey) and node.kind != "mapping":
        raise _misplaced(tree, edit, "is not a mapping")
    if isinstance(edit, AddKey) and edit.key in node.keys:
        raise _misplaced(tree, edit, f"has a key `{edit.key}` already")


def _misplaced(tree: Tree, edit: Edit, problem: str) -> PolicyError:
    where = ".".join(str(step) for step in edit.path) or "the document"
    spot = tree.spot(edit.path)
    return PolicyError(f"`{where}` {problem}", source=tree.source, line=spot.line, column=spot.column)


def _meaning(value: Any) -> str:
    """Spell `value` so that 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _reread(tree: Tree, splices: list[Splice]) -> Tree | None:
    text = tree.text
    for splice in sorted(splices, reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    try:
        return read(text, tree.source)
    except PolicyError:
        return None


def _ways(tree: Tree, edit: Edit) -> "Iterator[list[Splice]]":
    """Offer ways to make the edit, the most careful first; the last writes the collection around it anew."""
    spelling = spelling_of(tree.text)
    if isinstance(edit, Append):
        yield from insertions(tree, edit.path, "- ", spelling.value(edit.value))
    elif isinstance(edit, AddKey):
        yield from insertions(tree, edit.path, "", spelling.pair(edit.key, edit.value))
    elif isinstance(edit, SetValue):
        yield from replacements(tree, edit.path, spelling.value(edit.value))
    else:
        yield from removals(tree, edit.path)
    around = edit.path[:-1] if isinstance(edit, Remove | SetValue) else edit.path
    inside = msgspec.structs.replace(edit, path=edit.path[len(around) :])
    yield from replacements(tree, around, spelling.value(edited(tree.at(around).value, inside)))
