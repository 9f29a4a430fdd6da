"""The built-in limits, in numbers, one row for each door: what holds where a policy leaves a limit out.

The only place where these numbers stand; docs/reference/limits.md is written from `rendered`. A door without a row
has the protocol's.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tipstaff.model.limits import Reply
from tipstaff.policy.units import show_duration, show_size

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
KIB, MIB, GIB = 2**10, 2**20, 2**30


class Bound(NamedTuple):
    """What a request gets when it names nothing, and the most it can get."""

    default: int
    most: int


class Row(NamedTuple):
    """The limits of one door, in milliseconds, bytes, thousandths of a core and counts."""

    time: Bound
    memory: Bound
    cpus: Bound
    pids: Bound
    disk: Bound
    output: Bound  # the stored copy of each stream
    reply: Reply  # what the door hands back in memory


LIMITS: Final = {
    # A person's own machine: builds run long and large, and the person is there to stop them.
    "cli": Row(
        time=Bound(HOUR, DAY), memory=Bound(4 * GIB, 64 * GIB), cpus=Bound(4000, 64_000),
        pids=Bound(1024, 16_384), disk=Bound(4 * GIB, 64 * GIB), output=Bound(16 * MIB, GIB), reply=Reply(),
    ),
    "protocol": Row(
        time=Bound(10 * MINUTE, HOUR), memory=Bound(GIB, 8 * GIB), cpus=Bound(1000, 4000),
        pids=Bound(256, 4096), disk=Bound(GIB, 16 * GIB), output=Bound(16 * MIB, 256 * MIB), reply=Reply(),
    ),
    "ecs": Row(
        time=Bound(30 * SECOND, 10 * MINUTE), memory=Bound(512 * MIB, 4 * GIB), cpus=Bound(1000, 2000),
        pids=Bound(128, 1024), disk=Bound(256 * MIB, 4 * GIB), output=Bound(MIB, 16 * MIB),
        reply=Reply(characters=10_000),
    ),
    "grpc": Row(
        time=Bound(10 * SECOND, 10 * MINUTE), memory=Bound(512 * MIB, 4 * GIB), cpus=Bound(1000, 2000),
        pids=Bound(128, 1024), disk=Bound(256 * MIB, 4 * GIB), output=Bound(MIB, 16 * MIB),
        reply=Reply(bytes=32 * KIB, lines=200),
    ),
    "inbox": Row(
        time=Bound(MINUTE, HOUR), memory=Bound(512 * MIB, 8 * GIB), cpus=Bound(1000, 4000),
        pids=Bound(128, 1024), disk=Bound(GIB, 8 * GIB), output=Bound(16 * MIB, 64 * MIB),
        reply=Reply(lines=200),
    ),
    "mcp": Row(
        time=Bound(2 * MINUTE, HOUR), memory=Bound(GIB, 8 * GIB), cpus=Bound(2000, 8000),
        pids=Bound(256, 4096), disk=Bound(GIB, 8 * GIB), output=Bound(MIB, 64 * MIB),
        reply=Reply(bytes=32 * KIB),
    ),
}  # fmt: skip


def row(door: str) -> Row:
    """Give the limits of `door`."""
    return LIMITS.get(door) or LIMITS["protocol"]


def rendered() -> str:
    """Write the table as Markdown: default, then the most that can be asked for."""
    lines = ["| door | time | memory | cores | processes | disk | stored output | reply |", "| --- " * 8 + "|"]
    for door, bounds in LIMITS.items():
        cells = [_pair(bounds.time, show_duration), _pair(bounds.memory, show_size), _pair(bounds.cpus, _cores)]
        cells += [_pair(bounds.pids, str), _pair(bounds.disk, show_size), _pair(bounds.output, show_size)]
        lines.append(f"| {door} | {' | '.join(cells)} | {_reply(bounds.reply)} |")
    return "\n".join(lines) + "\n"


def _pair(bound: Bound, show: Callable[[int], str]) -> str:
    return f"{show(bound.default)}, at most {show(bound.most)}"


def _cores(thousandths: int) -> str:
    return f"{thousandths / 1000:g}"


def _reply(reply: Reply) -> str:
    parts = [show_size(reply.bytes)] if reply.bytes else []
    parts += [f"{reply.lines} lines"] if reply.lines else []
    parts += [f"{reply.characters} characters"] if reply.characters else []
    return ", ".join(parts) or "not cut"
