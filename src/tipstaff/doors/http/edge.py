"""The outermost edge: what holds for every request, also for one that no route knows.

Each has an id, which the reply and the log carry. A peer that asks too often is told when to come back; a body that
trickles is not waited for; what breaks inside is `internal error` with the id, and the rest is in the log.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException

from tipstaff.doors.http.addresses import peer_of, unwrapped
from tipstaff.doors.http.exchange import Record, too_many
from tipstaff.doors.http.front import Front
from tipstaff.doors.http.logbook import LOGGER
from tipstaff.doors.http.replies import JSON, DoorError, Reply, error_reply, json_reply
from tipstaff.doors.http.routes import Route, answered
from tipstaff.doors.http.short import Short, ShortRequest

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]
BODY_SECONDS: Final = 30.0  # of patience with a body that is not whole
BODY_BYTES_PER_SECOND: Final = 64 * 1024  # bytes that come buy patience, at this rate
SEND_SECONDS: Final = 60.0  # without a byte of an answer taken
REFUSED: Final = 400
FAULT: Final = 500
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_SENTENCES: Final = {
    404: ("there is nothing at this path", "not_found"),
    405: ("this path does not take this method", "method"),
    413: ("the body is too large", "too_large"),
}


class Edged(Litestar):
    """The application with its edge around it."""

    front: Front
    short: Short

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        found = self.short.find(scope)
        way = super().__call__ if found is None else partial(self._answer, *found)
        await _Passage(self.front, scope, receive, send).through(way)

    async def _answer(self, route: Route, run_id: str, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a runner by the short way."""
        reply = await answered(route, self.front, ShortRequest(scope, receive, route, run_id))
        await reply(scope, receive, send)


class _Passage:
    """One request on its way through."""

    def __init__(self, front: Front, scope: Any, receive: Receive, send: Send) -> None:
        self._front = front
        self._scope = scope
        self._receive = receive
        self._send = send
        self._status = 0
        self._whole = not _has_body(scope)
        self._patience_seconds = BODY_SECONDS
        self._record = scope["tipstaff"] = Record(_request_id(scope), _address(scope, front.settings.trusted_proxy))

    async def through(self, app: App) -> None:
        started = time.monotonic()
        try:
            await self._answered(app)
        except Exception:  # noqa: BLE001 - the outermost edge: nobody is shown a traceback
            LOGGER.exception({"event": "fault", "requestId": self._record.request_id})
            if not self._status:
                await self._say(internal(self._record.request_id))
        finally:
            self._log(time.monotonic() - started)

    async def _answered(self, app: App) -> None:
        wait = self._front.addresses.wait_seconds(self._record.address)
        if wait:
            refusal = error_reply(too_many("this address asks too often", wait))
            await self._say(refusal or internal(self._record.request_id))
            return
        await app(self._scope, self.receive, self.send)

    async def receive(self) -> Message:
        """Wait for a part of the body, but not for ever; once it is whole, for the client to leave."""
        if self._whole:
            return await self._receive()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_seconds):
                message = await self._receive()
        except TimeoutError:
            raise DoorError("the body did not come in time", status=408, code="slow") from None
        self._whole = not message.get("more_body", False)
        bought = len(message.get("body", b"")) / BODY_BYTES_PER_SECOND
        left = self._patience_seconds - (time.monotonic() - started) + bought
        self._patience_seconds = max(0.0, min(BODY_SECONDS, left))
        return message

    async def send(self, message: Message) -> None:
        """Send, and say in each reply which request it answers."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [*message["headers"], (b"x-request-id", self._record.request_id.encode()), *_HEADERS]
            if self._status >= REFUSED and not self._whole:
                headers.append((b"connection", b"close"))  # what still comes of the body is not worth reading
            message = {**message, "headers": headers}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(message)
        except TimeoutError:
            raise DoorError("the client does not read its answer", status=408, code="slow") from None

    async def _say(self, reply: Reply) -> None:
        if not self._status:
            await reply(self._scope, self.receive, self.send)

    def _log(self, seconds: float) -> None:
        record = self._record
        line = {"event": "request", "method": self._scope["method"], "path": record.path, "status": self._status}
        line |= {"ms": round(seconds * 1000, 1), "requestId": record.request_id, "address": record.address}
        line |= {name: value for name, value in (("who", record.who), ("run", record.run)) if value}
        LOGGER.info(line)


def internal(request_id: str) -> Reply:
    """Say that the fault is ours."""
    return json_reply({"error": "internal error", "code": "internal", "requestId": request_id}, FAULT)


def told(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Say Litestar's own refusals in our shape."""
    if error.status_code >= FAULT:
        return broken(request, error)
    sentence, code = _SENTENCES.get(error.status_code, ("the request cannot be read", "malformed"))
    shape: dict[str, Any] = {"error": sentence, "code": code}
    if error.status_code == REFUSED:
        shape["issues"] = [sentence]
    return _response(json_reply(shape, error.status_code), error.headers)


def broken(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Say that the fault is ours; the log has the rest."""
    record: Record = request.scope["tipstaff"]  # type: ignore[typeddict-item]  # our edge put it there
    LOGGER.error({"event": "fault", "requestId": record.request_id}, exc_info=error)
    return _response(internal(record.request_id))


def _response(reply: Reply, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Give what Litestar takes where it handles errors itself."""
    return Response(reply.body, status_code=reply.status_code, media_type=JSON, headers=dict(headers or {}))


def _has_body(scope: Any) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _request_id(scope: Any) -> str:
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return given[0].decode() if len(given) == 1 and _REQUEST_ID.match(given[0]) else os.urandom(8).hex()


def _address(scope: Any, trusted_proxy: str | None) -> str:
    """Say where a request comes from: what a proxy says of it counts only where the settings name that proxy."""
    client = scope.get("client")
    address = unwrapped(client[0]) if client else "-"
    if trusted_proxy is not None and address == unwrapped(trusted_proxy):
        said = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
        address = said.rpartition(b",")[2].strip().decode("latin-1")[:64] or address
    return peer_of(address)
