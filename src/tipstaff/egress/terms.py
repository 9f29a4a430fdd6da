"""The terms of one run's way out, read from its signed contract, and the one decision about each attempt. Pure.

1. A host that has no one spelling is refused; what `deny` covers is refused, whatever the rules say.
2. Of the rules that cover the host and have the port, those with the most specific host speak: a host before
   `*.suffix`, a longer suffix before a shorter one, `*` last. Among them an inspected one comes before another, one
   that asks nobody before one that asks, then the contract's order. A request needs one of them that has its method
   and its path: the first such.
3. No rule: refused, unless the contract leaves the network open (`defaultDeny: false`). No rules at all allow nothing.

A name is judged before anybody resolves it. Which addresses it may lead to is the business of `addresses`.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tipstaff.egress.advice import DENIED, spell_place, to_allow
from tipstaff.egress.paths import normal_path
from tipstaff.errors import InputError
from tipstaff.model.network import EgressRule
from tipstaff.policy.case import shown
from tipstaff.policy.hosts import ANY, covers, normal_address, normal_host, normal_pattern
from tipstaff.policy.patterns import Match, any_of


class Terms(msgspec.Struct, frozen=True):
    """What one run may reach, every host in its one spelling."""

    rules: tuple[EgressRule, ...] = ()
    deny: tuple[str, ...] = ()
    default_deny: bool = True


class Verdict(NamedTuple):
    """What was decided about one attempt; `rule` is None where an open network allowed it, or nothing did."""

    allowed: bool
    rule: EgressRule | None = None
    host: str = ""  # in its one spelling, where it has one
    reason: str = ""
    advice: str = ""  # what would allow it


def terms_of(contract: Mapping[str, Any]) -> Terms:
    """Read the terms of a contract; InputError when they cannot be understood whole."""
    try:
        network, egress = contract["network"], contract.get("egress")
        egress = {} if egress is None else egress
        said = egress.get("rules")
        rules = _plain(network["allowHosts"]) if said is None else msgspec.convert(said, tuple[EgressRule, ...])
        return Terms(
            rules=tuple(_normal(rule) for rule in rules),
            deny=tuple(normal_pattern(host) for host in msgspec.convert(egress.get("deny", ()), tuple[str, ...])),
            default_deny=msgspec.convert(network.get("defaultDeny", True), bool),
        )
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as fault:
        raise InputError(f"the contract does not say what may be reached: {fault}") from fault


def judge(terms: Terms, host: str, port: int) -> Verdict:
    """Decide about one host and port, as somebody spelled them: for CONNECT and for forwarded requests alike."""
    try:
        name = normal_host(host)
    except ValueError as fault:
        return Verdict(allowed=False, reason=f"this is not a host: {fault}")
    if any(covers(pattern, name) for pattern in terms.deny):
        return Verdict(allowed=False, host=name, reason=f"{name} is denied", advice=DENIED)
    if found := ways(terms, name, port):
        return Verdict(allowed=True, rule=found[0], host=name)
    if not terms.default_deny:
        return Verdict(allowed=True, host=name)
    reason = _unruled(terms, name, port)
    return Verdict(allowed=False, host=name, reason=reason, advice=to_allow(name, port))


def ways(terms: Terms, host: str, port: int) -> tuple[EgressRule, ...]:
    """List the rules that speak for a host and a port, the first of them first."""
    fitting = [rule for rule in terms.rules if covers(rule.host, host) and (not rule.ports or port in rule.ports)]
    best = max((_specificity(rule.host) for rule in fitting), default=0)
    speaking = [rule for rule in fitting if _specificity(rule.host) == best]
    return tuple(sorted(speaking, key=lambda rule: (not looks_inside(rule), rule.ask)))


def judge_request(rule: EgressRule | None, method: str, path: str) -> str:
    """Say why `rule` does not let a request through, or nothing; an open network has no rule and no reason."""
    if rule is None:
        return ""
    if rule.methods and method not in rule.methods:
        return f"the method {method} is not among {', '.join(rule.methods)}"
    if not rule.paths:
        return ""
    try:
        plain = normal_path(path)
    except ValueError as fault:
        return f"the path cannot be judged: {fault}"
    return "" if _among(rule.paths)(plain) else f"the path is not among {', '.join(rule.paths)}"


def looks_inside(rule: EgressRule | None) -> bool:
    """Say whether TLS must be terminated: methods and paths are seen in no other way."""
    return rule is not None and (rule.inspect or bool(rule.methods or rule.paths))


@lru_cache(maxsize=256)
def _among(paths: tuple[str, ...]) -> Match:
    return any_of(paths)


def _plain(hosts: Any) -> Iterable[EgressRule]:
    """Read a contract that has no rules: a host is any port and any use of it, tunnels included."""
    return (EgressRule(host=host, opaque=True) for host in msgspec.convert(hosts, tuple[str, ...]))


def _normal(rule: EgressRule) -> EgressRule:
    if rule.opaque and looks_inside(rule):
        raise ValueError(f"the connection to {shown(rule.host)} is either opaque or inspected")
    if any(bound is not None and bound < 1 for bound in (rule.max_bytes, rule.max_connections)):
        raise ValueError(f"a bound on bytes or connections to {shown(rule.host)} is at least 1")
    _among(rule.paths)  # a pattern that cannot be compiled must not wait for its first request
    addresses = tuple(normal_address(address) for address in rule.addresses)
    return msgspec.structs.replace(rule, host=normal_pattern(rule.host), addresses=addresses)


def _specificity(pattern: str) -> int:
    """Rank a host pattern: the longer suffix before the shorter, and a plain host before all."""
    if pattern == ANY:
        return 1
    return len(pattern) if pattern.startswith("*.") else 1000


def _unruled(terms: Terms, host: str, port: int) -> str:
    ports = sorted({port for rule in terms.rules if covers(rule.host, host) for port in rule.ports})
    if ports:
        return f"port {port} of {host} is not among {', '.join(map(str, ports))}"
    return f"no rule allows {spell_place(host, port)}"
