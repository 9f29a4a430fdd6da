"""A plane of a test's own words, on the standard library: answers as it is told, and remembers what it was asked."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str  # with its query
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """One answer; `cut` ends the connection after so many bytes of the body."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    cut: int | None = None


Script = Callable[[Asked], Reply]


class Scripted(NamedTuple):
    """The server, and what it was asked."""

    url: str
    asked: list[Asked]


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    """Answer with JSON."""
    return Reply(status, msgspec.json.encode(value), {name.replace("_", "-"): one for name, one in headers.items()})


def event(kind: str, value: object, number: str = "") -> bytes:
    """Spell one event of a stream."""
    return f"event: {kind}\nid: {number}\ndata: {msgspec.json.encode(value).decode()}\n\n".encode()


@contextmanager
def scripted(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Serve answers on a free port of this machine."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(length)
            if len(body) < length:  # who asked broke off
                self.close_connection = True
                return
            request = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            asked.append(request)
            reply = script(request)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            if reply.cut is not None:
                self.close_connection = True

        do_GET = do_POST = do_HEAD = _answer  # noqa: N815 - the standard library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Scripted(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
