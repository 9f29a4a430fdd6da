"""Which addresses the gate may dial, once a name has been allowed. Pure.

Public ones, and what the rule names: its own host where that is an address, and `addresses` beside a name. Everything
else is refused: this host, its neighbours, the metadata services of clouds, and every form that hides another address
(mapped, compatible, NAT64, 6to4, Teredo). The networks are listed here and not asked of `ipaddress`, whose opinion
changes between versions of Python. Which public addresses are this host's own is the business of `dial`.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from tipstaff.model.network import EgressRule
from tipstaff.policy.hosts import is_address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_FOUR: Final = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "means this host"),
        ("10.0.0.0/8", "is private"),
        ("100.64.0.0/10", "is shared by a provider's customers"),
        ("127.0.0.0/8", "is this host itself"),
        ("168.63.129.16/32", "is a cloud's metadata service"),
        ("169.254.0.0/16", "is link-local, where clouds have their metadata services"),
        ("172.16.0.0/12", "is private"),
        ("192.0.0.0/24", "is reserved"),
        ("192.0.2.0/24", "is for documentation"),
        ("192.88.99.0/24", "is a relay to IPv6"),
        ("192.168.0.0/16", "is private"),
        ("198.18.0.0/15", "is for benchmarks"),
        ("198.51.100.0/24", "is for documentation"),
        ("203.0.113.0/24", "is for documentation"),
        ("224.0.0.0/4", "is multicast"),
        ("240.0.0.0/4", "is reserved or broadcast"),
    )
)
_SIX: Final = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("::/128", "means this host"),
        ("::1/128", "is this host itself"),
        ("::/96", "hides an IPv4 address"),
        ("::ffff:0:0/96", "hides an IPv4 address"),
        ("::ffff:0:0:0/96", "hides an IPv4 address"),
        ("64:ff9b::/96", "hides an IPv4 address (NAT64)"),
        ("64:ff9b:1::/48", "hides an IPv4 address (NAT64)"),
        ("2001::/32", "hides an IPv4 address (Teredo)"),
        ("2001::/23", "is reserved"),
        ("2001:db8::/32", "is for documentation"),
        ("2002::/16", "hides an IPv4 address (6to4)"),
        ("3fff::/20", "is for documentation"),
        ("fc00::/7", "is private"),
        ("fe80::/10", "is link-local"),
        ("ff00::/8", "is multicast"),
    )
)
_PUBLIC_SIX: Final = ipaddress.IPv6Network("2000::/3")  # everything else is unassigned or special


def fault_of(text: str, rule: EgressRule | None, deny: Iterable[str] = ()) -> str:
    """Say why the address may not be dialled under `rule`, or nothing."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "is not an address"
    if str(address) in deny:
        return "is denied"
    if getattr(address, "scope_id", None) is not None:
        return "has a zone"
    return "" if _named(address, rule) else _special(address)


def pinned(rule: EgressRule | None, host: str) -> tuple[str, ...]:
    """Give the addresses that stand for a name without any resolver: `addresses`, where each is a single one."""
    if rule is None or is_address(host) or any("/" in address for address in rule.addresses):
        return ()
    return rule.addresses


def is_named(text: str, rule: EgressRule | None) -> bool:
    """Say whether `rule` names the address, which is one."""
    return _named(ipaddress.ip_address(text), rule)


def _named(address: Address, rule: EgressRule | None) -> bool:
    if rule is None:
        return False
    if rule.host == str(address):
        return True
    networks = (ipaddress.ip_network(named) for named in rule.addresses)
    return any(address.version == network.version and address in network for network in networks)


def _special(address: Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return next((what for network, what in _FOUR if address in network), "")
    found = next((what for network, what in _SIX if address in network), "")
    return found or ("" if address in _PUBLIC_SIX else "is reserved")
