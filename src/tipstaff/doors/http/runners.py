"""Routes for runners: the token is in the body, and the plane's own wire reads it; here are only waiting and counting.

A claim may wait for work. It ends early when the plane stops, and takes nothing once its runner has left: a run that
was given to a closed connection would be lost until its lease ran out.
"""

import asyncio
import re
from typing import Any, Final

import msgspec

from tipstaff.doors.http import schemas
from tipstaff.doors.http.exchange import Exchange, too_many
from tipstaff.doors.http.front import LONG_BYTES
from tipstaff.doors.http.replies import DoorError, Reply, raw_reply
from tipstaff.doors.http.routes import MOST_BODY_BYTES, SMALL_BODY_BYTES, Route
from tipstaff.doors.http.waking import QUEUES, heard

OK: Final = 200
WHO: Final = 401
MOST_WAIT_MS: Final = 30_000
LOOK_SECONDS: Final = 5.0  # should a ring ever be lost
SHORT_REPLY: Final = 1024  # an answer without a run is short
BEGINNING_BYTES: Final = 4096
_BEGINNING: Final = re.compile(rb'"(?:claimToken|runnerToken)"\s*:\s*"([A-Za-z0-9._=-]{1,2048})"')
ENROLL: Final = "/v1/runners/enroll"
CLAIMS: Final = "/v1/claims"
DRAIN: Final = "/v1/runners/drain"


class _Shown(msgspec.Struct):
    """What of a body says who sent it; only the plane says whether that is true."""

    runnerToken: Any = None  # noqa: N815 - the wire's name
    claimToken: Any = None  # noqa: N815 - as above


class _Wish(msgspec.Struct):
    """What of a claim's body says how it waits; the plane has read all of it strictly by then."""

    pool: Any = None
    waitMs: Any = 0  # noqa: N815 - the wire's name


class _Nothing(msgspec.Struct):
    empty: bool = False
    drain: bool = False


_shown = msgspec.json.Decoder(_Shown)
_wish = msgspec.json.Decoder(_Wish)
_nothing = msgspec.json.Decoder(_Nothing)


async def enroll(exchange: Exchange) -> Reply:
    """Make a runner known."""
    return await _answered(exchange, ENROLL)


async def drain(exchange: Exchange) -> Reply:
    """Have a runner given no more runs."""
    return await _answered(exchange, DRAIN)


async def claim(exchange: Exchange) -> Reply:
    """Give a runner a run, waiting for one if it wants to."""
    body = await _body(exchange)
    status, reply = await exchange.front.answer(CLAIMS, body)
    if status == OK and _is_empty(reply):
        wish = _wished(body)
        wait_ms = min(wish.waitMs, MOST_WAIT_MS) if type(wish.waitMs) is int else 0
        if wait_ms > 0:
            topic = QUEUES + wish.pool if isinstance(wish.pool, str) else QUEUES
            status, reply = await _seated(exchange, body, topic, wait_ms / 1000, reply)
    return _told(exchange, status, reply)


async def step(exchange: Exchange) -> Reply:
    """Take a runner's word on the run that it holds."""
    exchange.record.run = exchange.part("runId")[:64]
    return await _answered(exchange, exchange.request.scope["path"])


async def _seated(exchange: Exchange, body: bytes, topic: str, seconds: float, reply: bytes) -> tuple[int, bytes]:
    """Wait, if this runner does not wait too often already."""
    seats, peer = exchange.front.seats, f"runner:{exchange.record.who}"
    if not seats.take(peer):
        raise too_many("this runner waits too often at once", seconds)
    try:
        return await _waited(exchange, body, topic, seconds, reply)
    finally:
        seats.leave(peer)


async def _waited(exchange: Exchange, body: bytes, topic: str, seconds: float, reply: bytes) -> tuple[int, bytes]:
    """Look again whenever there may be something, until the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    status = OK
    gone = asyncio.ensure_future(exchange.request.receive())
    try:
        with exchange.front.bell.listening(topic) as event:
            gone.add_done_callback(lambda _: event.set())
            while status == OK and _is_empty(reply) and (left := until - loop.time()) > 0:
                await heard(event, min(left, LOOK_SECONDS))
                if exchange.front.bell.closed or gone.done():
                    break
                status, reply = await exchange.front.answer(CLAIMS, body)
    finally:
        gone.cancel()
    return status, reply


def _wished(body: bytes) -> _Wish:
    try:
        return _wish.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # JSON to the plane, and not to msgspec
        return _Wish()


def _is_empty(reply: bytes) -> bool:
    if len(reply) > SHORT_REPLY:
        return False
    said = _nothing.decode(reply)
    return said.empty and not said.drain


async def _answered(exchange: Exchange, path: str) -> Reply:
    return _told(exchange, *await exchange.front.answer(path, await _body(exchange)))


async def _body(exchange: Exchange) -> bytes:
    """Read the body; note whose it is, and refuse a runner that asks too much."""
    body = await exchange.body(lambda begun: _refuse_unknown(exchange, begun))
    if len(body) <= LONG_BYTES:
        exchange.record.who = exchange.plane.runner_of(_token(body))
    if wait := exchange.front.runners.wait_seconds(exchange.record.who or exchange.record.address):
        raise too_many("this runner has asked too often", wait)
    return body


def _token(body: bytes) -> Any:
    try:
        shown = _shown.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the plane says what is wrong with it
    return shown.claimToken or shown.runnerToken


def _refuse_unknown(exchange: Exchange, begun: bytes) -> None:
    """Refuse a long body of nobody before it is read: its token is in the header, or stands at its beginning."""
    found = _BEGINNING.search(begun, 0, BEGINNING_BYTES)
    token = exchange.bearer() or (found[1].decode() if found else None)
    exchange.record.who = exchange.plane.runner_of(token)
    if not exchange.record.who:
        _count_wrong(exchange)
        raise DoorError("a long body has to begin with a token of this plane", status=WHO, code="token_unknown")


def _told(exchange: Exchange, status: int, reply: bytes) -> Reply:
    if status == WHO:
        _count_wrong(exchange)
    return raw_reply(reply, status)


def _count_wrong(exchange: Exchange) -> None:
    failures, address = exchange.front.failures, exchange.record.address
    if wait := failures.wait_seconds(address):
        raise too_many("too many wrong tokens came from this address", wait)
    failures.count(address)


def _step(name: str, summary: str, body: Any, reply: Any, example: Any) -> Route:
    most = MOST_BODY_BYTES if name in {"events", "complete"} else SMALL_BODY_BYTES
    return Route(
        method="POST", path=f"/v1/runs/{{runId}}/{name}", name=name, summary=summary, act=step, proof="body",
        body=body, body_example=example, reply=reply, refusals=(400, 401, 403, 404, 409, 413, 422, 429, 503),
        most_body_bytes=most,
    )  # fmt: skip


_HELD: Final = {"claimToken": "WyJydW5fIl0=.00"}
ROUTES: Final = (
    Route(
        method="POST", path=ENROLL, name="enroll", summary="Make a runner known", act=enroll, proof="body",
        body=schemas.Enroll, reply=schemas.Enrolled, refusals=(400, 401, 403, 409, 413, 422, 429, 503),
        most_body_bytes=LONG_BYTES,
        body_example={"enrollToken": "…", "publicKeyPem": "-----BEGIN PUBLIC KEY-----\n…", "pool": "default"},
    ),
    Route(
        method="POST", path=CLAIMS, name="claim", summary="Take a run, or hear that there is none", act=claim,
        proof="body", body=schemas.ClaimWish, reply=schemas.Claimed, refusals=(400, 401, 403, 409, 413, 422, 429, 503),
        body_example={"runnerToken": "…", "pool": "default", "knows": ["release", "renew"], "waitMs": 10000},
    ),
    Route(
        method="POST", path=DRAIN, name="drainSelf", summary="Ask for no more runs", act=drain, proof="body",
        body=schemas.DrainSelf, reply=schemas.Drained, refusals=(400, 401, 403, 404, 409, 413, 422, 429, 503),
        body_example={"runnerToken": "…", "drain": True},
    ),
    _step("events", "Add events to the run's chain", schemas.Events, schemas.Appended, {**_HELD, "events": []}),
    _step("renew", "Keep the run for another while", schemas.Held, schemas.Renewed, _HELD),
    _step("log", "Show output while the run goes on", schemas.Log, schemas.Taken,
          {**_HELD, "stream": "stdout", "offset": 0, "data": "aGVsbG8K"}),
    _step("ask", "Ask people about a place that the run wants to reach", schemas.Ask, schemas.Anything,
          {**_HELD, "host": "example.com", "port": 443}),
    _step("complete", "End the run with its receipt", schemas.Complete, schemas.Completed, {**_HELD, "receipt": {}}),
)  # fmt: skip
