"""Files that a run moved: an added one whose content is that of a deleted one came from there.

Only whole, equal contents count, and each deleted file is the origin of one. Pure.
"""

from tipstaff.model.changes import Change, Side


def with_origins(changes: list[Change]) -> list[Change]:
    """Say of each added file whether its content was that of a deleted one."""
    deleted: dict[str, list[bytes]] = {}
    for change in changes:
        if change.base is not None and change.after is None and _can_move(change.base, change):
            deleted.setdefault(change.base.digest, []).append(change.name)
    return [_moved(change, deleted) for change in changes]


def _moved(change: Change, deleted: dict[str, list[bytes]]) -> Change:
    if change.after is None or change.base is not None or not _can_move(change.after, change):
        return change
    sources = deleted.get(change.after.digest, [])
    last = change.name.rpartition(b"/")[2]
    source = next((name for name in sources if name.rpartition(b"/")[2] == last), sources[0] if sources else None)
    if source is None:
        return change
    sources.remove(source)
    return change._replace(origin=source)


def _can_move(side: Side, change: Change) -> bool:
    plain = not (change.withheld or change.redacted or change.ignored)
    return plain and side.size > 0 and not side.is_link
