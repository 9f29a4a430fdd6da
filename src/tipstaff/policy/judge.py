"""The judgement of one request: every check is made, and the answers are put together.

1. The findings of all checks and all matching rules are collected; none stops another.
2. One denial denies; else one question asks; else a matching rule allows; else the default denies.
3. Reasons are sorted, so that the order of the file never shows. A denial carries every reason at once.
Pure and total: whatever stands in the strings of a request that parsed, there is a decision.
"""

from itertools import chain
from typing import Final

import msgspec

from tipstaff.errors import CanonicalError
from tipstaff.model.decision import Decision, Effect, Effective, Requirement
from tipstaff.model.facts import Facts
from tipstaff.model.network import Egress, Network
from tipstaff.model.noun import NO_CONTENT, noun_digest
from tipstaff.model.request import Files, Request
from tipstaff.policy.case import Case, Finding, Findings, open_case, shown
from tipstaff.policy.checks import environment, files, limits, network, requester, secrets, tiers
from tipstaff.policy.compiled import Policy
from tipstaff.policy.remedy import Remedy
from tipstaff.policy.rules import Rule
from tipstaff.policy.suggest import allowing_rule, excepting

NO_FACTS: Final = Facts()
MILLISECONDS: Final = 1000
MOST_WISHES: Final = 1024  # of one sort; each is compared with each grant, so a long list costs more than to write it


class Judgement:
    """A decision, with the findings behind it; remedies are worked out when they are asked for."""

    __slots__ = ("_findings", "decision")

    def __init__(self, decision: Decision, findings: tuple[Finding, ...]) -> None:
        self.decision = decision
        self._findings = findings

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """For each reason of a denial or a question, the edits that would remove it; none: no policy can."""
        return tuple(
            Remedy(finding.reason, finding.cure() if finding.cure else ())
            for finding in self._findings
            if finding.effect == self.decision.effect != "allow"
        )


def judge(request: Request, policy: Policy, facts: Facts = NO_FACTS) -> Judgement:
    """Judge `request` by `policy`."""
    findings = Findings()
    request_hash = _hash(request, findings)
    case = open_case(_bounded(request, findings), policy, facts)
    requester.check(case, findings)
    matching = _check_rules(case, findings)
    effective = _effective(case, findings, matching)
    effect, led = _outcome(findings)
    led.sort(key=_in_order)
    reasons = tuple(dict.fromkeys(finding.reason for finding in led))
    decision = Decision(
        effect=effect,
        request_hash=request_hash,
        policy_hash=policy.hash,
        policy=policy.name,
        rules=tuple(dict.fromkeys(reason.rule for reason in reasons)),
        reasons=reasons,
        requirements=tuple(sorted(findings.requirements, key=lambda one: one.rule)) if effect == "ask" else (),
        effective=None if effect == "deny" else effective,
    )
    return Judgement(decision, tuple(led))


def _in_order(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message


def _hash(request: Request, findings: Findings) -> str:
    """Hash the request; what has no canonical form cannot be recorded, hence not run."""
    try:
        return noun_digest(request)
    except (CanonicalError, ValueError, TypeError, OverflowError, RecursionError):
        findings.deny(
            "builtin.request", "the request has no canonical form: it holds text or numbers that JSON cannot carry"
        )
        return NO_CONTENT


def _bounded(request: Request, findings: Findings) -> Request:
    """Refuse more wishes than anybody has, and take them away, so that the rest is judged in a moment."""
    ways = [(rule.ports, rule.methods, rule.paths, rule.addresses) for rule in request.egress.rules]
    lists = (request.network.allow_hosts, request.secret_names, request.files.readable, ways, *chain(*ways))
    if max(map(len, lists)) <= MOST_WISHES:
        return request
    findings.deny("builtin.request", f"the request lists more than {MOST_WISHES} hosts, secrets, folders or the like")
    return msgspec.structs.replace(request, network=Network(), egress=Egress(), secret_names=(), files=Files())


def _check_rules(case: Case, findings: Findings) -> list[Rule]:
    matching = case.policy.tables.rules.matching(case)
    for rule in matching:
        source = rule.source
        if source.effect == "allow":
            findings.allowed.append(Finding(rule.id, "allow", source.reason or "this rule allows it"))
        elif source.effect == "deny":
            findings.deny(rule.id, source.reason or "this rule forbids it", excepting(case, rule))
        else:
            findings.asked.append(
                Finding(rule.id, "ask", source.reason or "this rule asks first", excepting(case, rule))
            )
            findings.requirements.append(_requirement(rule))
    if not matching:
        findings.deny("builtin.default-deny", f"no rule speaks of {_what(case)}", allowing_rule(case))
    return matching


def _requirement(rule: Rule) -> Requirement:
    approvals = rule.source.approvals
    if approvals is None:  # `validate` refuses such a file; were it to slip through, nobody could approve
        return Requirement(rule=rule.id, approvers=("",))
    return Requirement(
        rule=rule.id,
        approvers=approvals.approvers,
        quorum=approvals.quorum,
        separate=approvals.separate,
        assurance=approvals.assurance,
        expires_seconds=max(1, approvals.expires // MILLISECONDS),
    )


def _what(case: Case) -> str:
    subject = shown(case.command) if case.command is not None else f"an execution of kind {case.kind}"
    return f"{subject} for {shown(case.principal)}"


def _effective(case: Case, findings: Findings, matching: list[Rule]) -> Effective:
    """Make every remaining check and put together what they grant."""
    leases = secrets.check(case, findings)
    reach = network.inspected(network.check(case, findings), leases, findings)
    folders = files.check(case, findings)
    bounds = limits.check(case, findings, matching, leases)
    sandbox = tiers.check(case, findings, matching, hosts=bool(reach.egress))
    tables = case.policy.tables
    return Effective(
        tier=sandbox.tier,
        minimum_tier=sandbox.minimum,
        limits=bounds.limits,
        budget=bounds.budget,
        reply=bounds.reply,
        default_deny=reach.default_deny,
        egress=reach.egress,
        denied_hosts=tables.denied_hosts,
        secrets=leases,
        inherit=environment.check(case, findings),
        workspace=folders.workspace,
        in_place=folders.in_place,
        readable=folders.readable,
        disclosure=case.request.disclosure,
        withheld_classes=tuple(sorted({name for name, pools in tables.withheld if not pools(case.pool)})),
        retention=tables.retention,
        restricted=tables.restricted_names,
        mask=tables.mask,
        fallback=sandbox.fallback,
        verdicts=sandbox.verdicts,
        demands=sandbox.demands,
    )


def _outcome(findings: Findings) -> tuple[Effect, list[Finding]]:
    if findings.denied:
        return "deny", findings.denied
    if findings.asked:
        return "ask", [*findings.asked, *findings.notes]
    return "allow", [*findings.allowed, *findings.notes]
