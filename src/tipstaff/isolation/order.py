"""What the spawner is asked for, as it travels: plain values, any bytes, no types of ours.

It is spelled in our process and read in the spawner's, which has nothing but the standard library.
"""

from typing import Literal, NamedTuple

Kind = Literal["bwrap", "process"]


class Order(NamedTuple):
    """One sandbox and the command in it, with everything decided."""

    kind: Kind
    argv: tuple[str, ...]
    environ: dict[str, str]
    cwd: str
    workspace: str | None
    in_place: bool
    readable: tuple[str, ...]
    masked: tuple[str, ...]
    memory_bytes: int
    cpu_millis: int
    pids: int
    disk_bytes: int
    files: tuple[tuple[str, str], ...] = ()  # (where inside, content)
    keep: bool = False  # what it wrote stays until it was looked at
    port: int = 0  # without a network of its own: where it may connect to, on trust; 0: nowhere


def encode(order: Order) -> bytes:
    """Spell an order."""
    import msgspec  # noqa: PLC0415 - not there in the spawner

    try:
        return msgspec.json.encode(order._asdict())
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 - few orders have bytes that are no UTF-8, which only ASCII carries, as surrogates

        return json.dumps(order._asdict()).encode()


def decode(data: bytes) -> Order:
    """Read an order."""
    import json  # noqa: PLC0415 - read where there is nothing else, spelled where this would cost every start

    fields = json.loads(data)
    listed = {name: tuple(fields[name]) for name in ("argv", "readable", "masked", "files")}
    return Order(**{**fields, **listed})
