"""Refusals: the signed word that something did not, and will not, run.

A request that policy denies leaves one, and so does a run that ends before a runner holds it: denied by a person,
waited for in vain, cancelled, expired, or left by the process that asked. No receipt can end such a run, because a
receipt names the runner. Each is in the journal, and its transaction survives power loss.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from tipstaff.canonical import canonical
from tipstaff.errors import CanonicalError
from tipstaff.evidence.records import refuse
from tipstaff.evidence.seal import payload_digest
from tipstaff.model.decision import Decision
from tipstaff.model.noun import VERSION_REFUSAL, noun_bytes
from tipstaff.model.records import Refusal
from tipstaff.model.request import Request
from tipstaff.model.times import timestamp
from tipstaff.plane.authority import Authority
from tipstaff.store import Run

Json = dict[str, Any]


class Cause(NamedTuple):
    """Why a run ends without a runner: the rule, the sentence, and its last event."""

    rule: str
    message: str
    event: Json

    @property
    def state(self) -> str:
        """The state that the run ends in."""
        return "cancelled" if self.event["type"] == "run.cancelled" else "failed"


def failed(rule: str, failure: str, message: str) -> Cause:
    """Give a cause that is a failure with a name."""
    return Cause(rule, message, {"type": "run.failed", "failure": failure, "message": message})


def refuse_request(authority: Authority, request: Request, decision: Decision) -> Json:
    """Sign and keep the denial of a request."""
    now = authority.time()
    refusal = Refusal(
        version=VERSION_REFUSAL,
        id=authority.new_id("ref"),
        ts=timestamp(now),
        request_hash=decision.request_hash,
        policy_hash=decision.policy_hash,
        principal=request.requested_by.id,
        door=request.door,
        rules=list(decision.rules),
        reasons=[f"{reason.rule}: {reason.message}" for reason in decision.reasons],
    )
    document = refuse(refusal, authority.key)
    with authority.store.database.transaction(durable=True):
        keep_request(authority, request, decision, refusal.id)
        _keep(authority, document, now, None)
    return document


def refuse_run(authority: Authority, run: Run, cause: Cause) -> Json:
    """End a run that no runner holds; inside a durable transaction that read it."""
    ended = authority.extend(run, [cause.event], state=cause.state, failure_message=cause.message)
    refusal = Refusal(
        version=VERSION_REFUSAL,
        id=authority.new_id("ref"),
        ts=timestamp(ended.plane_time),
        request_hash=run.request_hash,
        policy_hash=run.policy_hash,
        principal=run.principal,
        door=run.door,
        rules=[cause.rule],
        reasons=[cause.message],
    )
    about = {"runId": run.run_id, "contractHash": run.contract_hash, "eventsHead": ended.events_head}
    document = refuse(refusal, authority.key, about)
    _keep(authority, document, ended.plane_time, run.run_id)
    return document


def keep_request(authority: Authority, request: Request, decision: Decision, user: str) -> None:
    """Keep the request and the policy under their own digests, so that the decision can be replayed."""
    blobs = authority.store.blobs
    blobs.use(user, (decision.request_hash, decision.policy_hash))
    if not blobs.has(authority.policy.hash):
        blobs.put(canonical(authority.policy.value))
    # A request was denied for having no canonical form: then there is nothing that its digest could name.
    with suppress(CanonicalError, ValueError, TypeError, OverflowError, RecursionError):
        blobs.put(noun_bytes(request))


def _keep(authority: Authority, document: Json, now: int, run_id: str | None) -> None:
    authority.store.refusals.add(document, now, run_id)
    authority.record("refusal", payload_digest(document), now)
