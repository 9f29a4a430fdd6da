"""The size of a change, a line for each name, as `tipstaff diff --stat` prints it; also of what is not in the diff.

The last line counts the names that differ: as many as `tipstaff run` told of. Pure.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from tipstaff.doors.cli.bringing import called
from tipstaff.model.changes import RIGHTS, Change
from tipstaff.workspace.apply.sections import Section

PAINTS: Final = {"+": "\x1b[32m", "-": "\x1b[31m"}
PLAIN: Final = "\x1b[m"
GRAPH: Final = 40  # the most marks behind a name
SPELLED: Final = frozenset({0o644, 0o755, None})  # rights that git has a word for; None: there was no file


def stat_lines(changes: Sequence[Change], sections: Sequence[Section], *, colour: bool = False) -> Iterator[str]:
    """Write out the size of each change, as git does."""
    ours = [change for change in changes if not (change.ignored or change.withheld)]
    rows = [*_shown(ours, sections, colour=colour), *_not_shown(ours, names_in(sections))]
    width = max((len(title) for title, _ in rows), default=0)
    for title, size in rows:
        yield f" {title:<{width}} | {size}".rstrip()
    added, deleted = sum(one.added for one in sections), sum(one.deleted for one in sections)
    yield f" {len(ours)} changed, +{added} -{deleted} lines"


def names_in(sections: Iterable[Section]) -> set[bytes]:
    """Give the names that a diff speaks of."""
    return {name for one in sections for name in (one.name, one.origin)}


def rights(change: Change) -> str:
    """Spell the new rights of a file where git's diff does not."""
    if change.after is None or change.after.is_link:
        return ""
    now = change.after.mode & RIGHTS
    was = change.base.mode & RIGHTS if change.base is not None and not change.base.is_link else None
    if was == now or {was, now} <= SPELLED:
        return ""
    return f"{now:o}" if was is None else f"{was:o} => {now:o}"


def _shown(changes: Sequence[Change], sections: Sequence[Section], *, colour: bool) -> Iterator[tuple[str, str]]:
    most = max((one.added + one.deleted for one in sections), default=0)
    unspelled = {change.name: said for change in changes if (said := rights(change))}
    for one in sections:
        title = called(one.name) if one.name == one.origin else f"{called(one.origin)} => {called(one.name)}"
        behind = f" rights {unspelled[one.name]}" if one.name in unspelled else _modes(one)
        yield title, _graph(one, most, colour=colour) + behind


def _not_shown(changes: Sequence[Change], shown: Container[bytes]) -> Iterator[tuple[str, str]]:
    for change in changes:
        if change.name not in shown:
            yield called(change.name), f"rights {rights(change)}" if change.status == "mode" else "not in the diff"


def _graph(section: Section, most: int, *, colour: bool) -> str:
    if section.binary:
        return "binary"
    counts = {"+": section.added, "-": section.deleted}
    marks = (_painted(mark, mark * _scaled(count, most), colour=colour) for mark, count in counts.items())
    return f"{section.added + section.deleted} {''.join(marks)}"


def _painted(mark: str, text: str, *, colour: bool) -> str:
    return f"{PAINTS[mark]}{text}{PLAIN}" if colour and text else text


def _scaled(count: int, most: int) -> int:
    return count if most <= GRAPH else -(-count * GRAPH // most)


def _modes(section: Section) -> str:
    said = dict(line.rsplit(b" ", 1) for line in section.text.split(b"\n", 4)[:4] if b" mode " in line)
    old, new = said.get(b"old mode"), said.get(b"new mode")
    return f" mode {old.decode()} => {new.decode()}" if old and new else ""
