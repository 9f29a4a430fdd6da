"""A small Internet on loopback: names that resolve as the test says, a server that does what it says, and a gate.

Every public address that is dialled leads to the one server of the test; what was resolved and dialled is written
down. Hellos of TLS are made byte by byte, so that odd ones can be.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from tipstaff.egress.attempt import Attempt
from tipstaff.egress.duplex import Wire
from tipstaff.egress.gate import Gate
from tipstaff.egress.options import Limits, Options
from tipstaff.egress.terms import Terms
from tipstaff.model.network import EgressRule

PUBLIC = "93.184.215.14"
QUICK = Limits(head_seconds=5, connect_seconds=5, idle_seconds=5)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class World:
    """Everything around a gate."""

    def __init__(self, terms: Terms, serve: Serve, names: dict[str, list[str]] | None, **options: Any) -> None:
        self.attempts: list[Attempt] = []
        self.resolved: list[str] = []
        self.dialled: list[str] = []
        self.faults: list[dict[str, Any]] = []
        self.server_port = 0
        self.port = 0
        self._names = names
        self._serve = serve
        defaults = {"resolve": self._resolve, "dial": self._dial, "limits": QUICK}
        self._more = asyncio.Event()
        self._clients: list[asyncio.StreamWriter] = []
        self.gate = Gate(terms, self._told, options=Options(**{**defaults, **options}))

    def _told(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        self._more.set()

    async def _resolve(self, host: str, _port: int) -> list[str]:
        self.resolved.append(host)
        if self._names is None:
            return [PUBLIC]
        if host not in self._names:
            raise OSError("no such name")
        return self._names[host]

    async def _dial(self, address: str, port: int) -> socket.socket:
        self.dialled.append(f"{address} {port}")
        made = socket.socket()
        made.settimeout(0)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.server_port))
        return made

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def open(self) -> None:
        """Start server and gate."""
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.faults.append(context))
        self._server = await asyncio.start_server(self._served, "127.0.0.1", 0)
        self.server_port = self._server.sockets[0].getsockname()[1]
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = listener.getsockname()[1]
        self.gate.serve(listener)

    async def close(self) -> None:
        """Stop both, and everybody who is connected."""
        for writer in self._clients:
            writer.close()
        await self.gate.close()
        self._server.close()

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the gate."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._clients.append(writer)
        return reader, writer

    async def talk(self, *pieces: bytes) -> bytes:
        """Send something, and give everything that comes back."""
        reader, writer = await self.client()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0)
        try:
            return await answer(reader)
        finally:
            writer.close()

    async def told(self, count: int = 1) -> list[Attempt]:
        """Wait until so many attempts have ended."""
        async with asyncio.timeout(10):
            while len(self.attempts) < count:
                self._more.clear()
                await self._more.wait()
        return self.attempts


@contextlib.asynccontextmanager
async def world(
    rules: Iterable[EgressRule] = (),
    serve: Serve | None = None,
    *,
    names: dict[str, list[str]] | None = None,
    deny: tuple[str, ...] = (),
    default_deny: bool = True,
    **options: Any,
) -> AsyncIterator[World]:
    """Give a world whose gate has these rules; no fault of the loop goes unnoticed."""
    made = World(Terms(tuple(rules), deny, default_deny), serve or echo, names, **options)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
    await asyncio.sleep(0)
    assert made.faults == []


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read to the end; a reset is an end too."""
    found = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(10):
            while data := await reader.read(1 << 16):
                found += data
    return found


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give everything back, and end when the other side ends."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def answering(said: bytes, seen: list[bytes] | None = None) -> Serve:
    """Make a server that reads one request, answers, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            data = await request(reader)
            if seen is not None:
                seen.append(data)
            writer.write(said)
            await writer.drain()
        writer.close()

    return serve


async def request(reader: asyncio.StreamReader) -> bytes:
    """Read one request with its body."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        low = head.lower()
        if b"transfer-encoding: chunked" in low:
            return head + await reader.readuntil(b"0\r\n\r\n")
        if b"content-length: " in low:
            return head + await reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0]))
        return head
    return b""


def get(host: str, path: str = "/", *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Spell a request to a proxy."""
    lines = [f"{method} http://{host}{path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def connect(host: str) -> bytes:
    """Spell a CONNECT."""
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def hello(name: str | None = "example.com", *extensions: tuple[int, bytes], record: int = 1 << 14) -> bytes:
    """Spell a ClientHello, in records of at most so many bytes."""
    found = list(extensions)
    if name is not None:
        entry = b"\0" + struct.pack("!H", len(name)) + name.encode()
        found.append((0, struct.pack("!H", len(entry)) + entry))
    listed = b"".join(struct.pack("!HH", kind, len(content)) + content for kind, content in found)
    content = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + struct.pack("!H", len(listed)) + listed
    message = b"\x01" + len(content).to_bytes(3) + content
    pieces = [message[place : place + record] for place in range(0, len(message), record)]
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece for piece in pieces)


@contextlib.asynccontextmanager
async def wires() -> AsyncIterator[tuple[Wire, Wire]]:
    """Two ends of one connection."""
    one, other = (Wire(sock) for sock in socket.socketpair())
    try:
        yield one, other
    finally:
        one.close()
        other.close()
