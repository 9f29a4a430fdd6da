"""Routes as values: what is asked where, what answers it, and what the description of the door says about it.

One list serves both: what is described is what is there. A route's function gets an `Exchange` and gives a reply, or
raises our errors; whatever else happens is a fault of ours, which the edge tells with the request's id and no more.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler

from tipstaff.doors.http.exchange import Exchange
from tipstaff.doors.http.front import Front
from tipstaff.doors.http.logbook import LOGGER
from tipstaff.doors.http.replies import Reply, error_reply
from tipstaff.errors import StoreError, TipstaffError

Act = Callable[[Exchange], Awaitable[Reply]]
Proof = Literal["none", "body", "bearer"]  # where the token is
MOST_BODY_BYTES: Final = 64 * 1024**2
SMALL_BODY_BYTES: Final = 1024**2
_PART: Final = re.compile(r"\{(\w+)\}")


class Query(msgspec.Struct, frozen=True):
    """One value of a query."""

    name: str
    schema: dict[str, Any]
    about: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One operation."""

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    path: str
    name: str  # operationId
    summary: str
    act: Act
    proof: Proof = "bearer"
    needs: str = ""  # the capability that the caller's role must have
    body: Any = None  # a type, or a media type for bytes
    body_optional: bool = False
    body_example: Any = None
    reply: Any = None  # as above
    reply_example: Any = None
    queries: tuple[Query, ...] = ()
    refusals: tuple[int, ...] = ()
    most_body_bytes: int | None = SMALL_BODY_BYTES  # None: the route bounds its body itself


async def answered(route: Route, front: Front, request: Any) -> Reply:
    """Have a route answer a request; what it refuses is a reply too."""
    record = request.scope["tipstaff"]  # our edge put it there
    record.path = route.path
    exchange = Exchange(front, request, record, route.needs)
    try:
        return await route.act(exchange)
    except TipstaffError as error:
        reply = error_reply(error)
        if reply is None:
            raise
        if isinstance(error, StoreError):
            LOGGER.error({"event": "store", "requestId": record.request_id, "message": str(error)})
        return reply
    finally:
        exchange.done()


def handler(route: Route, front: Front) -> HTTPRouteHandler:
    """Make Litestar's handler of a route."""

    async def handle(request: Request[Any, Any, Any]) -> Reply:
        return await answered(route, front, request)

    return HTTPRouteHandler(
        _PART.sub(r"{\1:str}", route.path),
        http_method=route.method,
        status_code=200,
        include_in_schema=False,
        request_max_body_size=route.most_body_bytes,
    )(handle)
