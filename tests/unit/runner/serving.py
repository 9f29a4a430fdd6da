"""A plane behind a small HTTP server, for runners under test: honest, or as an old or a hostile plane would be.

Answers with `plane.answer` and stored blobs, unless the test's own `twist` answers first. Every request is kept.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tests.unit.plane.embedded import Embedded
from tipstaff.errors import TipstaffError
from tipstaff.plane import answer

Json = dict[str, Any]
Reply = tuple[int, bytes]
Twist = Callable[[str, str, bytes], Reply | None]  # method, path, body


class Served:
    """A plane that is served."""

    def __init__(self, site: Embedded, twist: Twist | None = None) -> None:
        self.site = site
        self.twist = twist
        self.asked: list[tuple[str, Json]] = []
        self.blobs: dict[str, bytes] = {}
        self.bearers: list[str] = []
        self.url = ""

    def paths(self) -> list[str]:
        """List what was asked for, without the ids of runs."""
        return ["/".join(part for part in path.split("/") if not part.startswith("run_")) for path, _ in self.asked]

    def reply(self, method: str, path: str, body: bytes, bearer: str) -> Reply:
        """Answer one request."""
        fields = json.loads(body) if body and path != "/v1/blobs" else {}
        self.asked.append((path, fields))
        if self.twist is not None and (twisted := self.twist(method, path, body)) is not None:
            return twisted
        if path.startswith("/v1/blobs"):
            return self._blob(method, path, body, bearer)
        return answer(self.site.plane, path, body)

    def _blob(self, method: str, path: str, body: bytes, bearer: str) -> Reply:
        self.bearers.append(bearer)
        if method == "POST":
            writer = self.site.plane.claim_writer(bearer)
            writer.write(body)
            return 200, msgspec.json.encode({"hash": writer.finish()})
        try:
            return 200, self.site.store.blobs.get(path.rpartition("/")[2])
        except TipstaffError as error:
            return 404, msgspec.json.encode({"error": str(error)})


@contextmanager
def served(site: Embedded, twist: Twist | None = None, port: int = 0) -> Iterator[Served]:
    """Serve a plane on a free port of the loopback."""
    plane = Served(site, twist)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                raise AssertionError("a runner says how much it sends")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            status, data = plane.reply(self.command, self.path, body, bearer)
            if status == 0:  # the twist's word for: hang up
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do  # noqa: N815 - names of the library

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    plane.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield plane
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
