"""The reading side of the plane: what happened, what waits, and why; plain JSON values, for any door.

Runs and refused requests are one list, ordered by time. Everything is told from what is kept (contract, events,
receipt, request, policy); nothing is decided anew, and nothing changes.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from tipstaff.errors import NotFoundError, StoreError
from tipstaff.model.times import LAST, milliseconds, timestamp
from tipstaff.plane.authority import Authority
from tipstaff.store import Run

Json = dict[str, Any]
Place = tuple[int, int]


def history(authority: Authority, count: int, before: str | None = None) -> list[Json]:
    """List runs and refused requests, newest first, from behind `before`."""
    after_run, after_refusal = _places(authority, before)
    runs = map(run_line, authority.store.runs.page(count, after_run))
    refused = (refusal_line(authority, one) for one in authority.store.refusals.page(count, after_refusal))
    return list(islice(merge(runs, refused, key=itemgetter("createdAt"), reverse=True), count))


def page(authority: Authority, count: int, before: str | None, principal: str | None, *, refused: bool) -> list[Json]:
    """List runs, of all requesters or of one, newest first, from behind `before`; with refused requests if asked."""
    after_run, after_refusal = _places(authority, before)
    lines = map(wire_line, authority.store.runs.page(count, after_run, principal))
    if not refused:
        return list(lines)
    refusals = authority.store.refusals.page(count, after_refusal, principal)
    told = (refusal_line(authority, one) for one in refusals)
    return list(islice(merge(lines, told, key=itemgetter("createdAt"), reverse=True), count))


def runners(authority: Authority) -> list[Json]:
    """List the runners, with the runs that each of them has."""
    return [
        {
            "runnerId": one["runner_id"],
            "pool": one["pool"],
            "keyId": one["key_id"],
            "enrolledAt": timestamp(one["enrolled_at"]),
            **({"lastSeenAt": timestamp(one["last_seen_at"])} if one["last_seen_at"] is not None else {}),
            **({"tiers": one["tiers"]} if one["tiers"] is not None else {}),
            "labels": one["labels"],
            "drain": one["drain"],
            "holding": authority.store.runs.held_by(one["runner_id"]),
        }
        for one in authority.store.runners.all()
    ]


def export(authority: Authority, since: str | None) -> Iterator[bytes]:
    """Give every event since a time, one line of JSON each, a run at a time, oldest first."""
    earliest = min(max(0, milliseconds(since)), LAST) if since else 0
    text = timestamp(earliest)  # times compare as text, whoever wrote them
    for run_id in authority.store.runs.since(earliest):
        for link in authority.store.runs.events(run_id):
            if link["ts"] >= text:
                yield msgspec.json.encode({"runId": run_id, **link}) + b"\n"


def metrics(authority: Authority) -> Json:
    """Count what there is."""
    store = authority.store
    return {
        "runs": store.runs.counts(),
        "queued": store.runs.queued(),
        "runners": len(store.runners.all()),
        "storeBytes": store.size_bytes(),
    }


def named(authority: Authority, beginning: str, count: int, principal: str | None = None) -> list[str]:
    """List ids of runs and of refused requests that begin so; of all requesters, or of one."""
    store = authority.store
    runs = store.runs.beginning(beginning, count, principal)
    return [*runs, *store.refusals.beginning(beginning, count, principal)][:count]


def run_line(run: Run) -> Json:
    """Say in short what became of a run."""
    receipt = run.receipt or {}
    line = {
        "id": run.run_id,
        "runId": run.run_id,
        "status": run.state,
        "createdAt": timestamp(run.created_at),
        "updatedAt": timestamp(run.updated_at),
        "principal": run.principal,
        "door": run.door,
        "pool": run.pool,
        "tier": run.tier,
        "actualTier": receipt.get("runner", {}).get("isolation"),
        "attempt": run.attempt,
        "execution": run.contract.get("execution"),
        "consentRequirements": run.requirements or [],
        "ending": receipt.get("ending"),
        "exitCode": receipt.get("exitCode"),
        "failureMessage": run.failure_message,
    }
    return {name: value for name, value in line.items() if value is not None}


def wire_line(run: Run) -> Json:
    """Say it with what other implementations of the protocol look for."""
    return {
        **run_line(run),
        "agentKind": run.contract["agent"]["kind"],
        "prompt": run.contract["task"]["prompt"],
        "requestedBy": run.contract["requestedBy"],
        "hasReceipt": run.receipt is not None,
    }


def refusal_line(authority: Authority, refusal: Json) -> Json:
    """Say in short what was refused."""
    request = _kept(authority, refusal["requestHash"])
    line = {
        "id": refusal["id"],
        "refusalId": refusal["id"],
        "status": "refused",
        "createdAt": refusal["ts"],
        "updatedAt": refusal["ts"],
        "principal": refusal["principal"],
        "door": refusal["door"],
        "tier": request.get("isolation"),
        "execution": _execution(request),
        "rules": refusal["rules"],
        "reasons": refusal["reasons"],
    }
    return {name: value for name, value in line.items() if value is not None}


def run_whole(authority: Authority, run_id: str) -> Json:
    """Tell everything about one run."""
    run = authority.store.runs.get(run_id)
    refusal = authority.store.refusals.of_run(run_id)
    return {
        **run_line(run),
        "contract": run.contract,
        "contractHash": run.contract_hash,
        "events": list(authority.store.runs.events(run_id)),
        "policy": _policy_name(authority, run.policy_hash),
        **({"receipt": run.receipt} if run.receipt else {}),
        **({"refusal": refusal} if refusal else {}),
        **_late(authority, run_id),
    }


def _late(authority: Authority, run_id: str) -> Json:
    """Name what came too late for a run, where its runner may be another process's."""
    if not authority.shared:
        return {}
    found = [
        {"attempt": attempt, "runnerId": runner_id, "receivedAt": timestamp(received), **document}
        for attempt, runner_id, received, document in authority.store.attachments.of_run(run_id)
    ]
    return {"attachments": found} if found else {}


def refusal(authority: Authority, refusal_id: str) -> Json:
    """Give a signed refusal."""
    found = authority.store.refusals.get(refusal_id)
    if found is not None:
        return found
    if gone := authority.store.pruned.get(refusal_id):
        when = timestamp(gone.pruned_at)
        raise NotFoundError(f"refusal {gone.id} was pruned at {when}", hint="the journal still has its digest")
    raise NotFoundError(f"there is no refusal {refusal_id[:64]!r}", hint="see: tipstaff history")


def waiting(authority: Authority, principal: str | None = None) -> list[Json]:
    """List the runs that wait for people, oldest first, with exactly what is asked; of all, or of one requester."""
    runs = authority.store.runs.asking(principal)
    return [
        {
            **run_line(run),
            "contractHash": run.contract_hash,
            "contract": run.contract,
            "until": timestamp(run.approval_until or run.expires_at),
        }
        for run in runs
    ]


def why(authority: Authority, name: str) -> Json:
    """Say why something was refused, or ended as it did."""
    refused = authority.store.refusals.get(name)
    if refused is not None and "runId" not in refused:
        return {
            **refusal_line(authority, refused),
            "decision": "deny",
            "policy": _policy_name(authority, refused["policyHash"]),
            "request": _kept(authority, refused["requestHash"]),
        }
    run = authority.store.runs.get(refused["runId"] if refused else name)
    events = [link["event"] for link in authority.store.runs.events(run.run_id)]
    return {
        **run_line(run),
        "policy": _policy_name(authority, run.policy_hash),
        **_decided(events),
        **_failed(events),
        "request": _kept(authority, run.request_hash),
        "demands": run.contract.get("demands", []),
        "weak": [one for one in (run.receipt or {}).get("enforcement", ()) if one.get("verdict") != "enforced"],
    }


def output(authority: Authority, run_id: str, stream: str) -> bytes:
    """Give the kept copy of what a run printed."""
    run = authority.store.runs.get(run_id)
    if run.receipt is None:
        ended = "it was refused before a command ran" if not run.open else f"it is {run.state}"
        raise NotFoundError(f"run {run_id} has no output: {ended}")
    record = run.receipt.get("streams", {}).get(stream, {})
    kept = record.get("kept")
    if not kept or record.get("bytes") == 0:  # nothing is no artifact: a runner elsewhere does not send it
        return b""
    # What a receipt names and no event of the run brought is not the run's, and nobody is told whether it is there.
    if not authority.store.blobs.is_used(run_id, kept) or not authority.store.blobs.has(kept):
        raise NotFoundError(f"what run {run_id} printed is not kept any more", hint="its receipt still has the digest")
    return authority.store.blobs.get(kept)


def _decided(events: list[Json]) -> Json:
    evaluated = next((event for event in events if event["type"] == "policy.evaluated"), None)
    if evaluated is None:
        return {}
    reasons = evaluated.get("reasons", [])
    return {
        "decision": evaluated["decision"],
        "rules": list(dict.fromkeys(one["rule"] for one in reasons)),
        "reasons": [f"{one['rule']}: {one['message']}" for one in reasons] or [evaluated["reason"]],
    }


def _failed(events: list[Json]) -> Json:
    last = events[-1] if events else {}
    if last.get("type") == "run.cancelled":
        return {"cancelledBy": last["actor"]["id"]}
    return {"failure": last["failure"], "failureMessage": last["message"]} if last.get("type") == "run.failed" else {}


def _places(authority: Authority, before: str | None) -> tuple[Place | None, Place | None]:
    """Find where an entry stands among runs, and where among refusals: of the same time, runs come first."""
    if before is None:
        return None, None
    if place := authority.store.refusals.place(before):
        return (place[0], 0), place
    if place := authority.store.runs.place(before):
        return place, (place[0] + 1, 0)
    raise NotFoundError(f"there is no run {before[:64]!r}", hint="see: tipstaff history")


def _kept(authority: Authority, digest: str) -> Json:
    """Read a document that is kept under its digest; nothing where it is not there any more, or is no object."""
    try:
        value = msgspec.json.decode(authority.store.blobs.get(digest))
    except (NotFoundError, StoreError, msgspec.DecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _execution(request: Json) -> Json | None:
    """Find what a request would have run, where it says so itself or means a script by its prompt."""
    if request.get("execution"):
        execution: Json = request["execution"]
        return execution
    return {"kind": "shell", "script": request["prompt"]} if request.get("prompt") else None


def _policy_name(authority: Authority, digest: str) -> str:
    return str(_kept(authority, digest).get("name", ""))
