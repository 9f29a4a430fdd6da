"""Routes about who may do what: principals, the tokens that runners enrol with, and the runners themselves."""

from typing import Any, Final

from tipstaff.doors.http import schemas
from tipstaff.doors.http.exchange import Exchange
from tipstaff.doors.http.replies import Json, Reply, json_reply
from tipstaff.doors.http.routes import Route
from tipstaff.errors import InputError

HOUR_SECONDS: Final = 3600


async def principals(exchange: Exchange) -> Reply:
    """List who may ask."""
    caller = await exchange.caller()
    return json_reply({"principals": await exchange.ask(caller.principals)})


async def issue(exchange: Exchange) -> Reply:
    """Make somebody known; the token is told once."""
    caller, fields = await exchange.caller(), await exchange.fields()
    name, role, kind = _text(fields, "name"), _text(fields, "role"), _text(fields, "kind", "human")
    return json_reply(await exchange.ask(lambda: caller.issue(name, role, kind)))


async def rotate(exchange: Exchange) -> Reply:
    """Give somebody another token."""
    caller, name = await exchange.caller(), exchange.part("name")
    return json_reply(await exchange.ask(lambda: caller.rotate(name)))


async def revoke(exchange: Exchange) -> Reply:
    """Know somebody no longer."""
    caller, name = await exchange.caller(), exchange.part("name")
    return json_reply(await exchange.ask(lambda: caller.revoke(name)))


async def enroll_token(exchange: Exchange) -> Reply:
    """Make a token that one runner can enrol with."""
    caller, fields = await exchange.caller(), await exchange.fields(optional=True)
    pool = _text(fields, "pool") if fields.get("pool") is not None else None
    seconds = fields.get("expiresSeconds", HOUR_SECONDS)
    if type(seconds) is not int:
        raise InputError("`expiresSeconds` must be a whole number")
    return json_reply(await exchange.ask(lambda: caller.enroll_token(pool, seconds)))


async def runners(exchange: Exchange) -> Reply:
    """List the runners."""
    caller = await exchange.caller()
    return json_reply({"runners": await exchange.ask(caller.runners, long=True)})


async def revoke_runner(exchange: Exchange) -> Reply:
    """Take no more from a runner."""
    caller, runner_id = await exchange.caller(), exchange.part("runnerId")
    return json_reply(await exchange.ask(lambda: caller.revoke_runner(runner_id)))


async def drain_runner(exchange: Exchange) -> Reply:
    """Give a runner no more runs, or again."""
    caller, runner_id = await exchange.caller(), exchange.part("runnerId")
    drain = (await exchange.fields()).get("drain")
    if type(drain) is not bool:
        raise InputError("`drain` must be true or false")
    return json_reply(await exchange.ask(lambda: caller.drain_runner(runner_id, drain=drain)))


def _text(fields: Json, name: str, default: str | None = None) -> str:
    value: Any = fields.get(name, default)
    if type(value) is not str:
        raise InputError(f"`{name}` must be a text")
    return value


ROUTES: Final = (
    Route(method="GET", path="/v1/principals", name="principals", summary="List who may ask", needs="principals:read",
          act=principals, reply=schemas.Principals),
    Route(method="POST", path="/v1/principals", name="issue", summary="Make somebody known", needs="principals:manage",
          act=issue, body=schemas.NewPrincipal, body_example={"name": "alice", "role": "requester"},
          reply=schemas.Principal, refusals=(400, 409, 413)),
    Route(method="POST", path="/v1/principals/{name}/rotate", name="rotate", summary="Give somebody another token",
          act=rotate, reply=schemas.Principal, refusals=(400, 404, 409)),
    Route(method="DELETE", path="/v1/principals/{name}", name="revoke", summary="Know somebody no longer",
          needs="principals:manage", act=revoke, reply=schemas.Principal, refusals=(400, 404, 409)),
    Route(method="POST", path="/v1/enroll-tokens", name="enrollToken", summary="Make a token for one enrolment",
          needs="enroll-tokens:create", act=enroll_token, body=schemas.EnrollTokenWish, body_optional=True,
          body_example={"pool": "default", "expiresSeconds": 3600}, reply=schemas.EnrollToken, refusals=(400, 413)),
    Route(method="GET", path="/v1/runners", name="runners", summary="List the runners", needs="runners:read",
          act=runners, reply=schemas.Runners),
    Route(method="DELETE", path="/v1/runners/{runnerId}", name="revokeRunner", summary="Take no more from a runner",
          needs="runners:manage", act=revoke_runner, reply=schemas.Runner, refusals=(404,)),
    Route(method="POST", path="/v1/runners/{runnerId}/drain", name="drainRunner", summary="Give a runner no more runs",
          needs="runners:manage", act=drain_runner, body=schemas.Drain, body_example={"drain": True},
          reply=schemas.Drained, refusals=(400, 404, 413)),
)  # fmt: skip
