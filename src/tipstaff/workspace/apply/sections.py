"""A diff cut into the sections of its files: which name each is about, how many lines came and went. Pure.

Takes what git writes with the prefixes a/ and b/. Lines of files stand behind a mark, and the lines of binary patches
have no space in them: a file cannot begin a section. `before` goes back from a text to what it was; whoever uses that
checks its digest.
"""

import re
from itertools import pairwise
from typing import Final, NamedTuple

_BEGIN: Final = b"diff --git "
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS: Final = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13}
_BINARY: Final = (b"GIT binary patch", b"Binary files ")
_HEAD_ENDS: Final = re.compile(rb"\n(?=@@ |GIT binary patch|Binary files )")


class Section(NamedTuple):
    """What the diff says of one file."""

    name: bytes
    origin: bytes  # the name before, where it was renamed; else the same
    text: bytes
    added: int
    deleted: int
    binary: bool


def split(diff: bytes) -> list[Section]:
    """Cut a diff into its sections, in time that grows with its bytes only."""
    edges = [0] if diff.startswith(_BEGIN) else []
    found = diff.find(b"\n" + _BEGIN)
    while found >= 0:
        edges.append(found + 1)
        found = diff.find(b"\n" + _BEGIN, found + 1)
    return [_section(diff[start:end]) for start, end in pairwise([*edges, len(diff)])]


def _section(text: bytes) -> Section:
    body = _body(text)
    head = text[:body].split(b"\n")
    old, new = _names(head)
    for line in head[1:]:
        if line.startswith((b"rename from ", b"copy from ")):
            old = _unquoted(line.split(b" from ", 1)[1])
        elif line.startswith((b"rename to ", b"copy to ")):
            new = _unquoted(line.split(b" to ", 1)[1])
        elif line.startswith((b"--- ", b"+++ ")) and line[4:] != b"/dev/null":
            name = _unquoted(line[4:].removesuffix(b"\t"))[2:]
            old, new = (name, new) if line.startswith(b"---") else (old, name)
    binary = text.startswith(_BINARY, body + 1)
    added, deleted = (0, 0) if binary else (text.count(b"\n" + mark, body) for mark in (b"+", b"-"))
    return Section(new or old, old or new, text, added, deleted, binary)


def _body(text: bytes) -> int:
    """Find the line feed before the first hunk; the end, where there is none."""
    found = _HEAD_ENDS.search(text)
    return found.start() if found else len(text)


def _names(head: list[bytes]) -> tuple[bytes, bytes]:
    """Read the names from the first line, which says the same name twice where there is no other line to read."""
    said = head[0].removeprefix(_BEGIN)
    half = (len(said) - 1) // 2
    first, second = said[:half], said[half + 1 :]
    old, new = _unquoted(first)[2:], _unquoted(second)[2:]
    return (old, new) if old == new else (b"", b"")


def _unquoted(said: bytes) -> bytes:
    """Read a name that git may have put in quotes."""
    if not (said.startswith(b'"') and said.endswith(b'"') and len(said) > 1):
        return said
    return _ESCAPED.sub(lambda found: bytes([_value(found[1])]), said[1:-1])


def _value(said: bytes) -> int:
    return int(said, 8) & 0xFF if said.isdigit() else _LETTERS.get(said, said[0])


def before(now: bytes, section: bytes) -> bytes | None:
    """Go back from a text to what it was before the diff; None where the section does not fit it."""
    lines = _LINE.findall(now)
    out: list[bytes] = []
    position = 0
    for start, length, old in _hunks(section):
        first = start - 1 if length else start
        if first < position or first + length > len(lines):
            return None
        out += lines[position:first] + old
        position = first + length
    return b"".join([*out, *lines[position:]])


def _hunks(section: bytes) -> list[tuple[int, int, list[bytes]]]:
    """Give each hunk: where it begins in the new text, how many lines it has there, and the old lines."""
    hunks: list[tuple[int, int, list[bytes]]] = []
    last = b""
    for line in section.split(b"\n"):
        if found := _HUNK.match(line):
            hunks.append((int(found[3]), int(found[4] or b"1"), []))
        elif hunks and line[:1] in {b" ", b"-"}:
            hunks[-1][2].append(line[1:] + b"\n")
        elif hunks and line[:1] == b"\\" and last[:1] in {b" ", b"-"}:
            hunks[-1][2][-1] = last[1:]  # the line has no end
        last = line
    return hunks
