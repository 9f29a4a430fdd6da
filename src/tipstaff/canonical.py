"""Value → RFC 8785 bytes → sha-256.

`rfc8785` is the truth. msgspec's sorted encoder writes the same bytes many times faster as long as the value
holds no float, no integer beyond 2^53 - 1 and no key outside ASCII; `_is_plain` is the guard that says so, and a
property test holds the two equal. What neither can spell has no hash: `CanonicalError`.
Does not parse anything, and knows no schema.
"""

import hashlib
from typing import Any, Final

import msgspec
import rfc8785

from tipstaff.errors import CanonicalError

SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64  # far above any document of ours, far below Python's recursion limit

_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: Any) -> bytes:
    """Spell `value`, as `json.loads` gives it, in RFC 8785 bytes."""
    try:
        if _is_plain(value, MAX_DEPTH):
            return _encode(value)
        _check_depth(value, MAX_DEPTH)
        return rfc8785.dumps(value)
    except UnicodeEncodeError as error:
        raise CanonicalError("a string holds a lone surrogate, which has no UTF-8 form") from error
    except ValueError as error:
        raise CanonicalError(f"this value has no canonical form: {error}") from error


def digest(value: Any) -> str:
    """H(value): the sha-256 of its canonical bytes, as 64 lowercase hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _is_plain(value: Any, depth: int) -> bool:  # noqa: PLR0911 - one return for each kind of JSON value
    """Say whether msgspec is sure to write `value` as RFC 8785 does."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        safe: bool = -SAFE_INTEGER <= value <= SAFE_INTEGER
        return safe
    if depth == 0:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            # Most leaves are text or truth: deciding them here saves a call each, on the hot path of every event.
            leaf = type(item)
            if leaf is not str and leaf is not bool and not _is_plain(item, depth - 1):
                return False
        return True
    if kind is list:
        return all(type(item) is str or _is_plain(item, depth - 1) for item in value)
    return False


def _check_depth(value: Any, depth: int) -> None:
    """Refuse nesting that would exhaust the recursion of the slow path."""
    if isinstance(value, dict | list | tuple):
        if depth == 0:
            raise CanonicalError(f"this value is nested deeper than {MAX_DEPTH} levels")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)
