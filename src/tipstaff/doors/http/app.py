"""The application: every route, around one plane.

`build` is all that is needed to serve a plane: by `serving`, or by any ASGI server. While it runs, what was lost is
closed every second (runs whose lease is over), and whoever waits is woken when another process has written.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException

from tipstaff.doors.http import blobs, people, runners, runs, status
from tipstaff.doors.http.edge import Edged, broken, told
from tipstaff.doors.http.exchange import Exchange
from tipstaff.doors.http.front import Front
from tipstaff.doors.http.logbook import LOGGER
from tipstaff.doors.http.openapi import described
from tipstaff.doors.http.replies import Reply, raw_reply
from tipstaff.doors.http.routes import Act, Route, handler
from tipstaff.doors.http.schemas import Anything
from tipstaff.doors.http.settings import Settings
from tipstaff.doors.http.short import Short
from tipstaff.doors.http.waking import Bell
from tipstaff.plane import Plane

HOUSEKEEPING_SECONDS: Final = 1.0
RETURN_SECONDS: Final = 5.0  # after a start: runners that could not reach us have something to say first


def build(plane: Plane, settings: Settings | None = None, bell: Bell | None = None) -> Litestar:
    """Make the application; `bell` is what the plane's `wake` rings."""
    front = Front(plane, settings or Settings(), bell or Bell())
    app = Edged(
        route_handlers=[handler(route, front) for route in all_routes()],
        exception_handlers={HTTPException: told, Exception: broken},
        lifespan=[_lifespan(front)],
        openapi_config=None,
        logging_config=None,
        debug=False,
    )
    app.front = front
    app.short = Short((*runners.ROUTES, runs.SUBMIT))
    return app


def all_routes() -> tuple[Route, ...]:
    """List every route; the last one describes them."""
    routes = (*status.ROUTES, *runners.ROUTES, *runs.ROUTES, *blobs.ROUTES, *people.ROUTES)
    description = Route(
        method="GET", path="/v1/openapi.json", name="openapi", summary="Describe this door", proof="none",
        act=_unmade, reply=Anything,
    )  # fmt: skip
    document = msgspec.json.encode(described((*routes, description)))
    return (*routes, msgspec.structs.replace(description, act=_saying(document)))


async def _unmade(_exchange: Exchange) -> Reply:
    raise NotImplementedError  # replaced once the description is made


def _saying(document: bytes) -> Act:
    async def say(_exchange: Exchange) -> Reply:
        return raw_reply(document)

    return say


def _lifespan(front: Front) -> Callable[[Litestar], Any]:
    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        front.bell.attach()
        tidying = asyncio.create_task(_tidy(front))
        try:
            yield
        finally:
            front.bell.close()
            tidying.cancel()
            with suppress(asyncio.CancelledError):
                await tidying
            await asyncio.to_thread(front.close)

    return lifespan


async def _tidy(front: Front) -> None:
    """Close what is lost and notice what others wrote, again and again; after a failure there is a next second."""
    version = -1
    patient_until = time.monotonic() + min(RETURN_SECONDS, front.settings.lease_seconds / 2)
    while True:
        try:
            if time.monotonic() >= patient_until:
                await front.keep_house(front.plane.close_lost)
            now = await front.keep_house(front.plane.others_version)
            if now != version:  # another process wrote, and rang no bell here
                version = now
                front.bell.ring_all()
        except Exception:  # noqa: BLE001 - the outermost loop of a door: the next second is another try
            LOGGER.exception({"event": "housekeeping"})
        await asyncio.sleep(HOUSEKEEPING_SECONDS)
