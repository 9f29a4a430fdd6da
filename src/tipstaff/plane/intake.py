"""Intake: a request and what the door knows of it → a decision, and what follows from it.

Deny: a signed refusal. Allow: a signed contract that a runner may claim. Ask: the same contract, which nobody may claim
until people have approved its hash. Either way the journal says so. A request that does not parse is an `InputError`
and leaves nothing: there is nothing yet that could be named.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tipstaff.errors import CanonicalError, InputError, PlaneError
from tipstaff.evidence.seal import payload_digest, signed_as
from tipstaff.model.decision import Decision, Requirement
from tipstaff.model.facts import Facts
from tipstaff.model.limits import Limits
from tipstaff.model.noun import Noun, to_wire
from tipstaff.model.request import Request, parse_request
from tipstaff.model.times import timestamp
from tipstaff.plane.authority import Authority, linked
from tipstaff.plane.contract import Terms, blobs_of_manifest, check_workspace, draft
from tipstaff.plane.refusals import keep_request, refuse_request
from tipstaff.plane.room import require_room
from tipstaff.policy import decide
from tipstaff.store import Run

Json = dict[str, Any]
SECOND_MS = 1000
Announce = Callable[[Json], None]


class Refused(Noun):
    """Policy said no."""

    refusal: Json
    decision: Decision


class Queued(Noun):
    """A runner may claim it."""

    run_id: str
    contract: Json
    decision: Decision


class Waiting(Noun):
    """People must approve first."""

    run_id: str
    contract: Json
    decision: Decision
    contract_hash: str
    requirements: tuple[Requirement, ...]


Intake = Refused | Queued | Waiting


def submit(authority: Authority, value: Any, facts: Facts, announce: Announce | None = None) -> Intake:
    """Take a request in; `announce` hears of a contract that needs nobody's approval just before it is kept."""
    request = parse_request(value)
    check_workspace(request)
    if facts.authenticated is not None and request.workspace is not None:
        refuse_others_blobs(authority, facts.authenticated, request.workspace)
    decision = decide(request, authority.policy, facts)
    require_room(authority, decision.effective.limits if decision.effective else Limits())
    if decision.denied:
        return Refused(refusal=refuse_request(authority, request, decision), decision=decision)
    run = _draw_up(authority, request, decision)
    first = list(linked(run, _first_events(decision), timestamp(run.plane_time)))
    run = msgspec.structs.replace(run, event_count=len(first), events_head=first[-1]["hash"])
    if announce is not None and decision.effect == "allow":
        announce(run.contract)
    with authority.store.database.transaction():
        if authority.shared:
            run = msgspec.structs.replace(run, turn=authority.store.runs.next_turn(run.pool, run.principal))
        authority.store.runs.add(run)
        authority.store.runs.add_events(run.run_id, first)
        keep_request(authority, request, decision, run.run_id)
        authority.store.blobs.use(run.run_id, blobs_of_manifest(run.contract["workspace"]))
        authority.record("contract", run.contract_hash, run.created_at)
    if decision.effect == "allow":
        return Queued(run_id=run.run_id, contract=run.contract, decision=decision)
    return Waiting(
        run_id=run.run_id,
        contract=run.contract,
        decision=decision,
        contract_hash=run.contract_hash,
        requirements=decision.requirements,
    )


def refuse_others_blobs(authority: Authority, name: str, manifest: Json) -> None:
    """Refuse a workspace that names content which its requester neither brought nor has in a run: naming is asking."""
    blobs = authority.store.blobs
    for digest in dict.fromkeys(blobs_of_manifest(manifest)):
        if not (blobs.is_owned(name, digest) or (blobs.has(digest) and blobs.is_used_for(name, digest))):
            message = f"the workspace names the blob {digest}, which {name!r} has not brought here"
            raise PlaneError(message, status=403, code="blob_unknown", reasons=("upload it first: POST /v1/blobs",))


def _draw_up(authority: Authority, request: Request, decision: Decision) -> Run:
    now, asks = authority.time(), decision.effect == "ask"
    wait = max((one.expires_seconds for one in decision.requirements), default=0) * SECOND_MS
    expires = now + wait + authority.policy.document.contract.life
    retries = authority.policy.document.contract.retries
    terms = Terms(authority.new_id("run"), now, expires, authority.key.public.key_id, retries)
    try:
        drafted = draft(request, decision, terms)
        contract_hash = payload_digest(drafted)
    except CanonicalError as error:
        raise InputError(f"the request cannot be written into a contract: {error.message}") from error
    contract = signed_as(drafted, contract_hash, authority.key, "plane")
    return Run(
        run_id=terms.run_id,
        state="awaiting_approval" if asks else "created",
        pool=request.pool,
        tier=contract["tier"],
        principal=request.requested_by.id,
        door=request.door,
        request_hash=decision.request_hash,
        policy_hash=decision.policy_hash,
        contract=contract,
        contract_hash=contract_hash,
        created_at=now,
        updated_at=now,
        expires_at=expires,
        event_count=0,
        events_head=contract_hash,
        plane_time=now,
        requirements=[to_wire(one) for one in decision.requirements] if asks else None,
        approval_until=now + wait if asks else None,
        owner=authority.owner_name,
    )


def _first_events(decision: Decision) -> list[Json]:
    reason = "; ".join(f"{one.rule}: {one.message}" for one in decision.reasons)
    evaluated: Json = {"type": "policy.evaluated", "decision": decision.effect, "reason": reason}
    evaluated |= {"policy": decision.policy, "reasons": [to_wire(one) for one in decision.reasons]}
    events: list[Json] = [{"type": "run.created"}, evaluated]
    return events + [{"type": "consent.requested", "requirement": asked(one)} for one in decision.requirements]


def asked(requirement: Requirement) -> str:
    """Say in a sentence who must approve."""
    return f"{requirement.rule}: {requirement.quorum} of {', '.join(requirement.approvers)}"
