"""Are there enough approvals? Each requirement is counted by itself, over exactly this contract.

An approval counts for a requirement when it is over this contract's hash, not expired, sure enough, and by somebody
whom the requirement lists; the requester's own does not count where the requirement separates the two, and an agent's
never does. Ten approvals by one actor are one. Whether the signatures hold is checked before, by `evidence`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from tipstaff.model.decision import ASSURANCES, Requirement
from tipstaff.model.noun import Actor, Noun
from tipstaff.model.records import Approval
from tipstaff.policy.patterns import any_of


class Shortfall(Noun):
    """A requirement that is not met yet, and why the approvals at hand do not meet it."""

    requirement: Requirement
    have: int
    refused: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Say in one sentence what is missing."""
        who = " or ".join(self.requirement.approvers)
        short = f"{self.requirement.rule} needs {self.requirement.quorum} approval(s) by {who} and has {self.have}"
        return f"{short} ({'; '.join(self.refused)})" if self.refused else short


def approved(
    requirements: Iterable[Requirement],
    approvals: Iterable[Approval],
    *,
    requested_by: Actor,
    contract_hash: str,
    now: str,
) -> tuple[Shortfall, ...]:
    """List the requirements that `approvals` do not meet; none: the contract may be claimed."""
    given = tuple(approvals)
    found = []
    for requirement in requirements:
        faults = {
            approval: _fault(requirement, approval, requested_by, contract_hash, now)
            for approval in dict.fromkeys(given)
        }
        actors = {approval.actor.id for approval, fault in faults.items() if fault is None}
        if len(actors) < requirement.quorum:
            refused = tuple(sorted({fault for fault in faults.values() if fault is not None}))
            found.append(Shortfall(requirement=requirement, have=len(actors), refused=refused))
    return tuple(found)


def _fault(
    requirement: Requirement, approval: Approval, requested_by: Actor, contract_hash: str, now: str
) -> str | None:
    """Say why `approval` does not count for `requirement`, or None when it does."""
    who = repr(approval.actor.id)
    if approval.contract_hash != contract_hash:
        return f"{who} approved another contract"
    if not any_of(requirement.approvers)(approval.actor.id):
        return f"{who} is not an approver"
    if approval.actor.kind == "agent":
        return f"{who} is an agent"
    if requirement.separate and approval.actor.id == requested_by.id:
        return f"{who} asked for it"
    if ASSURANCES.index(approval.assurance) < ASSURANCES.index(requirement.assurance):
        return f"{who} approved as {approval.assurance}, and {requirement.assurance} is demanded"
    return _expiry_fault(requirement, approval, now)


def _expiry_fault(requirement: Requirement, approval: Approval, now: str) -> str | None:
    who = repr(approval.actor.id)
    try:
        left = datetime.fromisoformat(approval.expires_at) - datetime.fromisoformat(now)
    except ValueError:  # the 31st of February has the right shape
        return f"the approval by {who} expires on a day that does not exist"
    if left <= timedelta(0):
        return f"the approval by {who} has expired"
    # It was given before now, so one that reaches further than this was made to last longer than the rule allows.
    if left > timedelta(seconds=requirement.expires_seconds):
        return f"the approval by {who} would last longer than the rule allows"
    return None
