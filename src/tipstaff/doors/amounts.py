"""Limits as people write them on a command line or in a call: `64M`, `1.5GiB`, `90`, `2m`, `0.5`.

Sizes count in powers of two, as `ulimit` and container tools do. Whatever is not clearly an amount of at least one is
a `UsageError` that names the option, the value and an example; nothing is rounded to zero.
"""

import re
from typing import Final

from tipstaff.errors import UsageError

Amount = str | int | float
LARGEST: Final = 2**53 - 1  # what every JSON reader holds exactly
_NUMBER = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,9})?)\s?([a-z]*)\Z")
_POWERS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}
_BYTES: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}{ending}": 2**power for letter, power in _POWERS.items() for ending in ("", "b", "ib")},
}
_MILLISECONDS: Final = {"": 1000, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def size_bytes(value: Amount, option: str) -> int:
    """Read a size; a bare number is bytes."""
    return _amount(value, _BYTES, option, "a size such as 64M, 1.5GiB or 1048576")


def duration_ms(value: Amount, option: str) -> int:
    """Read a duration; a bare number is seconds."""
    return _amount(value, _MILLISECONDS, option, "a duration such as 90, 1.5, 2m or 1h")


def cpu_millis(value: Amount, option: str) -> int:
    """Read a number of cores in thousandths."""
    return _amount(value, {"": 1000}, option, "a number of cores such as 0.5 or 2")


def count(value: Amount, option: str) -> int:
    """Read a whole number."""
    return _amount(value, {"": 1}, option, "a whole number such as 64")


def _amount(value: Amount, units: dict[str, int], option: str, wanted: str) -> int:
    text = str(value).strip().lower()
    found = _NUMBER.match(text) if not isinstance(value, bool) else None
    if found is None or found[2] not in units:
        raise UsageError(f"{option}: '{str(value)[:40]}' is not {wanted}")
    whole, _, rest = found[1].partition(".")
    if rest and units == {"": 1}:
        raise UsageError(f"{option}: '{text}' is not {wanted}")
    amount: int = int(whole + rest) * units[found[2]] // 10 ** len(rest)  # exact, as floats are not
    if not 1 <= amount <= LARGEST:
        raise UsageError(f"{option}: '{text}' is out of range", hint=f"give {wanted}")
    return amount
