"""Hostile bytes → JSON values → typed views, or one clear `InputError`.

Strict where JSON parsers differ: UTF-8 only, no duplicate keys, no NaN, nothing after the document. The top level is
read key by key, and the elements of a long array (the events, the journal's entries) are handed over one at a time,
so that memory does not grow with a chain of a million events. What the caller parsed must be JSON too. Knows no schema.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from tipstaff.errors import InputError

MAX_BYTES: Final = 2 * 1024**3
MAX_DEPTH: Final = 100  # above what can be hashed, far below Python's recursion limit
Sink = Callable[[Any], None]
View = TypeVar("View", bound=msgspec.Struct)

_next_mark = re.compile(r"[ \t\n\r]*+([\[\]{}:,])[ \t\n\r]*").match


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise InputError(f"the key {repeated[:64]!r} stands twice in one object")
    return value


def _constant(name: str) -> Any:
    raise InputError(f"{name} is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).raw_decode


def read_object(data: bytes, sinks: Mapping[str, Sink]) -> dict[str, Any]:
    """Read one JSON object; an array under a key of `sinks` goes there element by element and leaves `[]` behind."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the document is larger than {MAX_BYTES} bytes")
    if not sinks and (value := _as_we_spell(data)) is not None:
        return value
    try:
        return _Reader(data.decode("utf-8"), sinks).read()
    except UnicodeDecodeError as error:
        raise InputError(f"the document is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise InputError("the document is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise InputError(f"the document is not JSON: {error.msg} (character {error.pos})") from error
    except ValueError as error:  # Python's own bound on the digits of an integer
        raise InputError("the document holds a number that is too long") from error


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


class _Reader:
    """Reads the top level by hand, and everything below by `json`."""

    def __init__(self, text: str, sinks: Mapping[str, Sink]) -> None:
        self._text = text
        self._sinks = sinks
        self._at = 0

    def read(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        self._mark("{", "the document is not a JSON object")
        more = self._mark("}") != "}"
        while more:
            key = self._value()
            if not isinstance(key, str):
                self._fail("a key must be a string")
            if key in fields:
                raise InputError(f"the key {key[:64]!r} stands twice in the document")
            self._mark(":", "expected ':'")
            fields[key] = self._field(self._sinks.get(key))
            more = self._mark(",}", "expected ',' or '}'") == ","
        if self._at != len(self._text):
            self._fail("something follows the document")
        return fields

    def _field(self, sink: Sink | None) -> Any:
        if sink is None or self._mark("[") != "[":
            return self._value()
        more = self._mark("]") != "]"
        while more:
            sink(self._value())
            more = self._mark(",]", "expected ',' or ']'") == ","
        return []

    def _value(self) -> Any:
        value, self._at = _decode(self._text, self._at)
        return value

    def _mark(self, wanted: str, complaint: str = "") -> str:
        """Take one of the `wanted` characters and the space around it; without a complaint it may be missing."""
        found = _next_mark(self._text, self._at)
        if found is None or found[1] not in wanted:
            if complaint:
                self._fail(complaint)
            return ""
        self._at = found.end()
        return found[1]

    def _fail(self, complaint: str) -> None:
        raise json.JSONDecodeError(complaint, self._text, self._at)
