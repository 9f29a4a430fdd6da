"""What a run may reach: each way out that is asked for must be covered by a grant, and is narrowed to it.

A grant that covers the host gives the intersection: its ports, methods, paths and addresses, its byte and connection
bounds, its inspection. What no grant covers is a denial; `network.deny` wins over every grant. A way out that names no
port, from a grant that names none, is for the web's own two; a plain host, as older requests have it, is for any.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.model.decision import SecretLease
from tipstaff.model.network import EgressRule
from tipstaff.policy import hosts
from tipstaff.policy.bounds import least
from tipstaff.policy.case import Case, Cure, Findings, shown, wanted_egress
from tipstaff.policy.compiled import HostEntry
from tipstaff.policy.patterns import covers, escape, tokens
from tipstaff.policy.remedy import Edit, Remove, appended, assigned

WEB_PORTS: Final = (80, 443)
_METHOD: Final = re.compile(r"[A-Z]{1,32}\Z")


class Granted(NamedTuple):
    """The ways out that a run may have."""

    default_deny: bool = True
    egress: tuple[EgressRule, ...] = ()


class Wish(NamedTuple):
    """One way out that is asked for, in normal form."""

    host: str
    rule: EgressRule
    plain: bool
    addresses: tuple[str, ...]


def check(case: Case, findings: Findings) -> Granted:
    """Judge the hosts and the network's default."""
    request, wishes = case.request, _wishes(case, findings)
    if not case.execution.env.egress_proxy:
        if wishes or not request.network.default_deny:
            findings.deny("builtin.network", "egressProxy: false means no network, yet hosts are asked for")
        return Granted()
    if not request.network.default_deny and case.policy.document.network.default_deny:
        message = "an open network (defaultDeny: false) may not be asked for"
        findings.deny("network.default-deny", message, lambda: _cure_default(case))
    egress = [rule for wish in wishes for rule in _granted(case, findings, wish)]
    if len(egress) > 1:
        egress = sorted(set(egress), key=msgspec.json.encode)
    return Granted(request.network.default_deny, tuple(egress))


def _wishes(case: Case, findings: Findings) -> list[Wish]:
    wishes = []
    for rule, plain in wanted_egress(case.request):
        try:
            wishes.append(_wish(rule, plain=plain))
        except ValueError as fault:
            findings.deny("builtin.host", f"{shown(rule.host)}: {fault}")
    return wishes


def _wish(rule: EgressRule, *, plain: bool) -> Wish:
    """Bring `rule` into normal form; ValueError says what no gate could carry out."""
    if any(not _METHOD.match(method) for method in rule.methods):
        raise ValueError("a method is upper-case letters, such as GET")
    if any(not tokens(path).startswith("/") for path in rule.paths):
        raise ValueError("a path starts with `/`")
    if rule.opaque and (rule.methods or rule.paths):
        raise ValueError("nobody sees methods and paths in an opaque connection")
    # A negative bound has meant `no bound` to somebody before.
    if any(bound is not None and bound < 1 for bound in (rule.max_bytes, rule.max_connections)):
        raise ValueError("a bound on bytes or connections is at least 1")
    addresses = tuple(hosts.normal_address(address) for address in rule.addresses)
    return Wish(hosts.normal_pattern(rule.host), rule, plain, addresses)


def _granted(case: Case, findings: Findings, wish: Wish) -> list[EgressRule]:
    """Give the ways out that the grants leave of `wish`, and write down what they do not cover."""
    for place, pattern in enumerate(case.policy.tables.denied_hosts):
        if hosts.overlaps(pattern, wish.host):
            message = f"{shown(wish.host)} is or includes {shown(pattern)}, which is denied"
            findings.deny("network.deny", message, _cure_denied(place))
    entries = [entry for entry in case.policy.tables.hosts if _applies(entry, case, wish)]
    if not entries:
        who = f"for {shown(case.principal)} in the pool {shown(case.pool)}"
        findings.deny("network.hosts", f"no grant covers {shown(wish.host)} {who}", _cure_host(case, wish))
        return []
    for what in uncovered(wish, entries):
        message = f"no grant for {shown(wish.host)} covers {what}"
        findings.deny("network.hosts", message, _cure_host(case, wish))
    return [rule for entry in entries if (rule := intersection(wish, entry)) is not None]


def _applies(entry: HostEntry, case: Case, wish: Wish) -> bool:
    return hosts.covers(entry.host, wish.host) and entry.principals(case.principal) and entry.pools(case.pool)


def uncovered(wish: Wish, entries: list[HostEntry]) -> list[str]:
    """List what `wish` names and no grant gives."""
    grants, rule = [entry.grant for entry in entries], wish.rule
    missing = [f"port {port}" for port in rule.ports if not any(_listed(port, grant.ports) for grant in grants)]
    missing += [
        f"the method {method}" for method in rule.methods if not any(_listed(method, grant.methods) for grant in grants)
    ]
    missing += [
        f"the path {shown(path)}" for path in rule.paths if not any(_path_within(path, grant.paths) for grant in grants)
    ]
    missing += [
        f"the address {address}"
        for address in wish.addresses
        if not any(_address_within(address, entry.addresses) for entry in entries)
    ]
    if rule.opaque and not any(grant.opaque for grant in grants):
        missing.append("an opaque connection")
    return missing


def intersection(wish: Wish, entry: HostEntry) -> EgressRule | None:
    """Give what both `wish` and its grant allow, or None when that is nothing."""
    rule, grant = wish.rule, entry.grant
    ports = (
        [port for port in rule.ports if _listed(port, grant.ports)] or grant.ports or (() if wish.plain else WEB_PORTS)
    )
    methods = [method for method in rule.methods if _listed(method, grant.methods)] or grant.methods
    paths = [path for path in rule.paths if _path_within(path, grant.paths)] or grant.paths
    addresses = [address for address in wish.addresses if _address_within(address, entry.addresses)] or [
        address for address in entry.addresses if not address.endswith("/0")
    ]  # a grant of every address lets one be named, and adds none to a name that comes without
    wanted = ((rule.ports, ports), (rule.methods, methods), (rule.paths, paths), (wish.addresses, addresses))
    # Where the request lists what it wants and the grant has none of it, the grant's own list must not slip in.
    if any(asked and not set(asked) & set(left) for asked, left in wanted):
        return None
    inspect = grant.inspect or rule.inspect or bool(methods or paths)
    return EgressRule(
        host=wish.host,
        ports=tuple(sorted(set(ports))),
        methods=tuple(sorted(set(methods))),
        paths=tuple(sorted(set(paths))),
        opaque=grant.opaque and not inspect and (wish.plain or rule.opaque),
        inspect=inspect,
        addresses=tuple(sorted(set(addresses))),
        max_bytes=least(rule.max_bytes, entry.max_bytes),
        max_connections=least(rule.max_connections, grant.max_connections),
        ask=grant.ask or rule.ask,
        rule=entry.id,
    )


def inspected(granted: Granted, leases: tuple[SecretLease, ...], findings: Findings) -> Granted:
    """Have every way out inspected that a secret is put into; one that leads nowhere is a denial."""
    injected = [lease for lease in leases if lease.way == "inject"]
    for lease in injected:
        if not any(_meets(lease, rule) for rule in granted.egress):
            where = ", ".join(lease.hosts)
            message = f"{shown(lease.name)} goes into requests to {where}, which this run does not ask to reach"
            findings.deny("builtin.secrets", message)
    egress = tuple(
        msgspec.structs.replace(rule, inspect=True, opaque=False)
        if any(_meets(lease, rule) for lease in injected)
        else rule
        for rule in granted.egress
    )
    return granted._replace(egress=egress) if injected else granted


def _meets(lease: SecretLease, rule: EgressRule) -> bool:
    return any(hosts.overlaps(hosts.normal_pattern(host), rule.host) for host in lease.hosts)


def _listed(item: int | str, granted: tuple[int, ...] | tuple[str, ...]) -> bool:
    return not granted or item in granted


def _path_within(path: str, granted: tuple[str, ...]) -> bool:
    return not granted or any(covers(pattern, path) for pattern in granted)


def _address_within(address: str, granted: tuple[str, ...]) -> bool:
    return any(hosts.address_within(address, network) for network in granted)


def _cure_default(case: Case) -> tuple[Edit, ...]:
    return (assigned(case.policy.value, ("network", "default_deny"), value=False),)


def _cure_denied(place: int) -> Cure:
    return lambda: (Remove(("network", "deny", place)),)


def _cure_host(case: Case, wish: Wish) -> Cure:
    def cure() -> tuple[Edit, ...]:
        rule = wish.rule
        grant: dict[str, Any] = {"host": wish.host}
        own = {"pools": [escape(case.pool)], "principals": [escape(case.principal)]}
        lists = {"ports": rule.ports, "methods": rule.methods, "paths": rule.paths, "addresses": wish.addresses}
        grant |= {key: list(items) for key, items in lists.items() if items}
        # What the grant must say besides, for the loader to take it and for the wish to be covered.
        grant |= {"inspect": True} if rule.methods or rule.paths else {"opaque": True} if rule.opaque else {}
        return (appended(case.policy.value, ("network", "hosts"), grant | own),)

    return cure
