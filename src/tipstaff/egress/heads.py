"""The heads of HTTP/1 messages, read strictly: one reading, or none. Pure.

CRLF ends a line and nothing else does; no folded lines, no NUL, no space before a colon, tokens for names; one length
and never two ways to say it; one Host. What is refused here is where two readers of the same bytes would see two
different requests (RFC 9112 section 11). What passes is written anew from its parts, never copied.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tipstaff.egress.refusal import malformed

Headers = tuple[tuple[bytes, bytes], ...]

END: Final = b"\r\n\r\n"
MAX_HEADERS: Final = 128
MAX_LENGTH: Final = (1 << 53) - 1
CHUNKED: Final = -1  # a body's length that is told chunk by chunk
UNTIL_CLOSE: Final = -2  # … or by the connection's end, which only an answer's may be

_METHOD: Final = re.compile(rb"[A-Z][A-Z0-9_-]{0,31}\Z")
_TARGET: Final = re.compile(rb"[!\"$-\[\]-~]+\Z")  # visible ASCII without `#` and the backslash
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)\Z")
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([^\x00-\x1f\x7f]*))?\Z")
_DIGITS: Final = re.compile(rb"[0-9]{1,16}\Z")
_HOP: Final = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"transfer-encoding", b"proxy"))
# Who may drop one of these on the way decides what the next one reads.
_NEVER_NAMED: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"cookie"))


class Head(NamedTuple):
    """A request as it was sent: `target` is not looked into yet."""

    method: str
    target: str
    minor: int  # of HTTP/1
    headers: Headers


class Answer(NamedTuple):
    """The head of an answer."""

    status: int
    minor: int
    phrase: str
    headers: Headers


def parse_request(head: bytes) -> Head:
    """Read a request's head, without the empty line at its end."""
    first, headers = _parts(head)
    words = first.split(b" ")
    if len(words) != 3:  # noqa: PLR2004 - method, target, version
        raise malformed("a request starts with a method, a target and a version, with one space between")
    method, target, version = words
    if version not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise malformed("only HTTP/1.0 and HTTP/1.1 are spoken here", 505)
    if not _METHOD.match(method):
        raise malformed("a method is upper-case letters, such as GET")
    if not _TARGET.match(target):
        raise malformed("a target is visible ASCII, without fragment and backslash")
    if method == b"TRACE":
        raise malformed("TRACE is refused: it would give back what was added on the way", 405)
    return Head(method.decode(), target.decode(), int(version[-1:]), headers)


def parse_answer(head: bytes) -> Answer:
    """Read an answer's head, without the empty line at its end."""
    first, headers = _parts(head)
    found = _STATUS.match(first)
    if not found:
        raise malformed("the status line is none")
    return Answer(int(found[2]), int(found[1]), _phrase(found[3] or b""), headers)


def parse_headers(lines: Iterable[bytes]) -> Headers:
    """Read header lines, also those after a chunked body."""
    found = []
    for line in lines:
        field = _HEADER.match(line)
        if not field:
            raise malformed("a header is a name, a colon without space before it, and text on one line")
        found.append((field[1], field[2].rstrip(b" \t")))
        if len(found) > MAX_HEADERS:
            raise malformed(f"there are more than {MAX_HEADERS} headers", 431)
    return tuple(found)


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Give the values of the headers that are called `name`, in lower case."""
    return [value for key, value in headers if key.lower() == name]


def body_length(headers: Headers, minor: int) -> int | None:
    """Say how long a body is by its head: bytes, `CHUNKED`, or None where nothing says so."""
    lengths, codings = values(headers, b"content-length"), values(headers, b"transfer-encoding")
    if codings:
        if lengths or minor == 0 or [coding.lower() for coding in codings] != [b"chunked"]:
            raise malformed("Transfer-Encoding is `chunked`, once, in HTTP/1.1, and without Content-Length")
        return CHUNKED
    if not lengths:
        return None
    if len(lengths) > 1 or not _DIGITS.match(lengths[0]) or int(lengths[0]) > MAX_LENGTH:
        raise malformed("Content-Length is one number")
    return int(lengths[0])


def end_to_end(headers: Headers) -> Headers:
    """Leave out what is meant for this hop alone: Connection, what it names, Proxy-*, and their like."""
    named = {word.strip().lower() for value in values(headers, b"connection") for word in value.split(b",")}
    if named & _NEVER_NAMED:
        raise malformed("Connection names a header that is not for one hop only")
    drop = named | _HOP
    return tuple(
        (name, value) for name, value in headers if (low := name.lower()) not in drop and not low.startswith(b"proxy-")
    )


def spell(first: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a head, with its empty line; ValueError where a part would be read as two."""
    lines = [first.encode("ascii"), *(name + b": " + value for name, value in headers)]
    if any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines):
        raise ValueError("a header is one line")
    return b"\r\n".join([*lines, b"", b""])


def _parts(head: bytes) -> tuple[bytes, Headers]:
    lines = head.split(b"\r\n")
    if b"\n" in head.replace(b"\r\n", b"") or b"\r" in head.replace(b"\r\n", b""):
        raise malformed("a line ends with CRLF")
    return lines[0], parse_headers(lines[1:])


def _phrase(said: bytes) -> str:
    """Keep a phrase that some servers say in their own language."""
    return said.decode("ascii", errors="replace").replace("\ufffd", "?")
