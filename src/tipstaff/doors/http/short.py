"""The short way: a request for a run, its claim, and what follows go to their routes without the framework in between.

These few routes are asked hundreds of times a second, and what a framework does for others (matching, signatures,
content types) was a third of their cost. They are the same routes, with the same edge around them and the same act;
only the finding is ours. Whatever is not one of them takes the usual way.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

from tipstaff.doors.http.replies import DoorError
from tipstaff.doors.http.routes import Route

Receive = Callable[[], Awaitable[Any]]
_RUNS: Final = "/v1/runs/"


class ShortRequest:
    """A request, as far as these routes ask for it."""

    def __init__(self, scope: Any, receive: Receive, route: Route, run_id: str) -> None:
        self.scope = scope
        self.receive = receive
        self.path_params = {"runId": run_id}
        self._most_bytes = route.most_body_bytes or 0

    async def stream(self) -> AsyncIterator[bytes]:
        """Give the body as it comes, and no more of it than this route takes."""
        length = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"0")
        size, more = 0, True
        if int(length) > self._most_bytes:
            raise _too_large()
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise DoorError("the client left before its request was whole", status=400, code="gone")
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > self._most_bytes:
                raise _too_large()
            if part:
                yield part


class Short:
    """Finds the routes that have a short way."""

    def __init__(self, routes: Iterable[Route]) -> None:
        listed = tuple(routes)
        self._whole = {route.path: route for route in listed if "{" not in route.path}
        self._steps = {route.path.rpartition("/")[2]: route for route in listed if route.path.startswith(_RUNS)}

    def find(self, scope: Any) -> tuple[Route, str] | None:
        """Give the route and the run that a request names; None where it takes the usual way."""
        path: str = scope["path"]
        if scope["method"] != "POST":
            return None
        if (whole := self._whole.get(path)) is not None:
            return whole, ""
        if not path.startswith(_RUNS):
            return None
        run_id, slash, step = path[len(_RUNS) :].partition("/")
        route = self._steps.get(step) if slash and run_id else None
        return (route, run_id) if route is not None else None


def _too_large() -> DoorError:
    return DoorError("the body is too large", status=413, code="too_large")
