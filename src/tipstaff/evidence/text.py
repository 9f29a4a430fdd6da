"""A document as JSON text, read by hand at its top and by `json` below, where no key may stand twice.

An array under a key of `sinks` goes there element by element, so that memory does not grow with it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tipstaff.errors import InputError

Sink = Callable[[Any], None]

_next_mark = re.compile(r"[ \t\n\r]*+([\[\]{}:,])[ \t\n\r]*").match


def read_text(text: str, sinks: Mapping[str, Sink]) -> dict[str, Any]:
    """Read one JSON object; InputError says what is wrong with the text."""
    try:
        return _Reader(text, sinks).read()
    except RecursionError as error:
        raise InputError("the document is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise InputError(f"the document is not JSON: {error.msg} (character {error.pos})") from error
    except ValueError as error:  # Python's own bound on the digits of an integer
        raise InputError("the document holds a number that is too long") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise InputError(f"the key {repeated[:64]!r} stands twice in one object")
    return value


def _constant(name: str) -> Any:
    raise InputError(f"{name} is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).raw_decode


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
