"""Whether a run that waited may still be given out: its requester is still one, and the policy would say the same.

A contract was signed under the policy of its day. Under another one the request is judged again, and what that would
grant must be what the contract grants, to the letter: else the run ends, and its requester asks anew. Pure but for
what it reads from the store.
"""

from typing import Any

import msgspec

from tipstaff.errors import InputError, NotFoundError, StoreError
from tipstaff.model.facts import Facts
from tipstaff.model.noun import Actor
from tipstaff.model.request import Request, parse_request
from tipstaff.plane.authority import Authority
from tipstaff.plane.contract import Terms, draft
from tipstaff.plane.refusals import Cause, failed
from tipstaff.policy import decide
from tipstaff.store import Run

Json = dict[str, Any]
_OF_THE_DAY = ("policyHash", "signatures")


def why_not(authority: Authority, run: Run) -> Cause | None:
    """Say why a waiting run may not be given out any more; None where it may."""
    principal = authority.store.principals.get(run.principal)
    if principal is not None and principal.revoked_at is not None:
        return failed("principals.revoked", "policy_denied", f"{run.principal!r} may not ask for anything any more")
    return None if run.policy_hash == authority.policy.hash else _judged_again(authority, run)


def _judged_again(authority: Authority, run: Run) -> Cause | None:
    request = _request(authority, run)
    if request is None:
        return _changed("the request is not kept, so it cannot be judged again")
    actor = msgspec.convert(run.contract["requestedBy"], Actor)
    decision = decide(request, authority.policy, Facts(authenticated=actor.id, authenticated_kind=actor.kind))
    if decision.denied:
        return _changed("; ".join(f"{one.rule}: {one.message}" for one in decision.reasons))
    if decision.effect == "ask" and run.requirements is None:
        return _changed("it now asks for an approval first")
    retries = authority.policy.document.contract.retries
    terms = Terms(run.run_id, run.created_at, run.expires_at, run.contract["issuer"]["keyId"], retries)
    if _lasting(draft(request, decision, terms)) != _lasting(run.contract):
        return _changed("it would now be granted otherwise")
    return None


def _changed(why: str) -> Cause:
    return failed("policy.changed", "policy_denied", f"the policy has changed meanwhile: {why}; ask anew")


def _request(authority: Authority, run: Run) -> Request | None:
    try:
        return parse_request(msgspec.json.decode(authority.store.blobs.get(run.request_hash)))
    except (NotFoundError, StoreError, InputError, msgspec.DecodeError):
        return None


def _lasting(contract: Json) -> Json:
    """Leave out what is another whenever a contract is written."""
    return {name: value for name, value in contract.items() if name not in _OF_THE_DAY}
