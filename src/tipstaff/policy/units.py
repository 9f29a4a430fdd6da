"""Durations and sizes, as people write them, to integers and back.

A duration always carries its unit: `timeout: 10` has meant seconds to one reader and milliseconds to the next.
A size may be a bare integer of bytes. Both are whole numbers; `0.5h` is written `30m`.
"""

import re
from typing import Final

MILLISECONDS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
BYTES: Final = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
LARGEST: Final = 2**53 - 1  # what every JSON reader holds exactly

_BINARY: Final = {unit: factor for unit, factor in BYTES.items() if unit == "B" or unit.endswith("iB")}
_AMOUNT = re.compile(r"([0-9]{1,16}) ?([A-Za-z]+)\Z")


class Duration(int):
    """Milliseconds, read from text with a unit; made a plain integer before it leaves the policy."""

    __slots__ = ()


class Size(int):
    """Bytes, read from text with a unit or from a bare integer; plain again, as a duration is."""

    __slots__ = ()


def duration(value: object) -> Duration:
    """Read `500ms`, `30s`, `10m`, `1h` or `7d`; ValueError says what to write instead."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = f"a duration needs its unit; write `{value}s` or `{value}m`"
        raise ValueError(message)  # noqa: TRY004 - msgspec gives a place to a ValueError only
    return Duration(_amount(value, MILLISECONDS, "a duration such as `500ms`, `30s`, `10m`, `1h` or `7d`"))


def size(value: object) -> Size:
    """Read `64KiB`, `1MiB`, `2GiB`, `10MB` or an integer of bytes; ValueError says what to write instead."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Size(_within(value, str(value)))
    return Size(_amount(value, BYTES, "a size such as `64KiB`, `1MiB`, `2GiB` or an integer of bytes"))


def show_duration(milliseconds: int) -> str:
    """Spell `milliseconds` with the largest unit that leaves a whole number."""
    return _show(milliseconds, MILLISECONDS)


def show_size(amount: int) -> str:
    """Spell `amount` bytes with the largest binary unit that leaves a whole number."""
    return _show(amount, _BINARY)


def _amount(value: object, units: dict[str, int], wanted: str) -> int:
    text = value if isinstance(value, str) else "this"
    found = _AMOUNT.match(text)
    if found is None or found[2] not in units:
        raise ValueError(f"`{text[:40]}` is not {wanted}")
    return _within(int(found[1]) * units[found[2]], text)


def _within(amount: int, text: str) -> int:
    if not 1 <= amount <= LARGEST:
        raise ValueError(f"`{text[:40]}` is out of range: it must be at least 1 and at most {LARGEST}")
    return amount


def _show(amount: int, units: dict[str, int]) -> str:
    unit, factor = max(
        ((unit, factor) for unit, factor in units.items() if amount % factor == 0), key=lambda pair: pair[1]
    )
    return f"{amount // factor}{unit}"
