"""What would a tier make of this policy? Clause by clause, before anything is run.

`policy check --tier` shows it: a clause that the policy needs is enforced, tolerated as less, or refused for every run
that has it. Says nothing about one request; `decide` does.
"""

from typing import Literal

from tipstaff.model.noun import Noun
from tipstaff.model.tiers import CLAUSES, STRENGTHS, Clause, Strength, TierReport, Verdict
from tipstaff.policy.checks.tiers import ALWAYS, MASKING
from tipstaff.policy.compiled import Policy

Answer = Literal["holds", "tolerated", "refused", "not-needed"]


class ClauseReport(Noun):
    """What one tier does for one clause of one policy."""

    clause: Clause
    answer: Answer
    strength: Strength
    by: str = ""

    @property
    def message(self) -> str:
        """Say it in one sentence."""
        how = f" ({self.by})" if self.by else ""
        return {
            "holds": f"{self.clause}: enforced{how}",
            "tolerated": f"{self.clause}: {self.strength}, which the policy tolerates{how}",
            "refused": f"{self.clause}: {self.strength}, so runs that need it are refused{how}",
            "not-needed": f"{self.clause}: not needed by this policy",
        }[self.answer]


def enforceable(policy: Policy, report: TierReport) -> tuple[ClauseReport, ...]:
    """Give the verdict of the tier on every clause, against what `policy` needs and tolerates."""
    said = {verdict.clause: verdict for verdict in report.verdicts}
    needed = _needed(policy)
    return tuple(
        _judged(policy, report.name, said.get(clause) or _silent(clause), needed=clause in needed) for clause in CLAUSES
    )


def _silent(clause: Clause) -> Verdict:
    return Verdict(clause=clause, strength="unenforceable", by="the tier does not say")


def _needed(policy: Policy) -> set[str]:
    """List the clauses that some request under `policy` can have."""
    source = policy.document
    needed = {*ALWAYS}
    needed |= {"hosts"} if source.network.hosts else set()
    needed |= {"secrets"} if source.secrets else set()
    return needed | ({"restricted"} if source.restriction.names else set())


def _judged(policy: Policy, tier: str, verdict: Verdict, *, needed: bool) -> ClauseReport:
    if verdict.clause == "restricted" and policy.document.restriction.mask and tier in MASKING:
        verdict = Verdict(clause="restricted", strength="enforced", by="masked inside the sandbox")
    answer = _answer(policy, verdict) if needed else "not-needed"
    return ClauseReport(clause=verdict.clause, answer=answer, strength=verdict.strength, by=verdict.by)


def _answer(policy: Policy, verdict: Verdict) -> Answer:
    if verdict.strength == "enforced":
        return "holds"
    tolerated = policy.tables.tolerated[verdict.clause] or "enforced"
    return "tolerated" if STRENGTHS.index(verdict.strength) >= STRENGTHS.index(tolerated) else "refused"
