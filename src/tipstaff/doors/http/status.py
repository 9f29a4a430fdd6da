"""Routes about the plane itself: is it there, which keys and which policy does it have, what has it done so far."""

import re
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any, Final

from tipstaff.doors.http import schemas
from tipstaff.doors.http.exchange import Exchange
from tipstaff.doors.http.replies import Json, Reply, StreamReply, json_reply, raw_reply
from tipstaff.doors.http.routes import Query, Route
from tipstaff.errors import InputError
from tipstaff.model.times import milliseconds, timestamp

LINES: Final = 256  # of an export, read at once
PROMETHEUS: Final = "text/plain; version=0.0.4"
_NOT_NAME: Final = re.compile(r"[^a-zA-Z0-9]+")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


async def health(_exchange: Exchange) -> Reply:
    """Say that the plane is there."""
    return json_reply({"ok": True, "service": "tipstaff-plane"})


async def ready(exchange: Exchange) -> Reply:
    """Say whether the plane can take requests."""
    can = await exchange.ask(exchange.plane.ready)
    return json_reply({"ready": can}, 200 if can else 503)


async def keys(exchange: Exchange) -> Reply:
    """Give the plane's public keys."""
    return json_reply({"keys": exchange.plane.public_keys()})


async def policy(exchange: Exchange) -> Reply:
    """Give the policy that holds here."""
    caller = await exchange.caller()
    return json_reply(await exchange.ask(caller.policy))


async def metrics(exchange: Exchange) -> Reply:
    """Count, for people or for Prometheus."""
    caller = await exchange.caller()
    counted = await exchange.ask(caller.metrics, long=True)
    if _wants_text(exchange.request.headers.get("accept", "")):
        return raw_reply(prometheus(counted).encode(), media_type=PROMETHEUS)
    return json_reply({"metrics": counted})


async def export(exchange: Exchange) -> Reply:
    """Give every event since a time, as lines."""
    caller, since = await exchange.caller(), _time(exchange.query("since"))
    lines = await exchange.ask(lambda: caller.export(since))
    first = await exchange.front.on_thread(lambda: list(islice(lines, LINES)))
    return StreamReply(_exported(exchange, first, lines), "application/x-ndjson")


def _time(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return timestamp(max(0, milliseconds(text)))
    except (ValueError, TypeError, OverflowError) as error:  # TypeError: a time of no zone
        hint = "write one such as 2026-01-01T00:00:00.000Z"
        raise InputError(
            f"`since` is {text[:40]!r}, which is no time" if text else "`since` is empty", hint=hint
        ) from error


async def _exported(exchange: Exchange, some: list[bytes], lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    while some:
        yield b"".join(line if line.endswith(b"\n") else line + b"\n" for line in some)
        some = await exchange.front.on_thread(lambda: list(islice(lines, LINES)))


def _wants_text(accept: str) -> bool:
    return "text/plain" in accept and "application/json" not in accept


def prometheus(counted: Json) -> str:
    """Spell numbers as Prometheus reads them; a mapping becomes a label."""
    lines: list[str] = []
    for name, value in counted.items():
        family = "tipstaff_" + _NOT_NAME.sub("_", _CAPITAL.sub("_", name)).lower()
        found = [f"{family}{label} {one}" for label, one in _numbers(value)]
        lines += [f"# TYPE {family} gauge", *found] if found else []
    return "\n".join([*lines, ""])


def _numbers(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f'{{key="{_label(key)}"}}', one) for key, one in value.items() if type(one) in (int, float)]
    return [("", value)] if type(value) in (int, float) else []


def _label(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


ROUTES: Final = (
    Route(method="GET", path="/v1/health", name="health", summary="Say that the plane is there", act=health,
          proof="none", reply=schemas.Health, reply_example={"ok": True, "service": "tipstaff-plane"}),
    Route(method="GET", path="/v1/ready", name="ready", summary="Say whether the plane can take requests", act=ready,
          proof="none", reply=schemas.Ready, reply_example={"ready": True}),
    Route(method="GET", path="/v1/keys", name="keys", summary="Give the plane's public keys", act=keys, proof="none",
          reply=schemas.Keys),
    Route(method="GET", path="/v1/policy", name="policy", summary="Give the policy that holds here",
          needs="policy:read", act=policy, reply=schemas.Policy),
    Route(method="GET", path="/v1/metrics", name="metrics", summary="Count", needs="metrics:read", act=metrics,
          reply=schemas.Metrics),
    Route(method="GET", path="/v1/export", name="export", summary="Give every event since a time, one in a line",
          needs="export:read", act=export, reply="application/x-ndjson", refusals=(400,),
          queries=(Query("since", {"type": "string"}, "a time such as 2026-01-01T00:00:00.000Z"),)),
)  # fmt: skip
