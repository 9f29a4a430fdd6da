"""The bodies of HTTP/1 messages, read strictly and without keeping them: bytes in, content out. Pure.

Chunks are read to the letter: hexadecimal digits, CRLF, no extensions; trailing headers must be headers and are left
out. Whoever passes a chunked body on writes its chunks anew, so that nobody after us reads them otherwise.
"""

import re
from typing import Final, Protocol

from tipstaff.egress.heads import CHUNKED, UNTIL_CLOSE, parse_headers
from tipstaff.egress.refusal import malformed

LAST_CHUNK: Final = b"0\r\n\r\n"
MAX_TRAILERS: Final = 8192
_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,13}\Z")
_LONGEST_SIZE: Final = 15  # with its CRLF


class Body(Protocol):
    """A body that is being read."""

    done: bool
    rest: bytes  # what came after its end

    def feed(self, data: bytes, /) -> bytes:
        """Take the next bytes of the connection, and give what of them is content."""

    def close(self) -> bool:
        """Say whether the body may end with the connection, here."""


def body_of(length: int) -> Body:
    """Read a body of so many bytes, or one that is `CHUNKED` or runs `UNTIL_CLOSE`."""
    if length == CHUNKED:
        return _Chunks()
    return _Counted(None if length == UNTIL_CLOSE else length)


def chunk(content: bytes) -> bytes:
    """Spell one chunk; nothing for nothing, which would be the last one."""
    return b"%x\r\n%b\r\n" % (len(content), content) if content else b""


class _Counted:
    """A body of known length, or of none."""

    def __init__(self, length: int | None) -> None:
        self._left = length
        self.done = length == 0
        self.rest = b""

    def feed(self, data: bytes, /) -> bytes:
        if self._left is None:
            return data
        content, self.rest = data[: self._left], self.rest + data[self._left :]
        self._left -= len(content)
        self.done = self._left == 0
        return content

    def close(self) -> bool:
        return self.done or self._left is None


class _Chunks:
    """A body in chunks."""

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self._left = 0  # of the chunk that is being read
        self._line = b""  # a line that is not whole yet
        self._step = self._size
        self._trailers: list[bytes] = []

    def feed(self, data: bytes, /) -> bytes:
        content, place = [], 0
        while place < len(data) and not self.done:
            if self._left:
                taken = data[place : place + self._left]
                content.append(taken)
                self._left -= len(taken)
                place += len(taken)
            else:
                place = self._take_line(data, place)
        self.rest += data[place:]
        return b"".join(content)

    def close(self) -> bool:
        return self.done

    def _take_line(self, data: bytes, place: int) -> int:
        """Read up to the end of a line, and act on it once it is whole; gives the place after it."""
        bound = MAX_TRAILERS if self._step == self._trailer else _LONGEST_SIZE
        end = data.find(b"\n", place, place + bound)
        stop = end + 1 if end >= 0 else min(len(data), place + bound)
        self._line += data[place:stop]
        if len(self._line) > bound or (end < 0 and len(self._line) == bound):
            raise malformed("a line between chunks is too long")
        if end >= 0:
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise malformed("a line ends with CRLF")
            self._step(line[:-2])
        return stop

    def _size(self, line: bytes) -> None:
        if not _SIZE.match(line):
            raise malformed("a chunk starts with its size in hexadecimal digits, and nothing else")
        self._left = int(line, 16)
        self._step = self._after if self._left else self._trailer

    def _after(self, line: bytes) -> None:
        if line:
            raise malformed("a chunk is longer than it says")
        self._step = self._size

    def _trailer(self, line: bytes) -> None:
        if not line:
            parse_headers(self._trailers)
            self.done = True
            return
        self._trailers.append(line)
        if b"\r" in line or sum(map(len, self._trailers)) > MAX_TRAILERS:
            raise malformed("the headers after the chunks are too long or broken")
