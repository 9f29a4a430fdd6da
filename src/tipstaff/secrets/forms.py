"""The spellings in which a secret may turn up: as it is, in one case, encoded, escaped, line by line, backwards.

White space around a value is no part of it. Of base64 only what does not depend on the bytes around the value is a
form, and what a value at the very end gives: at most six bits at each edge stay. A form is never shorter than
`MIN_BYTES`, else it would be found where no secret is.
Pure. Knows no compression, no encryption, no base32, no hex dump with blanks: who has a value can always disguise it.
"""

import binascii
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

MIN_BYTES: Final = 8
MIN_LINE: Final = 16  # a shorter line of a longer value may be anything
LONG: Final = 512  # beyond, nobody escapes every single character

_JOINTS: Final = (b"", b" ", b"\n+", b"\n-", b"\n ")  # of unquoted shell words, and of diffs
_BASE64_WIDTHS: Final = (64, 76)  # of PEM and openssl, of MIME and coreutils
_WINDOW: Final = 32  # characters of base64: more than the headers that keys of one kind share
_CUT: Final = 32  # bytes: what is shorter fits a line, or leaves too little on either
_CUT_MAX: Final = 4 << 10  # beyond, the parts are too many
_HEX_WIDTHS: Final = (60,)  # of `xxd -p`
_ARMOUR: Final = re.compile(rb"-----(?:BEGIN|END) [A-Z0-9 ]+-----")  # no secret: it is the same in every key
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]*\Z")  # nobody escapes these, unless he escapes everything
_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"
_LEFT_ALONE: Final = (b"~", b"~/", b"", b"*", b"~!'()*", b"~!'()*;,/?:@&=+$#")  # RFC 3986, Python, forms, JavaScript
_JSON: Final = {34: '\\"', 92: "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
_SPECIAL: Final = [
    re.compile(rb"[\s'\"\\|&;()<>!{}*\[\]?^$`" + more + rb"]") for more in (b"", b",", b",#~", b",#~=%+:@")
]
_IN_QUOTES: Final = re.compile(rb'["\\$`]')
_C: Final = {92: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"}
_LAST_SINGLE: Final = 0xFFFF  # beyond, UTF-16 needs two units
_JSON_ESCAPED: Final = ("", "/", "<>&", "/<>&", "<>&'\"+`")  # by Python, PHP, Go, PHP in HTML, .NET
_MARKUP_TABLES: Final = tuple(
    {38: "&amp;", 60: "&lt;", 62: "&gt;", 34: double, 39: single}
    for double in ("&quot;", "&#34;", '"')
    for single in ("&#39;", "&#x27;", "&apos;", "'")
)


def forms(value: bytes) -> tuple[bytes, ...]:
    """List the spellings of `value`, itself first, each once."""
    core = value.strip()
    found = dict.fromkeys([core, core.lower(), core.upper()])  # names of hosts come in lower case
    for whole in dict.fromkeys(_line_ends(core)):
        found |= dict.fromkeys(_encoded(whole))
        found |= dict.fromkeys(_escaped(whole))
    found |= dict.fromkeys(_by_line(core))
    return tuple(form for form in found if len(form) >= MIN_BYTES or form == core)


def _line_ends(value: bytes) -> tuple[bytes, ...]:
    """A value of several lines as it is, and with both ends of lines: a terminal writes CRLF for LF."""
    if b"\n" not in value:
        return (value,)
    unix = value.replace(b"\r\n", b"\n")
    return value, unix, unix.replace(b"\n", b"\r\n")


def _by_line(value: bytes) -> Iterator[bytes]:
    """The lines of a value of several joined in other ways, and those that are secret by themselves."""
    lines = value.splitlines()
    if len(lines) == 1:
        return
    yield from (joint.join(lines) for joint in _JOINTS)
    for line in map(bytes.strip, lines):
        if len(line) >= MIN_LINE and not _ARMOUR.fullmatch(line):
            yield from (line, line[::-1])
            text = line.decode("utf-8", "surrogateescape").translate(_JSON)
            yield from (_utf_8(text), _utf_8(text.replace("/", "\\/")))


def _encoded(value: bytes) -> Iterator[bytes]:
    """Every byte is written in another way."""
    yield from _base64(value)
    digits, with_end = value.hex().encode(), (value + b"\n").hex().encode()
    yield from (digits, digits.upper())
    yield from _wrapped(digits, with_end, _HEX_WIDTHS)
    yield from _wrapped(digits.upper(), with_end.upper(), _HEX_WIDTHS)
    yield value[::-1]
    text = value.decode("utf-8", "surrogateescape")
    yield _utf_8(text[::-1])
    yield text.encode("utf-16-le", "surrogatepass").rstrip(b"\0")
    yield text.encode("utf-16-be", "surrogatepass").lstrip(b"\0")  # for ASCII the same
    yield from _each_escaped("%%%02X", value)
    if len(value) <= LONG:
        yield from _each_escaped("\\x%02X", value)
        yield from _each_unit_escaped(text)


def _base64(value: bytes) -> Iterator[bytes]:
    for before in range(3):
        text = binascii.b2a_base64(bytes(before) + value, newline=False)
        padding = text.count(b"=")
        whole = text[(0, 2, 3)[before] :]  # the first characters also hold bits of what came before
        inner = whole[: len(whole) - padding - 1] if padding else whole
        for form in (inner, whole, whole.rstrip(b"=")):
            yield form
            yield form.translate(bytes.maketrans(b"+/", b"-_"))
    yield from _cut_base64(value)
    alone, with_end = (binascii.b2a_base64(text, newline=False) for text in (value, value + b"\n"))
    yield from _wrapped(alone, with_end, _BASE64_WIDTHS)


def _cut_base64(value: bytes) -> Iterator[bytes]:
    """Parts of an encoded value: where tools cut it into lines depends on what comes before, but is between groups."""
    for part in _ARMOUR.split(value) if _CUT < len(value) <= _CUT_MAX else ():
        for before in range(3):
            text = binascii.b2a_base64(bytes(before) + part, newline=False)
            starts = range(4 if before else 0, len(text) - _WINDOW - 3, 4)  # whole groups of whole bytes of ours
            yield from (text[start : start + _WINDOW] for start in starts)


def _wrapped(text: bytes, with_end: bytes, widths: tuple[int, ...]) -> Iterator[bytes]:
    """An encoded value cut into lines, without and with a line end at its end (as `echo` gives it)."""
    for width in widths:
        for spelled in (text, with_end) if len(text) > width else ():
            lines = [spelled[start : start + width] for start in range(0, len(spelled), width)]
            yield b"\n".join(lines)
            yield b"\r\n".join(lines)
            yield from (line for line in lines if len(line) >= MIN_LINE)


def _each_escaped(pattern: str, value: bytes) -> Iterator[bytes]:
    """Every byte by `pattern`, in both cases of its digits."""
    for case in (pattern, pattern.lower()):
        yield b"".join(map(_all_escaped(case).__getitem__, value))


@cache
def _all_escaped(pattern: str) -> list[bytes]:
    return [(pattern % byte).encode() for byte in range(256)]


def _each_unit_escaped(text: str) -> Iterator[bytes]:
    digits = text.encode("utf-16-be", "surrogatepass").hex()
    for case in (digits, digits.upper()):
        yield "".join(["\\u" + case[start : start + 4] for start in range(0, len(case), 4)]).encode()


def _escaped(value: bytes) -> Iterator[bytes]:
    """Only what a notation cannot hold is written in another way."""
    yield value
    text = value.decode("utf-8", "surrogateescape")
    if not _PLAIN.match(text):
        yield from _shell(value)
        yield from _bytewise(value)
        yield from map(_utf_8, _json(text))
        yield from map(_utf_8, _spelled(text, _MARKUP_TABLES))


def _spelled(text: str, tables: Iterable[dict[int, str]]) -> Iterator[str]:
    """Translate by each table, but once by those that say the same of this text: most do, and long values cost."""
    present = {ord(char): char for char in set(text)}
    special = [code for code, char in present.items() if not _PLAIN.match(char)]
    known = set()
    for table in tables:
        own = tuple([table.get(code, present[code]) for code in special])
        if own not in known:
            known.add(own)
            yield text.translate(present | dict(zip(special, own, strict=True)))


def _bytewise(value: bytes) -> Iterator[bytes]:
    """As URLs spell it, and as C, Python and git show bytes that cannot be printed."""
    for text in _spelled(value.decode("latin-1"), _byte_tables()):
        yield text.encode("latin-1")


@cache
def _byte_tables() -> tuple[dict[int, str], ...]:
    percent = [
        {byte: pattern % byte for byte in range(256) if byte not in _UNRESERVED + left_alone}
        for left_alone in _LEFT_ALONE
        for pattern in ("%%%02X", "%%%02x")
    ]
    shown = [
        {byte: pattern % byte for byte in (*range(32), *range(127, last))} | _C | quotes
        for pattern in ("\\x%02x", "\\x%02X", "\\%03o")
        for last in (128, 256)  # what is not ASCII as it is, or byte by byte
        for quotes in ({}, {39: "\\'"}, {34: '\\"'})
    ]
    return *percent, *(table | {32: "+"} for table in percent), *shown


def _json(text: str) -> Iterator[str]:
    for spelled in _spelled(text, _json_tables(frozenset(char for char in text if char >= "\x7f"))):
        yield spelled
        yield from _spelled(spelled, (_JSON,))  # JSON in a string of JSON


@lru_cache(maxsize=4)
def _json_tables(beyond: frozenset[str]) -> tuple[dict[int, str], ...]:
    """The ways of JSON's writers; characters `beyond` ASCII as they are, and escaped."""
    tables = []
    for pattern in ("\\u%04x", "\\u%04X"):
        units = {ord(char): _units(pattern, ord(char)) for char in beyond}
        controls = {code: pattern % code for code in range(32)}
        for escaped in _JSON_ESCAPED:
            own = {ord(char): "\\/" if char == "/" else pattern % ord(char) for char in escaped}
            tables += [controls | _JSON | own, controls | _JSON | own | units]
    return tuple(tables)


def _units(pattern: str, code: int) -> str:
    """Spell a character by its units of UTF-16."""
    units = [code] if code <= _LAST_SINGLE else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
    return "".join([pattern % unit for unit in units])


def _shell(value: bytes) -> Iterator[bytes]:
    """As shells quote it."""
    for inside_quotes in (b"'\\''", b"'\"'\"'"):
        yield value.replace(b"'", inside_quotes)
    for special in (*_SPECIAL, _IN_QUOTES):
        yield special.sub(rb"\\\g<0>", value)


def _utf_8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
