"""Approvals: people say yes or no to one contract, by its hash.

A signed approval counts if its signature holds and its key is known as that very person's. Without a known key the
plane itself vouches that somebody with its own user id, or at its console, said so; the approval says no more than
that. Whether there are enough is the policy's arithmetic. A run that waited in vain, or was not claimed before an
approval ran out, ends with a refusal.
"""

from typing import Any, Literal

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, InputError, PlaneError, SigningKeyError
from tipstaff.evidence.approval import approve as sign_approval
from tipstaff.keys import PublicKey
from tipstaff.model.decision import Requirement
from tipstaff.model.noun import VERSION_APPROVAL, Actor
from tipstaff.model.records import Approval
from tipstaff.model.times import milliseconds, timestamp
from tipstaff.plane.authority import Authority
from tipstaff.plane.refusals import failed, refuse_run
from tipstaff.policy.approvals import Shortfall, approved
from tipstaff.policy.patterns import any_of
from tipstaff.store import Run

Json = dict[str, Any]
Vouched = Literal["same-uid", "console"]
SECOND_MS = 1000
LONGEST_REASON = 1000


def approve(authority: Authority, run_id: str, body: Json, by: Vouched = "same-uid") -> Json:
    """Take an approval: `approval`, signed by the approver, or `actor`, for whom the door vouches, `by` what it saw."""
    with authority.store.database.transaction():
        run = _waiting(authority, run_id)
        refuse_other_contract(run, body)
        document = body["approval"] if "approval" in body else _vouched(authority, run, actor_of(body), by)
        approval = checked(authority, document, by)
        if approval.question is not None:
            raise PlaneError("this approval is of a question, not of the run", status=403, code="approval_useless")
        refuse_useless(authority, run, approval, requirements(run))
        if approval not in _given(authority, run):
            actor = {"kind": approval.actor.kind, "id": approval.actor.id}
            run = authority.extend(run, [{"type": "consent.granted", "actor": actor, "approval": document}])
        missing = shortfalls(authority, run)
        state = "awaiting_approval" if missing else "created"
        # A verifier takes no chain in which an approval had run out when the run was claimed.
        until = min(run.approval_until or run.expires_at, milliseconds(approval.expires_at))
        authority.store.runs.change(run, state=state, approval_until=until)
    return {"runId": run_id, "status": state, "missing": [one.message for one in missing]}


def deny(authority: Authority, run_id: str, body: Json) -> Json:
    """End a waiting run by the word of somebody who could have approved it."""
    actor = actor_of(body)
    with authority.store.database.transaction(durable=True):
        run = _waiting(authority, run_id)
        refuse_other_contract(run, body)
        if not any(any_of(one.approvers)(actor.id) for one in requirements(run)):
            raise PlaneError(f"{actor.id!r} is not an approver of run {run_id}", status=403, code="not_approver")
        refuse_run(
            authority, run, failed("approval.denied", "policy_denied", f"{actor.id!r} denied it{reason_of(body)}")
        )
    return {"runId": run_id, "status": "failed"}


def refuse_other_contract(run: Run, body: Json) -> None:
    """Refuse a word on another contract than the one at hand: what somebody was shown is what they answer."""
    if body.get("contractHash", run.contract_hash) != run.contract_hash:
        message = f"run {run.run_id} has another contract than the one that was shown"
        raise PlaneError(message, status=409, code="contract_changed")


def reason_of(body: Json) -> str:
    """Read why somebody said no, as the end of a sentence."""
    reason = body.get("reason", "")
    if (
        not isinstance(reason, str)
        or len(reason) > LONGEST_REASON
        or any("\ud800" <= one <= "\udfff" for one in reason)
    ):
        raise InputError(f"the reason is not a text of at most {LONGEST_REASON} characters")
    return f": {reason}" if reason else ""


def expire(authority: Authority, run_id: str) -> Json:
    """End a waiting run now: whoever waits for it has waited long enough."""
    with authority.store.database.transaction(durable=True):
        run = _waiting(authority, run_id)
        if run.state == "awaiting_approval":
            time_out(authority, run)
    return {"runId": run_id, "status": authority.store.runs.get(run_id).state}


def time_out(authority: Authority, run: Run) -> None:
    """End a run that waited for approvals in vain; inside a durable transaction that read it."""
    missing = "; ".join(one.message for one in shortfalls(authority, run))
    message = f"not approved, or not claimed, in time: {missing}" if missing else "not claimed in time"
    refuse_run(authority, run, failed("approval.timeout", "consent_timeout", message))


def shortfalls(authority: Authority, run: Run) -> tuple[Shortfall, ...]:
    """List what is missing before `run` may be claimed."""
    if run.requirements is None:
        return ()
    return _missing(authority, run, requirements(run), _given(authority, run))


def requirements(run: Run) -> list[Requirement]:
    """List the approvals that policy asked for."""
    return msgspec.convert(run.requirements or [], list[Requirement])


def _missing(authority: Authority, run: Run, wanted: list[Requirement], given: list[Approval]) -> tuple[Shortfall, ...]:
    return approved(
        wanted,
        given,
        requested_by=msgspec.convert(run.contract["requestedBy"], Actor),
        contract_hash=run.contract_hash,
        now=timestamp(authority.time(run)),
    )


def _given(authority: Authority, run: Run) -> list[Approval]:
    events = (link["event"] for link in authority.store.runs.events(run.run_id))
    return [msgspec.convert(one["approval"], Approval) for one in events if one["type"] == "consent.granted"]


def _waiting(authority: Authority, run_id: str) -> Run:
    run = authority.store.runs.get(run_id)
    if run.requirements is None:
        raise PlaneError(f"run {run_id} needs no approval", status=409, code="not_asked")
    if run.state not in {"awaiting_approval", "created"}:
        raise PlaneError(f"run {run_id} is {run.state}: it is too late", status=409, code="not_waiting")
    if authority.time(run) > (run.approval_until or run.expires_at):
        raise PlaneError(f"run {run_id} has waited too long: ask anew", status=409, code="not_waiting")
    return run


def actor_of(body: Json) -> Actor:
    """Read who says so."""
    try:
        return msgspec.convert(body.get("actor"), Actor)
    except msgspec.ValidationError as error:
        raise InputError(f"the actor is malformed: {error}") from error


def _vouched(authority: Authority, run: Run, actor: Actor, by: Vouched) -> Json:
    lasts = min(one.expires_seconds for one in requirements(run)) * SECOND_MS
    expires = timestamp(authority.time(run) + lasts)
    return sign_approval(run.contract_hash, actor, authority.key, by, expires)


def checked(authority: Authority, document: Any, by: Vouched) -> Approval:
    """Read an approval whose signature holds and whose key is the actor's, or the plane's own word."""
    try:
        approval = msgspec.convert(document, Approval)
        signed_digest = digest({key: value for key, value in document.items() if key != "sig"})
        key = _key(authority, approval)
    except (msgspec.ValidationError, CanonicalError, SigningKeyError) as error:
        raise InputError(f"the approval is malformed: {error}") from error
    if approval.version != VERSION_APPROVAL or key is None or key.key_id != approval.key_id:
        raise PlaneError("the approval's version or key is not known", status=403, code="approval_unknown")
    if not key.verifies(signed_digest.encode(), approval.sig):
        raise PlaneError("the approver's signature does not fit the approval", status=403, code="approval_forged")
    _refuse_stranger(authority, key, approval, by)
    return approval


def _key(authority: Authority, approval: Approval) -> PublicKey | None:
    if approval.public_key_pem is not None:
        return PublicKey.parse(approval.public_key_pem)
    return authority.known.by_id(approval.key_id, "approver")


def _refuse_stranger(authority: Authority, key: PublicKey, approval: Approval, by: Vouched) -> None:
    if approval.assurance == by and (by == "same-uid" or key == authority.key.public):
        return  # the door has seen that the caller has our own user id, or sits at our console
    entry = authority.known.find(key, "approver")
    who, now = approval.actor.id, timestamp(authority.time())
    is_known = entry is not None and entry.name == who
    if fault := entry.fault_at(now) if entry and is_known else f"is not known as {who!r}'s":
        raise PlaneError(f"the approver's key {key.key_id} {fault}", status=403, code="approver_unknown")


def refuse_useless(authority: Authority, run: Run, approval: Approval, wanted: list[Requirement]) -> None:
    """Refuse an approval that counts for no requirement, with the reason of each."""
    missing = [_missing(authority, run, [one], [approval]) for one in wanted]
    if any(not found or found[0].have for found in missing):
        return
    reasons = tuple(sorted({reason for found in missing for reason in found[0].refused}))
    raise PlaneError("this approval does not count", status=403, code="approval_useless", reasons=reasons)
