"""The short way to a plane: HTTP/1.1 on kept connections, for small questions that are asked many times a second.

Measured, this costs a fifth of what a general client costs, which was a third of what a short run cost its runner. It
knows only what a plane answers: one reply to one request, of a length or in chunks, whole and bounded. Proxies, and
contents that stream, go by the general client. A connection is used again only after a reply that was read to its end,
and only if nothing has come on it since: that would be no answer to anything. Nothing is asked twice here.
"""

import asyncio
import re
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

MOST_HEAD_BYTES: Final = 64 * 1024  # of a head, of a line before a chunk, of all trailers
MOST_IDLE: Final = 16
IDLE_SECONDS: Final = 30.0  # less than any plane's own patience
CHUNKED: Final = "chunked"
_STATUS: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2})(?: [^\r\n]*)?\Z")
_LENGTH: Final = re.compile(r"[0-9]{1,15}\Z")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})(?:;[^\r\n]*)?\r\n\Z")


class OddReplyError(ValueError):
    """A reply that is not HTTP/1.1 as a plane speaks it."""


class Reply(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    data: bytes


class _Counting(asyncio.StreamReader):
    """Knows how many bytes have come that nobody has taken."""

    waiting = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # of sockets, only bytes come
        """Take what came."""
        self.waiting += len(data)
        super().feed_data(data)

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]  # newer ones take several
        """Give what stands before a separator, and it; OddReplyError where it does not come soon enough."""
        try:
            found = await super().readuntil(separator)
        except asyncio.LimitOverrunError as error:
            raise OddReplyError("its head, or a line of it, is too long") from error
        self.waiting -= len(found)
        return found

    async def readexactly(self, n: int) -> bytes:
        """Give so many bytes."""
        found = await super().readexactly(n)
        self.waiting -= len(found)
        return found


class _Connection(NamedTuple):
    reader: _Counting
    writer: asyncio.StreamWriter
    idle_since: float


class Direct:
    """Kept connections to one server."""

    def __init__(self, url: str, context: ssl.SSLContext, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = context if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._prefix = parts.path
        self._connect_seconds = connect_seconds
        host = f"[{self._host}]" if ":" in self._host else self._host
        usual = parts.port is None
        self._head = (
            f"Host: {host if usual else f'{host}:{self._port}'}\r\nUser-Agent: tipstaff-runner\r\n"
            "Accept: application/json\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n"
        )
        self._idle: list[_Connection] = []

    async def post(self, path: str, body: bytes, seconds: float, most_bytes: int) -> Reply:
        """Ask once; OSError, TimeoutError or OddReplyError where there is no whole answer."""
        connection = self._kept() or await self._connected()
        try:
            async with asyncio.timeout(seconds):
                head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
                connection.writer.write(head.encode("ascii") + body)
                await connection.writer.drain()
                reply, is_lasting = await _read(connection.reader, most_bytes)
        except asyncio.IncompleteReadError as error:
            connection.writer.close()
            raise ConnectionResetError("the connection ended before the answer did") from error
        except BaseException:
            connection.writer.close()  # what still comes on it is no answer to anything
            raise
        self._give_back(connection, is_lasting=is_lasting)
        return reply

    def close(self) -> None:
        """Let go of the connections."""
        while self._idle:
            self._idle.pop().writer.close()

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        reader = _Counting(limit=MOST_HEAD_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        async with asyncio.timeout(self._connect_seconds):
            transport, _ = await loop.create_connection(lambda: protocol, self._host, self._port, ssl=self._tls)
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop), 0.0)

    def _kept(self) -> _Connection | None:
        """Give a connection that the server has neither closed meanwhile nor said something on."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            found = self._idle.pop()
            is_quiet = not (found.reader.waiting or found.reader.at_eof() or found.writer.is_closing())
            if is_quiet and now - found.idle_since < IDLE_SECONDS:
                return found
            found.writer.close()
        return None

    def _give_back(self, connection: _Connection, *, is_lasting: bool) -> None:
        if is_lasting and len(self._idle) < MOST_IDLE:
            self._idle.append(connection._replace(idle_since=asyncio.get_running_loop().time()))
        else:
            connection.writer.close()


async def _read(reader: _Counting, most_bytes: int) -> tuple[Reply, bool]:
    """Read one reply to its end; also say whether the connection can be used again."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    status = _STATUS.match(first)
    if status is None:
        raise OddReplyError("it does not begin as HTTP/1.1 does")
    headers = dict(_field(line) for line in lines)
    if len(headers) != len(lines) and len([line for line in lines if line[:15].lower() == b"content-length:"]) > 1:
        raise OddReplyError("it has more than one length")
    data = await _body(reader, headers, most_bytes)
    return Reply(int(status[1]), headers, data), headers.get("connection", "").lower() != "close"


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not colon or not name or name != name.strip():
        raise OddReplyError("a line of its head is no header")
    return name.lower(), value.strip()


async def _body(reader: _Counting, headers: dict[str, str], most_bytes: int) -> bytes:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != CHUNKED or length is not None:
            raise OddReplyError("it is neither of a length nor in chunks")
        return await _chunks(reader, most_bytes)
    if length is None or _LENGTH.match(length) is None:
        raise OddReplyError("it does not say how long it is")
    if int(length) > most_bytes:
        raise OddReplyError(f"it is larger than {most_bytes} bytes")
    return await reader.readexactly(int(length))


async def _chunks(reader: _Counting, most_bytes: int) -> bytes:
    parts = bytearray()
    while True:
        line = _CHUNK.match(await reader.readuntil(b"\r\n"))
        if line is None:
            raise OddReplyError("one of its chunks has no length")
        size = int(line[1], 16)
        if not size:
            break
        if len(parts) + size > most_bytes:
            raise OddReplyError(f"it is larger than {most_bytes} bytes")
        parts += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise OddReplyError("one of its chunks is longer than it says")
    left = MOST_HEAD_BYTES
    while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":  # it says nothing that we ask for
        left -= len(trailer)
        if left < 0:
            raise OddReplyError("its trailers are too long")
    return bytes(parts)
