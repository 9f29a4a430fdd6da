"""What a runner makes sure of before anything happens: that a contract is our plane's, for us, for now, and kept here.

1. The pinned key signed it, and it names that key as its issuer's.
2. It is the claimed run's, of our pool; the chain begins with its hash, folds without a problem, and says that this
   very runner claimed it.
3. It has not expired: by the plane's own signed time where the plane signs for claims (`proofs`), else by ours.
4. The secrets that came are those that it names, no more and no less.
What fails one of these is nobody's contract: nothing runs, and nothing is signed for it (`ForeignContractError`).
5. It asks for nothing that only the requester's own machine could give: folders, variables, an open network; and its
   tier is here. What fails this is ours and cannot be kept here: it gets a receipt that says so (`UnfitContractError`).
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from tipstaff.errors import InputError, PlaneError
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal
from tipstaff.keys import PublicKey
from tipstaff.model.contract import Contract
from tipstaff.model.noun import VERSION_CONTRACT
from tipstaff.model.tiers import rank
from tipstaff.model.times import milliseconds
from tipstaff.runner.client import Claim
from tipstaff.session.plan import UnfitContractError, is_captured

Json = dict[str, Any]
FORGED: Final = "contract_forged"  # by the key that is pinned, it is not the plane's
OURS_ANYWAY: Final = frozenset({"HOME", "PATH"})  # whoever inherits these has ours, not the host's


class ForeignContractError(PlaneError):
    """A contract that is not our plane's, or not for this runner and now."""

    def __init__(self, message: str, code: str = "contract_foreign") -> None:
        super().__init__(message, status=403, code=code)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which runner this is."""

    plane_key: PublicKey
    runner_id: str
    runner_key_id: str
    pool: str
    proves: bool = False  # whether the plane signs for claims and answers, so that one without is not its own


def refuse_foreign(claim: Claim, place: Place, now: int) -> None:
    """Refuse what is not our plane's contract for this runner and this moment."""
    findings = Findings()
    seal = Seal(claim.contract, "contract", ("plane", "org"), findings)
    seal.check(2, "plane", place.plane_key)
    if findings.sorted():
        raise ForeignContractError("the contract is not signed by our plane", FORGED)
    contract = _typed(claim.contract)
    if contract.issuer.key_id != place.plane_key.key_id or contract.version != VERSION_CONTRACT:
        raise ForeignContractError("the contract names another issuer, or is of another version")
    if contract.run_id != claim.run_id:
        raise ForeignContractError("the contract is another run's")
    if contract.runner.pool != place.pool:
        raise ForeignContractError(f"the contract is for the pool {contract.runner.pool[:64]!r}", "other_pool")
    _refuse_other_chain(claim, place, seal.digest)
    if now > _milliseconds(contract.expires_at):
        raise ForeignContractError(f"the contract of {claim.run_id[:64]} has expired", "contract_expired")
    if claim.secrets.keys() != {secret.name for secret in contract.secrets}:
        raise ForeignContractError("the secrets that came are not those that the contract names", "secrets_differ")


def _typed(contract: Json) -> Contract:
    try:
        return typed(contract, Contract)
    except InputError as error:
        raise ForeignContractError(f"the contract cannot be read: {error.message}") from error


def _milliseconds(text: str) -> int:
    try:
        return milliseconds(text)
    except ValueError as error:
        raise ForeignContractError("the contract's expiry is no time") from error


def _refuse_other_chain(claim: Claim, place: Place, digest: str) -> None:
    findings = Findings()
    chain = Chain(findings)
    for link in claim.events:
        chain.add(link)
    if problems := [problem for problem in findings.sorted() if problem.certain]:
        raise ForeignContractError(f"the events of the claim are not in order: {problems[0]}")
    if chain.genesis != digest:
        raise ForeignContractError("the events of the claim belong to another contract")
    claimed = chain.claimed
    if claimed is None or (claimed.runner_id, claimed.runner_key_id) != (place.runner_id, place.runner_key_id):
        raise ForeignContractError("the events do not say that this runner claimed the run")


def refuse_unfit(view: Json, tiers: Collection[str], inheritable: Collection[str] = ()) -> None:
    """Refuse what cannot be kept on a host that shares nothing with whoever asked."""
    minimum, tier = view.get("minimumTier"), view["tier"]
    if tier not in tiers:
        raise _unfit(f"this runner has no tier {str(tier)[:64]!r}, only {', '.join(sorted(tiers))}")
    if minimum is not None and not _at_least(tier, minimum):
        raise _unfit(f"the tier {tier!r} is below the contract's minimum {str(minimum)[:64]!r}")
    if view["network"].get("defaultDeny", True) is not True:
        raise _unfit("this runner lets no run have an open network: defaultDeny must be true")
    _refuse_folders(view)
    inherited = set(_environment(view).get("inherit") or ()) - OURS_ANYWAY - set(inheritable)
    if inherited:
        names = ", ".join(sorted(map(str, inherited)))[:200]
        raise _unfit(f"this runner lets no run inherit variables of its host: {names}")


def _at_least(tier: str, minimum: Any) -> bool:
    ranks = rank(tier), rank(minimum) if type(minimum) is str else None
    return ranks[0] is not None and ranks[1] is not None and ranks[0] >= ranks[1]


def _refuse_folders(view: Json) -> None:
    files = view.get("files") or {}
    if not isinstance(files, Mapping):
        raise _unfit("the contract's files cannot be read")
    live = files.get("workspace") and not is_captured(view)
    if live or files.get("readable") or files.get("inPlace"):
        raise _unfit("this runner shares no folders of its host: have the workspace captured instead")


def _environment(view: Json) -> Mapping[str, Any]:
    execution = view.get("execution")
    found = execution.get("env") if isinstance(execution, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _unfit(message: str) -> UnfitContractError:
    return UnfitContractError("capability_mismatch", message)
