"""Times as the protocol spells them, in UTC with milliseconds, and the clock that is passed in.

A clock gives milliseconds since 1970. Whoever makes one decides what it is made of; nothing here reads any.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

Clock = Callable[[], int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LAST: Final = 253_402_300_799_999  # the last millisecond of the year 9999


def timestamp(milliseconds: int) -> str:
    """Spell a time as it travels."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03}Z"


@lru_cache(maxsize=64)  # the many times of one run lie within few seconds
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def milliseconds(text: str) -> int:
    """Read a time; a `ValueError` says that it is none, as on the 31st of February, or without its zone."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        raise ValueError(f"{text[:40]!r} does not say its zone")
    return (read - _EPOCH) // _MILLISECOND
