"""What a plane signs for beside its contracts: that a runner has a claim, what people answered, and a receipt. Pure.

1. A claim: that this very runner has this very run, with these events, by an answer to this very question. A contract
   alone proves neither that its approvals were given nor that it is ours, and may be a recording.
2. A yes to a question of a run at work: whoever stands between the plane and a runner must not open a place.
3. A receipt: only with the plane's signature over what we sent does the plane have it.
The first two are asked of a plane that told its key when the runner was enrolled; older ones do not know them.
"""

from collections.abc import Mapping
from typing import Any

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal, payload_digest
from tipstaff.keys import PublicKey
from tipstaff.model.noun import VERSION_ANSWER, VERSION_CLAIM
from tipstaff.model.times import milliseconds
from tipstaff.runner.client import Claim
from tipstaff.runner.contracts import FORGED, ForeignContractError, Place

Json = dict[str, Any]


def claimed_at(claim: Claim, nonce: str, place: Place) -> int | None:
    """Check the plane's word on a claim, and give its time in milliseconds; None where a plane gives none.

    ForeignContractError where it is not this plane's word on this claim, or is not there and has to be.
    """
    said = claim.proof
    if said is None:
        if place.proves:
            raise ForeignContractError("the plane does not sign for this claim, which it always does", "claim_unproven")
        return None
    if not _is_signed(said, "proof", place.plane_key):
        raise ForeignContractError("the claim is not signed for by our plane", FORGED)
    for name, expected in _expected(claim, nonce, place).items():
        if said.get(name) != expected:
            raise ForeignContractError(f"the plane signed for another claim: its {name} is another", "claim_differs")
    return _milliseconds(said.get("ts"))


def _expected(claim: Claim, nonce: str, place: Place) -> Json:
    return {
        "version": VERSION_CLAIM,
        "nonce": nonce,
        "runId": claim.run_id,
        "contractHash": _digest(claim.contract),
        "attempt": claim.attempt,
        "runnerId": place.runner_id,
        "runnerKeyId": place.runner_key_id,
        "eventCount": len(claim.events),
        "eventsHead": claim.events[-1].get("hash"),
    }


def _digest(contract: Json) -> str:
    try:
        return payload_digest(contract)
    except CanonicalError as error:
        raise ForeignContractError(f"the contract cannot be read: {error.message}") from error


def _milliseconds(ts: Any) -> int:
    try:
        return milliseconds(ts)
    except (ValueError, TypeError, AttributeError) as error:
        raise ForeignContractError("the plane's time is none", "claim_differs") from error


def is_yes(answer: Json, question: Mapping[str, Any], run_id: str, key: PublicKey) -> bool:
    """Say whether the plane signed for a yes to this very question of this very run, by this very approval."""
    said = answer.get("signed")
    if type(said) is not dict or not _is_signed(said, "answer", key):
        return False
    try:
        approval_hash = digest(answer.get("approval"))
    except CanonicalError:
        return False
    asked = {name: question.get(name) for name in ("host", "port", "rule")}
    expected = {"version": VERSION_ANSWER, "runId": run_id, **asked, "answer": "yes", "approvalHash": approval_hash}
    return all(said.get(name) == value for name, value in expected.items())


def is_countersigned(receipt: Json, ours: Json, key: PublicKey) -> bool:
    """Say whether the plane signed for what we sent, and for nothing else."""
    findings = Findings()
    seal = Seal(receipt, "receipt", ("runner", "plane", "org"), findings)
    seal.check(14, "plane", key)
    return not findings.sorted() and seal.digest == payload_digest(ours)


def _is_signed(document: Json, name: str, key: PublicKey) -> bool:
    findings = Findings()
    Seal(document, name, ("plane",), findings).check(2, "plane", key)
    return not findings.sorted()
