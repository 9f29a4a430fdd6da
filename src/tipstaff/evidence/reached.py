"""What a run reached, held against its contract: was it named (check 20), and was somebody asked who had to be (24).

The rules that speak for a place are those whose host is the most specific of the ones that cover it, as for the gate.
Where the event names one of them, that one counts; where all that are left say `ask`, the event carries an approval of
exactly this place. An event that tells no port is taken to mean any. Knows no policy: only what the contract says.
"""

from typing import Final

from tipstaff.evidence.approval import ApprovalCheck
from tipstaff.evidence.chain import Chain, Way
from tipstaff.evidence.report import Findings
from tipstaff.model.contract import Contract, ContractRule
from tipstaff.model.records import Place

ANY: Final = "*"
LONGEST_HOST: Final = 255


def check_hosts(contract: Contract, chain: Chain, findings: Findings) -> None:
    """Check 20 for hosts: what was reached is named."""
    if not contract.network.default_deny:
        return
    patterns = {
        pattern.lower() for pattern in (*contract.network.allow_hosts, *(rule.host for rule in _rules(contract)))
    }
    for host, decision in sorted(chain.network):
        if decision == "allowed" and ANY not in patterns and not _is_among(host.lower(), patterns):
            findings.add(20, f"the host {host[:64]!r} was reached without being in the contract", "events")


def check_questions(contract: Contract, chain: Chain, approvals: ApprovalCheck) -> list[str]:
    """Check 24 for places that somebody had to be asked for; gives what a reader should know besides."""
    rules = _rules(contract)
    if not any(rule.ask is True for rule in rules):
        return []
    notes: list[str] = []
    for way, (seq, ts, approval) in chain.reached.items():
        if _had_to_ask(rules, way):
            wanted = Place(host=way.host, port=way.port, rule=way.rule)
            notes.extend(approvals.check_question(approval, wanted, ts, f"events[{seq}]"))
    return notes


def _rules(contract: Contract) -> list[ContractRule]:
    return (contract.egress.rules if contract.egress else None) or []


def _had_to_ask(rules: list[ContractRule], way: Way) -> bool:
    speaking = _speaking(rules, way)
    named = [rule for rule in speaking if way.rule and way.rule in (rule.rule, rule.host)]
    return bool(speaking) and all(rule.ask is True for rule in named or speaking)


def _speaking(rules: list[ContractRule], way: Way) -> list[ContractRule]:
    host = way.host.lower()
    fitting = [rule for rule in rules if _covers(rule.host.lower(), host) and _has_port(rule, way.port)]
    best = max((_specificity(rule.host) for rule in fitting), default=0)
    return [rule for rule in fitting if _specificity(rule.host) == best]


def _has_port(rule: ContractRule, port: int) -> bool:
    return not rule.ports or not port or (type(rule.ports) is list and port in rule.ports)


def _covers(pattern: str, host: str) -> bool:
    return pattern == ANY or _is_among(host, {pattern})


def _specificity(pattern: str) -> int:
    if pattern == ANY:
        return 1
    return len(pattern) if pattern.startswith("*.") else 1000


def _is_among(host: str, patterns: set[str]) -> bool:
    """Say whether `host` is named: as it is, without its port, or by a suffix."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and host.count(":") == 1 else host
    # A longer one is no name of a host, and each of its dots would cost a copy of it.
    parents = (name[at:] for at, letter in enumerate(name) if letter == ".") if len(name) <= LONGEST_HOST else ()
    return host in patterns or name in patterns or any(f"*{suffix}" in patterns for suffix in parents)
