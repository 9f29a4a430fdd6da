"""Which sandbox: the tier that is asked for, raised to the minimum, and held to what this host can enforce.

With no facts about the host only ranks are compared, and the runner asks its own tiers. A tier that is missing is a
denial unless the policy names a fallback; a clause that is less than enforced is a denial unless the policy
tolerates it.
"""

from typing import NamedTuple

from tipstaff.model.decision import Demand
from tipstaff.model.execution import Python
from tipstaff.model.tiers import CLAUSES, OURS, STRENGTHS, Clause, Strength, TierReport, Verdict, rank
from tipstaff.policy.case import Case, Cure, Findings, shown
from tipstaff.policy.remedy import assigned
from tipstaff.policy.rules import Rule

AUTO = "auto"
ALWAYS = ("network", "memory", "cpu", "pids", "disk", "time", "output", "files")
MASKING = ("bwrap", "hermetic", "gvisor", "microvm")  # tiers that build the root themselves and can leave a program out


class Granted(NamedTuple):
    """The sandbox of a run, and what it is known to enforce."""

    tier: str
    minimum: str
    fallback: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    demands: tuple[Demand, ...] = ()


class Wanted(NamedTuple):
    """The demands on the tier before the host is looked at."""

    tier: str
    minimum: str
    clauses: frozenset[str]


def check(case: Case, findings: Findings, rules: list[Rule], *, hosts: bool) -> Granted:
    """Judge the tier; `hosts` says whether there is a way out that must be held."""
    return _granted(case, findings, rules, hosts=hosts)._replace(demands=_demands(case, in_play(case, hosts=hosts)))


def _granted(case: Case, findings: Findings, rules: list[Rule], *, hosts: bool) -> Granted:
    minimum = minimum_of(case, rules)
    wanted = Wanted(_tier(case, findings, minimum), minimum, in_play(case, hosts=hosts))
    fallback = case.policy.document.tiers.fallback
    if fallback is not None and _ranked(fallback) < _ranked(minimum):
        fallback = None  # a rule demands more than the file's own minimum
    if not case.facts.tiers or rank(wanted.tier) is None:
        return Granted(wanted.tier, minimum, fallback)
    return _on_this_host(case, findings, wanted, fallback)


def minimum_of(case: Case, rules: list[Rule]) -> str:
    """Give the strongest of the policy's minimum and those of the matching rules."""
    demands = [case.policy.document.tiers.minimum, *(rule.source.tier for rule in rules if rule.source.tier)]
    return max(demands, key=lambda tier: (_ranked(tier), tier))


def in_play(case: Case, *, hosts: bool) -> frozenset[str]:
    """List the clauses that this run's contract will have."""
    clauses = [*ALWAYS]
    clauses += ["hosts"] if hosts else []
    clauses += ["secrets"] if case.secrets else []
    clauses += ["restricted"] if case.policy.tables.restricted else []
    return frozenset(clauses)


def _demands(case: Case, clauses: frozenset[str]) -> tuple[Demand, ...]:
    """Say how well each clause must hold: whatever the host promised, the sandbox is asked again once it stands."""
    return tuple(Demand(clause=clause, strength=_tolerated(case, clause)) for clause in CLAUSES if clause in clauses)


def _tolerated(case: Case, clause: Clause) -> Strength:
    return case.policy.tables.tolerated[clause] or "enforced"


def _ranked(tier: str) -> int:
    found = rank(tier)
    return -1 if found is None else found


def _tier(case: Case, findings: Findings, minimum: str) -> str:
    """Give the tier that is asked for, raised to the minimum."""
    asked = case.request.isolation or case.policy.document.tiers.default
    if asked == AUTO:
        return _automatic(case, minimum)
    if asked not in OURS:
        findings.deny("builtin.tier", f"{shown(asked)} is not a tier; there are {', '.join(OURS)} and {AUTO}")
        return asked
    if _ranked(asked) >= _ranked(minimum):
        return asked
    raised = _runnable(case, minimum)
    findings.note("tiers.minimum", f"the tier {asked} is raised to {raised}: the minimum is {minimum}")
    return raised


def _runnable(case: Case, minimum: str) -> str:
    """Give the minimum itself, or the next tier above it where the minimum runs only Python and this is none."""
    return "gvisor" if minimum == "hermetic" and not isinstance(case.execution, Python) else minimum


def _automatic(case: Case, minimum: str) -> str:
    """Give the least tier that enforces every clause here; where the host is not known, the minimum."""
    candidates = sorted(
        (report for report in case.facts.tiers if _is_candidate(case, report, minimum)),
        key=lambda report: (_ranked(report.name), report.name),
    )
    clauses = in_play(case, hosts=bool(case.hosts))
    for report in candidates:
        if all(verdict.strength == "enforced" for verdict in verdicts_of(case, report, clauses)):
            return report.name
    # None enforces everything: take the least, so that the findings say what it lacks.
    return candidates[0].name if candidates else _runnable(case, minimum)


def _is_candidate(case: Case, report: TierReport, minimum: str) -> bool:
    runs = report.name != "hermetic" or isinstance(case.execution, Python)
    return report.available and runs and report.name in OURS and _ranked(report.name) >= _ranked(minimum)


def _on_this_host(case: Case, findings: Findings, wanted: Wanted, fallback: str | None) -> Granted:
    reports = {report.name: report for report in case.facts.tiers}
    report = reports.get(wanted.tier) or TierReport(name=wanted.tier, available=False, missing="it is not installed")
    if not report.available:
        instead = reports.get(fallback) if fallback else None
        if instead is None or not instead.available:
            message = f"the tier {wanted.tier} is not available on this host: {report.missing or 'no reason given'}"
            findings.deny("builtin.tier", message, _cure_missing(case, wanted, reports))
            return Granted(wanted.tier, wanted.minimum, fallback)
        findings.note("tiers.fallback", f"the tier {wanted.tier} is not available here: {instead.name} is used instead")
        report = instead
    verdicts = verdicts_of(case, report, wanted.clauses)
    _check_verdicts(case, findings, report.name, verdicts)
    return Granted(report.name, wanted.minimum, fallback, verdicts)


def verdicts_of(case: Case, report: TierReport, clauses: frozenset[str]) -> tuple[Verdict, ...]:
    """List what the tier says of each clause in play; silence is not enforcement."""
    said = {verdict.clause: verdict for verdict in report.verdicts}
    found = []
    for clause in CLAUSES:
        if clause in clauses:
            verdict = said.get(clause) or Verdict(clause=clause, strength="unenforceable", by="the tier does not say")
            if clause == "network" and "hosts" in clauses:
                verdict = _weaker(verdict, said.get("hosts", verdict))
            found.append(_restricted(case, report.name, verdict) if clause == "restricted" else verdict)
    return tuple(found)


def _weaker(network: Verdict, hosts: Verdict) -> Verdict:
    """Say how well a network with some hosts in it is kept: no better than it is kept to those hosts."""
    if STRENGTHS.index(hosts.strength) >= STRENGTHS.index(network.strength):
        return network
    return Verdict(clause="network", strength=hosts.strength, by=hosts.by)


def _restricted(case: Case, tier: str, verdict: Verdict) -> Verdict:
    """Say how well names are kept from running: taken out of the sandbox, or looked for in the request only."""
    if case.policy.document.restriction.mask and tier in MASKING:
        return Verdict(clause="restricted", strength="enforced", by="masked inside the sandbox")
    if verdict.strength != "enforced":
        return verdict
    return Verdict(clause="restricted", strength="weaker", by="what a program starts by itself is not seen")


def _check_verdicts(case: Case, findings: Findings, tier: str, verdicts: tuple[Verdict, ...]) -> None:
    for verdict in verdicts:
        if STRENGTHS.index(verdict.strength) < STRENGTHS.index(_tolerated(case, verdict.clause)):
            how = f" ({verdict.by})" if verdict.by else ""
            message = f"on this host {tier} holds the clause {verdict.clause} only as {verdict.strength}{how}"
            findings.deny("tiers.tolerate", message, _cure_verdict(case, verdict))


def _cure_verdict(case: Case, verdict: Verdict) -> Cure:
    return lambda: (assigned(case.policy.value, ("tiers", "tolerate", verdict.clause), verdict.strength),)


def _cure_missing(case: Case, wanted: Wanted, reports: dict[str, TierReport]) -> Cure | None:
    """Name as fallback the least tier that is here and strong enough, if there is one."""
    here = sorted(
        (report.name for report in reports.values() if _is_candidate(case, report, wanted.minimum)),
        key=lambda name: (_ranked(name), name),
    )
    return (lambda: (assigned(case.policy.value, ("tiers", "fallback"), here[0]),)) if here else None
