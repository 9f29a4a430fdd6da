"""Takes secrets out of whatever is written: streams, texts, JSON values; and says which were found, where, how often.

Bytes that are no secret come out exactly as they went in, and how a stream is cut into chunks changes nothing. Only a
tail that could still become a secret is held back, until it cannot or the stream ends. Finds that overlap are one.
Never says a value, in an error neither. Finds the spellings that `forms` lists, and no others.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tipstaff.canonical import MAX_DEPTH
from tipstaff.errors import CanonicalError, UsageError
from tipstaff.secrets.finding import Finder
from tipstaff.secrets.forms import MIN_BYTES, forms
from tipstaff.secrets.passing import Redacted, Stream, Untouched, all_that_could_become_one
from tipstaff.secrets.placeholders import known_beginning

MARKER: Final = b"[REDACTED:%s]"
MASK: Final = b"*"
MAX_BYTES: Final = 64 << 10
_MIN_DIFFERENT: Final = 3
_COMMON: Final = frozenset(
    b"administrator anonymous changeit changeme container database development disabled localhost notasecret password "
    b"passw0rd placeholder postgres postgresql production redacted secretkey something test-token testtest undefined "
    b"username 12345678 123456789 1234567890 true,false null,null".split()
)
_NO_BYTES: Final = re.compile("([\ud800-\udc7f\udd00-\udfff]+)")  # halves of characters, and not bytes in disguise


class Leak(msgspec.Struct, frozen=True, order=True):
    """A secret that was found, and taken out."""

    secret: str
    stream: str
    count: int


def fault_of(value: str | bytes) -> str | None:
    """Say why `value` cannot be kept out of an output without spoiling it, or None; the reason never quotes it."""
    try:
        data = _bytes(value) if isinstance(value, str) else value
    except UnicodeEncodeError:
        return "it has half a character (a lone surrogate), which no output can show"
    if b"\0" in data:
        return "it has a NUL byte, which no environment variable and no header can carry"
    return _size_fault(data) or _chance_fault(data.strip())


def _size_fault(data: bytes) -> str | None:
    if len(data.strip()) < MIN_BYTES:
        return f"it is shorter than {MIN_BYTES} bytes, and would be found in outputs that do not have it"
    if len(data) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes: keep the key in it, not the whole file"
    return None


def _chance_fault(core: bytes) -> str | None:
    if len(set(core)) < _MIN_DIFFERENT:
        return f"it has fewer than {_MIN_DIFFERENT} different characters, and would be found in outputs by chance"
    if core.lower() in _COMMON or core in MARKER:
        return "it is a common word, and would be found in outputs that do not mean it"
    return None


class Redactor:
    """The secrets of one run, and what was found of them. Not for several threads at once."""

    def __init__(self, secrets: Mapping[str, str], *, known: bool = True) -> None:
        self._known = known  # to who watches the streams: else what is kept back must not tell how right a guess is
        self._least: dict[bytes, int] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._names: dict[bytes, frozenset[str]] = {}
        for name, value in sorted(secrets.items()):
            if fault := fault_of(value):
                raise UsageError(f"the secret '{name}' cannot be redacted: {fault}", hint="give it another value")
            for form in forms(_bytes(value)):
                self._names[form] = self._names.get(form, frozenset()) | {name}
                self._least[form] = _unguessable(value, len(form))
        if _told_by_names(secrets):
            raise UsageError("the name of a secret tells a secret's value", hint="give that secret another name")
        self._finder = Finder(self._names) if self._names else None

    def stream(self, where: str) -> Stream:
        """Redact a stream: a marker stands where a secret was."""
        return self._passing(where, mask=b"")

    def masking(self, where: str) -> Stream:
        """Redact a stream without changing its length: a `*` stands for each byte of a secret."""
        return self._passing(where, mask=MASK)

    def data(self, where: str, value: bytes) -> bytes:
        """Redact bytes that are all there."""
        stream = self.stream(where)
        return stream.feed(value) + stream.end()

    def text(self, where: str, value: str) -> str:
        """Redact a text; what is no character in it stays as it is."""
        if self._finder is None:
            return value
        pieces = _NO_BYTES.split(value)  # every other one is half a character, which no secret has
        pieces[::2] = [self._piece(where, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def json(self, where: str, value: Any) -> Any:
        """Redact a JSON value, its keys and numbers too; a number that tells a secret becomes a text."""
        return value if self._finder is None else self._json(where, value, MAX_DEPTH)

    def leaks(self) -> tuple[Leak, ...]:
        """Say which secrets were found in which streams, and how often."""
        return tuple(sorted(Leak(*found, count) for found, count in self._counts.items()))

    def _piece(self, where: str, value: str) -> str:
        data = _bytes(value)
        redacted = self.data(where, data)
        return value if redacted == data else redacted.decode("utf-8", "surrogateescape")

    def _passing(self, where: str, *, mask: bytes) -> Stream:
        if (finder := self._finder) is None:
            return Untouched()

        def told(name: str) -> bytes:
            self._counts[name, where] += 1
            return MARKER % _bytes(name)

        if mask:  # as much at any time, whatever comes: who asks for an answer sees in which pieces it arrives
            return Redacted(finder, self._names, told, mask, lambda _form, _depth: finder.longest - 1)
        return Redacted(finder, self._names, told, mask, all_that_could_become_one if self._known else self._shy)

    def _shy(self, form: bytes, depth: int) -> int:
        """Keep back what nobody has come upon by guessing; of a form that is cut before, the beginning is shown."""
        return depth if depth >= self._least[form] else 0

    def _json(self, where: str, value: Any, depth: int) -> Any:
        if depth < 0:
            raise CanonicalError(f"a value is nested deeper than {MAX_DEPTH} levels")
        match value:
            case str():
                return self.text(where, value)
            case None | bool():
                return value
            case int() | float():
                text = self.text(where, str(value))
                return value if text == str(value) else text
            case list() | tuple():
                return [self._json(where, item, depth - 1) for item in value]
            case dict():
                return self._members(where, value, depth - 1)
        raise CanonicalError(f"a {type(value).__name__} is no value of JSON")

    def _members(self, where: str, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, item in value.items():
            name = unique = self._json(where, key, depth)
            number = 1
            while unique in found:  # two keys that were secrets must stay two
                number += 1
                unique = f"{name} ({number})"
            found[unique] = self._json(where, item, depth)
        return found


def _unguessable(value: str, form_bytes: int) -> int:
    """Say how much of a form takes luck to write: what vendors publish of it, and as much again as a short secret."""
    share = min(1.0, (len(known_beginning(value)) + MIN_BYTES) / max(1, len(value.strip())))
    return math.ceil(form_bytes * share)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _told_by_names(secrets: Mapping[str, str]) -> bool:
    """Say whether the marker of a secret says a value."""
    markers = b"".join([MARKER % _bytes(name) for name in secrets])
    return any(_bytes(value).strip() in markers for value in secrets.values())
