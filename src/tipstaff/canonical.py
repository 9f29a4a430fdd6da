"""Value → RFC 8785 bytes → sha-256.

`rfc8785` is the truth. msgspec's sorted encoder writes the same bytes many times faster as long as the value
holds no float, no integer beyond 2^53 - 1 and no key outside ASCII; `_is_plain` is the guard that says so, and a
property test holds the two equal. What neither can spell has no hash: `CanonicalError`.
Does not parse anything, and knows no schema.
"""

import hashlib
from typing import Any, Final

import msgspec

from tipstaff.errors import CanonicalError

SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64  # far above any document of ours, far below Python's recursion limit

WIDEST: Final = 65_536  # beyond, the slow path takes its time
_LEAVES: Final = frozenset({str, bool, type(None)})
_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: Any) -> bytes:
    """Spell `value`, as `json.loads` gives it, in RFC 8785 bytes."""
    try:
        if _is_plain(value):
            return _encode(value)
        _check_depth(value, MAX_DEPTH)
        import rfc8785  # noqa: PLC0415 - most programs never spell a value that needs it

        return rfc8785.dumps(value)
    except UnicodeEncodeError as error:
        raise CanonicalError("a string holds a lone surrogate, which has no UTF-8 form") from error
    except ValueError as error:
        raise CanonicalError(f"this value has no canonical form: {error}") from error


def digest(value: Any) -> str:
    """H(value): the sha-256 of its canonical bytes, as 64 lowercase hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _is_plain(value: Any) -> bool:
    """Say whether msgspec is sure to write `value` as RFC 8785 does. Level by level: it is asked for every event."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is list:
                below += item
            elif kind is dict and _has_plain_keys(item):
                below += item.values()
            elif kind not in _LEAVES and not (kind is int and -SAFE_INTEGER <= item <= SAFE_INTEGER):
                return False
        if not below:
            return True
        if len(below) > WIDEST:  # a value that contains itself twice doubles at every level
            return False
        level = below
    return False


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    try:
        return "".join(value).isascii()
    except TypeError:  # one is no text
        return False


def _check_depth(value: Any, depth: int) -> None:
    """Refuse nesting that would exhaust the recursion of the slow path."""
    if isinstance(value, dict | list | tuple):
        if depth == 0:
            raise CanonicalError(f"this value is nested deeper than {MAX_DEPTH} levels")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)
