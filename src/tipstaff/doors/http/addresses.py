"""Addresses as they are counted: who is one peer, for limits and for the log.

An address of version 4 that comes over a socket of version 6 is one of version 4. Of version 6 the network of 64 bits
counts, since whoever has one address there has 2^64 of them. What cannot be read as an address is left as it is.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

IPV6_SITE_BITS: Final = 64
REMEMBERED: Final = 4096


@lru_cache(maxsize=REMEMBERED)
def peer_of(address: str) -> str:
    """Name the peer that an address stands for."""
    plain = unwrapped(address)
    if ":" not in plain:
        return plain
    try:
        return str(ip_network((plain.partition("%")[0], IPV6_SITE_BITS), strict=False))
    except ValueError:
        return plain


@lru_cache(maxsize=REMEMBERED)
def unwrapped(address: str) -> str:
    """Give the address of version 4 that one of version 6 wraps (RFC 4291, 2.5.5.2); any other as it is."""
    found = _read(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped) if mapped is not None else address


@lru_cache(maxsize=REMEMBERED)
def is_loopback(address: str) -> bool:
    """Say whether this machine speaks to itself."""
    found = _read(unwrapped(address))
    return found is not None and found.is_loopback


def _read(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(address)
    except ValueError:
        return None
