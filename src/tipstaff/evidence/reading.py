"""Hostile bytes → JSON values → typed views, or one clear `InputError`.

Strict where JSON parsers differ: UTF-8 only, no duplicate keys, no NaN, nothing after the document. The top level is
read key by key, and the elements of a long array (the events, the journal's entries) are handed over one at a time,
so that memory does not grow with a chain of a million events. What the caller parsed must be JSON too. Knows no schema.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from tipstaff.errors import InputError

MAX_BYTES: Final = 2 * 1024**3
MAX_DEPTH: Final = 100  # above what can be hashed, far below Python's recursion limit
MOST_VALUES: Final = 4_000_000  # in one message; the longest of events has fewer
Sink = Callable[[Any], None]
View = TypeVar("View", bound=msgspec.Struct)


def read_object(data: bytes, sinks: Mapping[str, Sink]) -> dict[str, Any]:
    """Read one JSON object; an array under a key of `sinks` goes there element by element and leaves `[]` behind."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the document is larger than {MAX_BYTES} bytes")
    if not sinks and (value := _as_we_spell(data)) is not None:
        return value
    from tipstaff.evidence.text import read_text  # noqa: PLC0415 - what we wrote ourselves needs no such care

    try:
        return read_text(data.decode("utf-8"), sinks)
    except UnicodeDecodeError as error:
        raise InputError(f"the document is not UTF-8 (byte {error.start})") from error


def read_body(data: bytes) -> dict[str, Any]:
    """Read one JSON object that will be worked with, not only judged.

    Half a character anywhere in it is refused, and so are more values than any message has: an empty object is two
    bytes of text and thirty times that in memory.
    """
    if len(data) > MOST_VALUES and sum(map(data.count, (b"{", b"[", b","))) > MOST_VALUES:
        raise InputError(f"the document holds more than {MOST_VALUES} values")
    value = read_object(data, {})
    if b"\\ud" in data or b"\\uD" in data:  # only an escape can spell half of a surrogate pair
        _refuse_halves(value)
    return value


def _refuse_halves(value: dict[str, Any]) -> None:
    import json  # noqa: PLC0415 - few documents have such escapes

    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError("a string holds a lone surrogate, which has no UTF-8 form") from error
    except RecursionError as error:
        raise InputError("the document is nested too deeply") from error


def _as_we_spell(data: bytes) -> dict[str, Any] | None:
    """Read, much faster, what is spelled as msgspec spells it: it gives the same bytes again, so no key is lost."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if type(value) is dict and msgspec.json.encode(value) == data else None


def typed(value: Any, kind: type[View]) -> View:
    """Look at a JSON value through a noun."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{error}") from error
    except UnicodeEncodeError as error:  # msgspec asks a string for its UTF-8 form where it expects none
        raise InputError("a string holds a lone surrogate, which has no UTF-8 form") from error


def json_object(document: Mapping[Any, Any]) -> dict[str, Any]:
    """Take a document that the caller parsed, if a JSON text could have given it: no tuples, bytes or cycles."""
    fields = dict(document)
    waiting: list[tuple[Any, int]] = [(fields, MAX_DEPTH)]
    while waiting:
        value, depth = waiting.pop()
        kind = type(value)
        if kind is dict or kind is list:
            if depth == 0:
                raise InputError("the document is nested too deeply")
            if kind is dict and not all(type(key) is str for key in value):
                raise InputError("a key must be a string")
            waiting.extend((item, depth - 1) for item in (value.values() if kind is dict else value))
        elif value is not None and kind not in _SCALARS:
            raise InputError(f"a value of type {kind.__name__} is not JSON")
    return fields


_SCALARS = frozenset({str, int, float, bool})
