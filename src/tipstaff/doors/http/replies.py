"""What is said back: JSON, bytes or a stream, and each error in the one shape `{error, code?, reasons?|issues?}`.

An error's text is for whoever asked: what is wrong with their request is told, what is wrong inside (a damaged disk, a
fault of ours) is not; that goes into the log, with the request's id.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec
from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse

from tipstaff.errors import BusyError, InputError, NotFoundError, PlaneError, StoreError, TipstaffError, UsageError

Json = dict[str, Any]
Reply = ASGIResponse
Headers = Mapping[str, str]
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
_encode = msgspec.json.Encoder().encode


def _nothing() -> None:
    """Close nothing."""


class DoorError(PlaneError):
    """What the door itself refuses: with headers, or with fields that the plane's errors do not have."""

    def __init__(
        self, message: str, *, status: int, code: str = "", headers: Headers | None = None, more: Json | None = None
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.headers = headers or {}
        self.more = more or {}


class StreamReply(ASGIStreamingResponse):
    """A reply in pieces, which lets go of what it reads from, however it ends."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        media_type: str,
        size: int | None = None,
        close: Callable[[], None] = _nothing,
    ) -> None:
        headers = {} if size is None else {"content-length": str(size)}
        super().__init__(iterator=pieces, media_type=media_type, headers=headers)
        self._close = close

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def json_reply(value: Any, status: int = 200, headers: Headers | None = None) -> Reply:
    """Say a JSON value."""
    return Reply(body=_encode(value), status_code=status, media_type=JSON, headers=dict(headers or {}))


def encoded(value: Any) -> bytes:
    """Spell a JSON value; where it may be long, on the thread that made it."""
    return _encode(value)


def raw_reply(data: bytes, status: int = 200, media_type: str = JSON, headers: Headers | None = None) -> Reply:
    """Say bytes as they are."""
    return Reply(body=data, status_code=status, media_type=media_type, headers=dict(headers or {}))


def error_reply(error: TipstaffError) -> Reply | None:
    """Say what is wrong with a request; None where the fault is not the asker's."""
    reply: Reply | None = None
    match error:
        case DoorError():
            reply = json_reply(_shape(error) | error.more, error.status, error.headers)
        case PlaneError():
            reply = json_reply(_shape(error), error.status)
        case NotFoundError():
            reply = json_reply({"error": str(error), "code": "not_found"}, 404)
        case InputError() | UsageError():
            reply = json_reply({"error": str(error), "code": "malformed", "issues": [error.message]}, 400)
        case BusyError():
            reply = json_reply({"error": "the plane is busy; try again", "code": "busy"}, 503, {"retry-after": "1"})
        case StoreError():
            said = "the plane's store cannot be used just now; its operator's log says why"
            reply = json_reply({"error": said, "code": "store"}, 503)
    return reply


def _shape(error: PlaneError) -> Json:
    shape: Json = {"error": error.message}
    if error.code:
        shape["code"] = error.code
    if error.reasons:
        shape["reasons"] = list(error.reasons)
    return shape
