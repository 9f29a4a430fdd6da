"""What a policy says of limits, joined with the built-in table: for each door, what is given and what is the most.

Amounts are whole numbers in the table's units; cores are thousandths.
"""

from typing import Final

from tipstaff.model.limits import Reply
from tipstaff.policy import document, table

LIMIT_NAMES: Final = ("time", "memory", "cpus", "pids", "disk", "output")
MILLIS: Final = 1000

Bounds = tuple[tuple[str, table.Bound], ...]


def bounds_of(policy: document.Document, door: str) -> Bounds:
    """Give each limit of `policy` for `door`."""
    row = table.row(door)
    return tuple((name, _bound(policy.limits, name, getattr(row, name))) for name in LIMIT_NAMES)


def reply_of(policy: document.Document, door: str) -> Reply:
    """Give what `door` may hand back: the policy's own words where it has any, else the table's."""
    reply = policy.reply
    if reply == document.Reply():
        return table.row(door).reply
    return Reply(
        bytes=None if reply.bytes is None else int(reply.bytes), lines=reply.lines, characters=reply.characters
    )


def least(one: int | None, other: int | None) -> int | None:
    """Give the smaller of two bounds, where None is no bound."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def amount_of(name: str, value: float) -> int:
    """Give the whole number that `value` of the limit `name` means."""
    return max(1, int(value * MILLIS)) if name == "cpus" else int(value)


def _bound(limits: document.Limits, name: str, built_in: table.Bound) -> table.Bound:
    section = getattr(limits, name)
    default = None if section.default is None else amount_of(name, section.default)
    # An author who raises the default without naming a maximum means to have that default.
    most = max(built_in.most, default or 0) if section.max is None else amount_of(name, section.max)
    return table.Bound(min(default or built_in.default, most), most)
