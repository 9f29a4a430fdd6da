"""The runner's side of the protocol as bytes: a path and a JSON body in, a status and a JSON body out.

What HTTP will carry, the embedded runner passes as it is, so that there is one way in. Bodies are read strictly and
are bounded; every refusal is `{error, code?, reasons?}` with HTTP's status for it. Knows no socket.
"""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

import msgspec

from tipstaff.errors import BusyError, InputError, NotFoundError, PlaneError, StoreError
from tipstaff.evidence.reading import read_body
from tipstaff.plane.plane import Plane

Json = dict[str, Any]
MOST_BODY_BYTES: Final = 64 * 1024**2
_Step = Callable[[Plane, Json], Json]


def answer(plane: Plane, path: str, body: bytes, *, wait: bool = True) -> tuple[int, bytes]:
    """Answer one request of a runner; without `wait`, one that cannot be answered at once is 503, code `busy`.

    What is wrong with the store is told as it is: the runner is of the same house.
    """
    try:
        return answer_outside(plane, path, body, wait=wait)
    except BusyError as error:
        return 503, msgspec.json.encode({"error": str(error), "code": "busy"})
    except StoreError as error:
        return 503, msgspec.json.encode({"error": str(error)})


def answer_outside(plane: Plane, path: str, body: bytes, *, wait: bool = True) -> tuple[int, bytes]:
    """Answer one request of a runner elsewhere; a `StoreError` names our files, and is the caller's to tell."""
    try:
        with nullcontext() if wait else plane.without_waiting():
            status, reply = 200, _answered(plane, path, body)
    except PlaneError as error:
        status, reply = error.status, {"error": error.message, "code": error.code, "reasons": list(error.reasons)}
    except InputError as error:
        status, reply = 400, {"error": str(error), "code": "malformed"}
    except NotFoundError as error:
        status, reply = 404, {"error": str(error), "code": "not_found"}
    return status, msgspec.json.encode(reply)


def _answered(plane: Plane, path: str, body: bytes) -> Json:
    if len(body) > MOST_BODY_BYTES:
        raise PlaneError(f"a body is at most {MOST_BODY_BYTES} bytes", status=413)
    if (office := _OFFICES.get(path)) is not None:
        return office(plane, read_body(body))
    found = _RUN.fullmatch(path)
    step = _STEPS.get(found["step"]) if found else None
    if found is None or step is None:
        raise PlaneError(f"there is nothing at {path[:128]!r}", status=404)
    fields = read_body(body)
    plane.holds(fields.get("claimToken"), found["run"])
    return step(plane, fields)


def _append(plane: Plane, fields: Json) -> Json:
    contents = _contents(fields)
    return plane.append(
        fields.get("claimToken"), fields.get("events"), release=fields.get("release") is True, contents=contents
    )


def _contents(fields: Json) -> list[bytes]:
    if fields.get("blobs") is None:
        return []
    from tipstaff.plane.contents import read_contents  # noqa: PLC0415 - an embedded runner shares the store

    return read_contents(fields["blobs"])


def _print(plane: Plane, fields: Json) -> Json:
    return plane.print(fields.get("claimToken"), fields)


def _renew(plane: Plane, fields: Json) -> Json:
    return plane.renew(fields.get("claimToken"))


def _complete(plane: Plane, fields: Json) -> Json:
    events, contents = fields.get("events", []), _contents(fields)
    return plane.complete(fields.get("claimToken"), fields.get("receipt"), events, contents)


def _ask(plane: Plane, fields: Json) -> Json:
    return plane.ask(fields.get("claimToken"), fields)


_RUN: Final = re.compile(r"/v1/runs/(?P<run>[^/]{1,128})/(?P<step>[a-z]+)")
_OFFICES: Final[dict[str, _Step]] = {
    "/v1/claims": Plane.claim,
    "/v1/runners/enroll": Plane.enroll_by_token,
    "/v1/runners/drain": Plane.drain,
}
_STEPS: Final[dict[str, _Step]] = {
    "events": _append,
    "renew": _renew,
    "log": _print,
    "ask": _ask,
    "complete": _complete,
}
