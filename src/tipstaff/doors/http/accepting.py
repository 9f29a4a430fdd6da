"""Accepting connections: counted from the first moment, also those that have not finished, or begun, their TLS.

One address has only so many, all together only so many: what the process may open, without what it needs itself. One
too many is closed at once; in the clear it is told why. This machine itself, and a proxy that the settings name, speak
for many and have most of the seats, but never all. A TLS handshake that takes long is not waited for.
"""

import asyncio
import resource
import socket
import ssl
import time
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from tipstaff.doors.http.addresses import is_loopback, peer_of, unwrapped
from tipstaff.doors.http.limits import Seats
from tipstaff.doors.http.logbook import LOGGER
from tipstaff.doors.http.protocol import BoundedProtocol
from tipstaff.doors.http.settings import Settings

HANDSHAKE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.5  # where the process can open nothing more
LOG_SECONDS: Final = 10.0  # between one line about refused connections and the next
MOST_CONNECTIONS: Final = 10_000
SPARE_DESCRIPTORS: Final = 128  # for the database, blobs and programs
AT_ONCE: Final = 256
_BODY: Final = msgspec.json.encode({"error": "there are too many connections", "code": "busy"})
_REFUSAL: Final = (
    STATUS_LINE[503]
    + b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
    + _BODY
)
Make = Callable[[], BoundedProtocol]


@cache
def most_connections() -> int:
    """Say how many connections may be open: what the process may open, without what it needs itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(SPARE_DESCRIPTORS, min(MOST_CONNECTIONS, soft) - SPARE_DESCRIPTORS)


class _Seat:
    """One connection's place, which is left once."""

    def __init__(self, seats: Seats, peer: str) -> None:
        self._seats: Seats | None = seats
        self._peer = peer

    def leave(self) -> None:
        if self._seats is not None:
            self._seats.leave(self._peer)
            self._seats = None


class Accepting:
    """Takes the connections of one listening socket."""

    def __init__(self, listening: socket.socket, settings: Settings, context: ssl.SSLContext | None) -> None:
        self._listening = listening
        self._context = context
        self._trusted = settings.trusted_proxy
        self._each = settings.limits.connections
        self._seats = Seats(MOST_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._make: Make | None = None
        self._told = -LOG_SECONDS

    def begin(self, make: Make) -> None:
        """Take connections, each for a protocol of its own, until the end."""
        self._make = make
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def end(self) -> None:
        """Take no more; what has not begun to speak is let go."""
        self._make = None
        asyncio.get_running_loop().remove_reader(self._listening)
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._take(connection, address[0])

    def _take(self, connection: socket.socket, address: str) -> None:
        connection.setblocking(False)  # noqa: FBT003 - the standard library's own way
        peer = peer_of(address)
        if self._seats.total >= most_connections() or not self._seats.take(peer, self._most(address)):
            self._refuse(connection, peer)
            return
        task = asyncio.get_running_loop().create_task(self._join(connection, _Seat(self._seats, peer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _most(self, address: str) -> int:
        """Say how many connections an address may have."""
        if is_loopback(address) or unwrapped(address) == self._trusted:
            most = most_connections()
            return most - most // 4
        return self._each

    async def _join(self, connection: socket.socket, seat: _Seat) -> None:
        """Have a protocol speak with whoever came."""
        joined = False
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._made(seat), connection, ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._context else None,
            )  # fmt: skip
            joined = True
        except (OSError, asyncio.CancelledError):  # nobody who speaks TLS, or the end: nobody is there to be told
            return
        finally:
            if not joined:
                connection.close()
                seat.leave()

    def _made(self, seat: _Seat) -> BoundedProtocol:
        if self._make is None:
            raise ConnectionAbortedError("the plane ends")
        protocol = self._make()
        protocol.on_lost = seat.leave
        return protocol

    def _refuse(self, connection: socket.socket, peer: str) -> None:
        with connection:
            if self._context is None:
                try:
                    connection.send(_REFUSAL)
                except OSError:
                    return  # who has left need not be told
        self._tell({"event": "connections", "address": peer, "open": self._seats.total})

    def _pause(self, error: OSError) -> None:
        """Wait a little: who cannot be taken now stays in the queue of the socket."""
        self._tell({"event": "connections", "message": f"none can be taken: {error.strerror}"})
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening)
        loop.call_later(PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        if self._make is not None:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _tell(self, line: dict[str, object]) -> None:
        now = time.monotonic()
        if now - self._told >= LOG_SECONDS:
            self._told = now
            LOGGER.warning(line)
