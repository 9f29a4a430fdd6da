"""HTTP/1.1 as uvicorn and httptools read it, with the bounds that they leave to others.

A head must be whole in a while and may not be long; a connection that says nothing is closed. What cannot be read is
answered in our shape, and the connection ends: what follows on it cannot be trusted to be another request.
"""

from asyncio import TimerHandle, Transport
from collections.abc import Callable
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_SECONDS: Final = 15.0
MOST_HEAD_BYTES: Final = 32 * 1024
MOST_HEADERS: Final = 100


def _nobody() -> None:
    """Tell nobody."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    on_lost: Callable[[], None] = staticmethod(_nobody)
    _timer: TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self.on_lost()
        self._have_head()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._head_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        """Have the head."""
        self._have_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that this is not HTTP, or too much of it."""
        if getattr(self.cycle, "response_started", False):  # there is none before the first request
            self.transport.close()  # an answer is under way: another one in its middle would be worse than none
            return
        self._refuse(400, "this is not a request that can be read", "malformed", issues=[msg])

    def _refuse(self, status: int, error: str, code: str, **more: list[str]) -> None:
        body = msgspec.json.encode({"error": error, "code": code, **more})
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            raise ValueError("the head is too long")

    def _await_head(self) -> None:
        self._have_head()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _have_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
