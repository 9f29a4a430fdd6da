"""Routes about runs: ask for one, look at it, decide about it. Who asks is known by the bearer's token.

The plane says what people are asked for as objects; old peers read sentences under `consentRequirements`, so those
stand there, and the objects under `requirements`.
"""

from collections.abc import Callable
from typing import Any, Final

from tipstaff.doors.http import schemas
from tipstaff.doors.http.exchange import Exchange
from tipstaff.doors.http.following import follow
from tipstaff.doors.http.replies import BYTES, DoorError, Json, Reply, encoded, json_reply, raw_reply
from tipstaff.doors.http.routes import MOST_BODY_BYTES, Query, Route
from tipstaff.errors import InputError
from tipstaff.evidence.seal import payload_digest
from tipstaff.model.noun import to_wire
from tipstaff.plane import Queued, Refused, Waiting
from tipstaff.plane.callers import Caller

PAGE: Final = 100
MOST_PAGE: Final = 1000
STREAMS: Final = ("stdout", "stderr")
Word = Callable[[Caller, str, Json], Json]


async def submit(exchange: Exchange) -> Reply:
    """Take a request in, or say what would become of it."""
    caller = await exchange.caller()
    fields = await exchange.fields()
    dry, request = fields.get("dryRun", False), fields.get("request")
    if type(dry) is not bool:
        raise InputError("`dryRun` must be true or false")
    if type(request) is not dict:
        raise InputError("`request` must be an object: what is to run")
    if dry:
        return json_reply(await exchange.ask(lambda: caller.report(request)))
    intake = await exchange.ask(lambda: caller.submit(request))
    if isinstance(intake, Refused):
        raise _denied(intake)
    exchange.record.run = intake.run_id
    return json_reply(_submitted(intake))


async def listed(exchange: Exchange) -> Reply:
    """List runs."""
    caller = await exchange.caller()
    count, before = exchange.number("limit", PAGE, MOST_PAGE, 1), exchange.query("before")
    refused = exchange.flag("refused", default=False)
    return raw_reply(await exchange.ask(lambda: encoded(_page(caller, count, before, refused=refused)), long=True))


def _page(caller: Caller, count: int, before: str | None, *, refused: bool) -> Json:
    lines = caller.runs(count, before, refused=refused)
    page: Json = {"runs": [spelled(line) for line in lines]}
    if len(lines) == count:
        page["next"] = lines[-1]["id"]
    return page


async def shown(exchange: Exchange) -> Reply:
    """Tell everything about a run."""
    return await _read(exchange, lambda caller, run_id: spelled(caller.run(run_id)))


async def bundle(exchange: Exchange) -> Reply:
    """Give the proof of a run."""
    return await _read(exchange, lambda caller, run_id: caller.bundle(run_id))


async def why(exchange: Exchange) -> Reply:
    """Say why a run ended as it did."""
    return await _read(exchange, lambda caller, run_id: spelled(caller.why(run_id)))


async def refusal(exchange: Exchange) -> Reply:
    """Give a signed refusal."""
    caller = await exchange.caller()
    return json_reply(await exchange.ask(lambda: caller.refusal(exchange.part("refusalId"))))


async def output(exchange: Exchange) -> Reply:
    """Give what a run printed."""
    caller = await exchange.caller()
    run_id, stream = _run_id(exchange), exchange.part("stream")
    if stream not in STREAMS:
        raise DoorError("a run has two streams: stdout and stderr", status=404, code="not_found")
    return raw_reply(await exchange.ask(lambda: caller.output(run_id, stream), long=True), media_type=BYTES)


async def approvals(exchange: Exchange) -> Reply:
    """List what waits for people."""
    caller = await exchange.caller()
    return raw_reply(await exchange.ask(lambda: encoded(_waiting(caller)), long=True))


def _waiting(caller: Caller) -> Json:
    return {"waiting": [spelled(line) for line in caller.waiting()], "questions": caller.questions()}


async def names(exchange: Exchange) -> Reply:
    """List ids that begin so."""
    caller = await exchange.caller()
    beginning, count = exchange.query("beginning") or "", exchange.number("limit", PAGE, MOST_PAGE, 1)
    return json_reply({"names": await exchange.ask(lambda: caller.named(beginning, count), long=True)})


def _said(word: Word) -> Callable[[Exchange], Any]:
    """Make the route of a person's word on a run."""

    async def say(exchange: Exchange) -> Reply:
        caller = await exchange.caller()
        run_id, body = _run_id(exchange), await exchange.fields(optional=True)
        return json_reply(await exchange.ask(lambda: word(caller, run_id, body)))

    return say


async def _read(exchange: Exchange, read: Callable[[Caller, str], Json]) -> Reply:
    """Give what is told of a run; its events may be many, so a thread reads and spells them."""
    caller, run_id = await exchange.caller(), _run_id(exchange)
    return raw_reply(await exchange.ask(lambda: encoded(read(caller, run_id)), long=True))


def _run_id(exchange: Exchange) -> str:
    exchange.record.run = exchange.part("runId")[:64]
    return exchange.part("runId")


def spelled(line: Json) -> Json:
    """Spell what people are asked for as old peers read it, with the objects beside it."""
    asked = line.get("consentRequirements")
    if asked is None:
        return line
    return {**line, "consentRequirements": [sentence(one) for one in asked], "requirements": asked}


def sentence(requirement: Json) -> str:
    """Say who is asked."""
    return f"{requirement['rule']}: {requirement.get('quorum', 1)} of {', '.join(requirement['approvers'])}"


def _submitted(intake: Queued | Waiting) -> Json:
    waiting = isinstance(intake, Waiting)
    asked = [to_wire(one) for one in intake.requirements] if isinstance(intake, Waiting) else []
    decision, contract = intake.decision, intake.contract
    return {
        "runId": intake.run_id,
        "status": "awaiting_approval" if waiting else "created",
        "consentRequirements": [sentence(one) for one in asked],
        "requirements": asked,
        "contractHash": payload_digest(contract),
        "requestedBy": contract["requestedBy"],
        "decision": decision.effect,
        "policy": decision.policy,
        "rules": list(decision.rules),
        "reasons": [f"{one.rule}: {one.message}" for one in decision.reasons],
    }


def _denied(intake: Refused) -> DoorError:
    decision = intake.decision
    reasons = [f"{one.rule}: {one.message}" for one in decision.reasons]
    more = {"reasons": reasons, "rules": list(decision.rules), "policy": decision.policy, "refusal": intake.refusal}
    return DoorError("the policy does not allow this run", status=403, code="policy_denied", more=more)


def _of_run(method: Any, name: str, below: str, **more: Any) -> Route:
    refusals = (404, *more.pop("also", ()))
    return Route(method=method, path=f"/v1/runs/{{runId}}{below}", name=name, refusals=refusals, **more)


def _word(name: str, summary: str, needs: str, word: Word) -> Route:
    return _of_run(
        "POST", name, f"/{name}", summary=summary, needs=needs, act=_said(word), body=schemas.Word, body_optional=True,
        body_example={"reason": "looked at it"}, reply=schemas.Answered, also=(400, 409, 413, 422),
    )  # fmt: skip


_COUNT: Final = Query("limit", {"type": "integer", "minimum": 1, "maximum": MOST_PAGE}, "how many at most")
_FROM: Final = {"type": "integer", "minimum": 0, "maximum": 2**31}
SUBMIT: Final = Route(
    method="POST", path="/v1/runs", name="submit", summary="Ask for a run", needs="runs:create", act=submit,
    body=schemas.Submit, most_body_bytes=MOST_BODY_BYTES, reply=schemas.Submitted,
    refusals=(400, 404, 409, 413, 422, 507),
    body_example={"request": {"execution": {"kind": "shell", "script": "make test"}, "pool": "default"}},
)  # fmt: skip
ROUTES: Final = (
    SUBMIT,
    Route(
        method="GET", path="/v1/runs", name="listRuns", summary="List runs, newest first", needs="runs:read",
        act=listed, reply=schemas.Runs, refusals=(400, 404),
        queries=(
            _COUNT,
            Query("before", {"type": "string"}, "list from behind this id"),
            Query("refused", {"type": "boolean"}, "with requests that were refused"),
        ),
    ),
    _of_run("GET", "showRun", "", summary="Tell everything about a run", needs="runs:read", act=shown,
            reply=schemas.Run),
    _of_run("GET", "bundle", "/bundle", summary="Give the proof of a run", needs="runs:read", act=bundle,
            reply=schemas.Anything),
    _of_run("GET", "why", "/why", summary="Say why a run ended as it did", needs="runs:read", act=why,
            reply=schemas.Anything),
    _of_run("GET", "output", "/output/{stream}", summary="Give what a run printed", needs="runs:read", act=output,
            reply=BYTES),
    _of_run("GET", "follow", "/follow", summary="Follow a run: its events and output as they come", needs="runs:read",
            act=follow, reply="text/event-stream", also=(400,), queries=(
                Query("after", _FROM, "events from this number on"),
                Query("stdout", _FROM, "stdout from this byte on"),
                Query("stderr", _FROM, "stderr from this byte on"))),
    _word("approve", "Say yes to a run that waits", "runs:approve", lambda who, run, body: who.approve(run, body)),
    _word("deny", "Say no to a run that waits", "runs:approve", lambda who, run, body: who.deny(run, body)),
    _word("answer", "Answer a question of a run at work", "runs:approve", lambda who, run, body: who.answer(run, body)),
    _word("cancel", "Stop a run", "runs:cancel", lambda who, run, body: who.cancel(run, body)),
    Route(method="GET", path="/v1/approvals", name="approvals", summary="List what waits for people", needs="runs:read",
          act=approvals, reply=schemas.Approvals),
    Route(method="GET", path="/v1/names", name="names", summary="List ids that begin so", needs="runs:read", act=names,
          reply=schemas.Names, refusals=(400,),
          queries=(Query("beginning", {"type": "string"}, "how they begin"), _COUNT)),
    Route(method="GET", path="/v1/refusals/{refusalId}", name="refusal", summary="Give a signed refusal",
          needs="runs:read", act=refusal, reply=schemas.Anything, refusals=(404,)),
)  # fmt: skip
