"""Host names and addresses, in one spelling each, and the patterns that cover them.

A name is ASCII letters, digits and hyphens, lower case, without its trailing dot. An address is spelled as `ipaddress`
spells it; what looks like another spelling of one (`0x7f.1`, `127.1`, `2130706433`, `::ffff:127.0.0.1`) is refused,
because programs disagree about where it leads. A pattern is a host, `*.suffix` (never `suffix` itself) or `*`.
Resolves nothing: which addresses a name may lead to is the gate's business.
"""

import ipaddress
import re
from functools import lru_cache
from typing import Final

ANY: Final = "*"
MAX_NAME: Final = 253

# IPv4 inside IPv6: compatible, mapped, translated, NAT64 (two of them), 6to4
_FOUR_INSIDE: Final = ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_NUMBER = re.compile(r"([0-9]+|0[xX][0-9a-fA-F]*)\Z")


@lru_cache(maxsize=4096)
def normal_host(text: str) -> str:
    """Spell the host `text` in its one way; ValueError says what is wrong with it."""
    if ":" in text or text.startswith("["):
        return _address_six(text)
    if not text.isascii():
        raise ValueError("a host is ASCII: write an international name as `xn--…`")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    # The URL standard's rule: a name whose last label is a number can only be an address.
    if _NUMBER.match(labels[-1]):
        return _address_four(name)
    if len(name) > MAX_NAME or not all(_LABEL.match(label) for label in labels):
        raise ValueError("a host is dot-separated labels of letters, digits and hyphens, at most 63 and 253 characters")
    return name


@lru_cache(maxsize=4096)
def normal_pattern(text: str) -> str:
    """Spell a host pattern in its one way: a host, `*.suffix` or `*`."""
    if text == ANY:
        return ANY
    if not text.startswith("*."):
        return normal_host(text)
    suffix = normal_host(text[2:])
    if is_address(suffix):
        raise ValueError("an address has no names below it")
    return "*." + suffix


def covers(wide: str, narrow: str) -> bool:
    """Say whether the pattern `wide` matches every host that `narrow` matches; both are normal."""
    if wide in (ANY, narrow):
        return True
    return wide.startswith("*.") and narrow.removeprefix("*").endswith(wide[1:]) and not is_address(narrow)


def overlaps(one: str, other: str) -> bool:
    """Say whether some host is matched by both patterns; both are normal."""
    return covers(one, other) or covers(other, one)


def is_address(host: str) -> bool:
    """Say whether the normal `host` is an address and not a name."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def normal_address(text: str) -> str:
    """Spell an address or a network (`10.0.0.0/8`) in its one way; ValueError when it is neither."""
    return str(ipaddress.ip_network(text)).removesuffix("/32").removesuffix("/128")


def address_within(narrow: str, wide: str) -> bool:
    """Say whether the network `narrow` lies in `wide`; both are normal."""
    inner, outer = ipaddress.ip_network(narrow), ipaddress.ip_network(wide)
    return (
        isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network) and inner.subnet_of(outer)
    ) or (
        isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network) and inner.subnet_of(outer)
    )


def _address_four(name: str) -> str:
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        raise ValueError(
            "this is an odd spelling of an address: write four decimal numbers, such as 192.0.2.1"
        ) from None


def _address_six(text: str) -> str:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        raise ValueError("a host has no port and no scheme; a port stands in `ports`") from None
    # ::1 lies in the first of them and hides nothing; `is_loopback` would be true of ::ffff:127.0.0.1, too.
    hidden = int(address) != 1 and any(address in ipaddress.IPv6Network(network) for network in _FOUR_INSIDE)
    if address.scope_id or hidden:
        raise ValueError("write the address itself, without a zone and not as IPv4 inside IPv6")
    return str(address)
