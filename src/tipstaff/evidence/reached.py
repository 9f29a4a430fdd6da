"""What a run reached, held against its contract: was it permitted (check 20), was somebody asked who had to be (24).

The rules that speak for a place are those whose host is the most specific of the ones that cover it and have its port,
as for the gate. Where the event names one of them, that one counts. A contract without rules is read as its plain
hosts, on any port. What is not told does not help: no port is none of a rule's, no depth is not looked inside.
Knows no policy: only what the contract says. Paths are in no event, and cannot be judged.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tipstaff.evidence.approval import ApprovalCheck
from tipstaff.evidence.chain import Chain, Way
from tipstaff.evidence.report import Findings
from tipstaff.model.contract import Contract, ContractRule
from tipstaff.model.records import Place

ANY: Final = "*"
LONGEST_HOST: Final = 255
LOOKED_INSIDE: Final = frozenset({"http", "inspected"})  # depths
_with_port = re.compile(r"([^:]*):([0-9]{1,5})\Z").match


def check_places(contract: Contract, chain: Chain, findings: Findings) -> None:
    """Check 20 for places: what was reached is permitted, in the way it was reached; what was refused, was."""
    terms = _Terms(contract)
    for way, (seq, _, _) in chain.reached.items():
        if fault := terms.fault(way):
            findings.add(20, f"the host {way.host[:64]!r} was reached {fault}", f"events[{seq}]")
    for host, seq in chain.refused_with_bytes.items():
        findings.add(20, f"the host {host[:64]!r} was refused, and yet bytes went out", f"events[{seq}]")


def check_questions(contract: Contract, chain: Chain, approvals: ApprovalCheck) -> list[str]:
    """Check 24 for places that somebody had to be asked for; gives what a reader should know besides."""
    terms = _Terms(contract)
    notes: list[str] = []
    for way, (seq, ts, approval) in chain.reached.items() if terms.asks else ():
        if terms.had_to_ask(way):
            wanted = Place(host=way.host, port=way.port, rule=way.rule)
            notes.extend(approvals.check_question(approval, wanted, ts, f"events[{seq}]"))
    return notes


class _Rule(NamedTuple):
    """A rule, ready to be asked; None for any port or method."""

    names: tuple[Any, str]
    ports: frozenset[Any] | None
    methods: frozenset[Any] | None
    looks_inside: bool
    asks: bool

    def has_port(self, port: int) -> bool:
        """Say whether it has this port; 0 stands for one that was not told."""
        return self.ports is None or not port or port in self.ports

    def lets(self, way: Way) -> bool:
        """Say whether it can have let this through: where it looks inside, that was done, and it has the method."""
        if way.depth not in LOOKED_INSIDE:
            return not self.looks_inside
        return self.methods is None or not way.method or way.method in self.methods


class _Terms:
    """What a contract says about places; rules are found by their host, since there may be many of both."""

    def __init__(self, contract: Contract) -> None:
        said = contract.egress.rules if contract.egress else None
        self._plain = said is None
        self._open = not contract.network.default_deny
        self._deny = _patterns(contract.egress.deny if contract.egress else None)
        self._rules: dict[str, list[_Rule]] = defaultdict(list)
        for rule in _plain(contract.network.allow_hosts) if said is None else said:
            self._rules[rule.host.lower()].append(_read(rule))
        self.asks = any(rule.asks for rules in self._rules.values() for rule in rules)

    def fault(self, way: Way) -> str:
        """Say what speaks against having reached a place in this way, or nothing."""
        port = _port(way)
        if self._denies(way.host):
            return "although the contract denies it"
        if not port and any(rule.ports is not None for rules in self._covering(way) for rule in rules):
            return "on a port that is not told, and the contract's rules for it have ports"
        counting = self._counting(way)
        if not counting:
            return "" if self._open else f"without being in the contract{f' (port {port})' if port else ''}"
        if any(rule.lets(way) for rule in counting):
            return ""
        if way.depth not in LOOKED_INSIDE:
            return f"without being looked into (depth {way.depth[:64]!r}), as its rule demands"
        return f"by the method {way.method[:64]!r}, which its rule does not have"

    def had_to_ask(self, way: Way) -> bool:
        """Say whether every rule that can have let this through asks first."""
        counting = self._counting(way)
        letting = [rule for rule in counting if rule.lets(way)] or counting
        return bool(letting) and all(rule.asks for rule in letting)

    def _denies(self, host: str) -> bool:
        name = _name(host.lower()).removesuffix(".")
        # What is too long for a host has no suffixes here, and must not get around a suffix that is denied.
        return bool(self._deny) and (len(name) > LONGEST_HOST or not self._deny.isdisjoint(_covering(name)))

    def _counting(self, way: Way) -> list[_Rule]:
        """List the rules that speak for a place, and of those only the ones that the event names, if it names any."""
        port = _port(way)
        fitting = ([rule for rule in rules if rule.has_port(port)] for rules in self._covering(way))
        speaking: list[_Rule] = next(filter(None, fitting), [])
        return [rule for rule in speaking if way.rule and way.rule in rule.names] or speaking

    def _covering(self, way: Way) -> Iterator[list[_Rule]]:
        """Give the rules that cover a host, the most specific first."""
        host = way.host.lower()
        patterns: Iterable[str] = _covering(host)
        if host.startswith("*") and not self._plain:  # no host, but what a rule calls those that were summed up
            patterns = (host,) if way.summed else ()
        return (self._rules[pattern] for pattern in patterns if pattern in self._rules)


def _covering(host: str) -> Iterator[str]:
    """Spell the patterns that cover a host, the most specific first: as it is, without its port, suffixes, any."""
    name = _name(host)
    yield from dict.fromkeys((host, name))
    # A longer one is no name of a host, and each of its dots would cost a copy of it.
    if len(name) <= LONGEST_HOST:
        yield from (f"*{name[at:]}" for at, letter in enumerate(name) if letter == ".")
    yield ANY


def _name(host: str) -> str:
    found = _with_port(host)
    return found[1] if found else host


def _port(way: Way) -> int:
    """Give the port, which an event may tell beside the host or in it; 0 where it tells none, or two."""
    found = _with_port(way.host)
    inside = int(found[2]) if found else 0
    return 0 if way.port and inside and way.port != inside else way.port or inside


def _plain(hosts: Iterable[str]) -> Iterator[ContractRule]:
    return (ContractRule(host=host) for host in hosts)


def _read(rule: ContractRule) -> _Rule:
    ports, methods = _members(rule.ports), _members(rule.methods)
    inside = _is_said(rule.inspect) or methods is not None or _members(rule.paths) is not None
    return _Rule((rule.rule, rule.host), ports, methods, looks_inside=inside, asks=_is_said(rule.ask))


def _members(value: Any) -> frozenset[Any] | None:
    """Read a list of ports or names: None where it is missing or empty, which means any; no list has no members."""
    if value is None or value == []:
        return None
    return frozenset(one for one in value if type(one) in (str, int, float)) if type(value) is list else frozenset()


def _is_said(value: Any) -> bool:
    return value is not None and value is not False


def _patterns(value: Any) -> frozenset[str]:
    """Read what is denied; what is no list of hosts denies everything."""
    hosts = [] if value is None else value
    if type(hosts) is not list or not all(type(host) is str for host in hosts):
        return frozenset({ANY})
    return frozenset(host.lower() for host in hosts)
