"""The address of a plane: https, or http where nobody else can listen. Pure.

Plain http beyond this machine is refused unless it was asked for: whoever reads along would have the runner's token,
the secrets of its runs and their output. What signs is not at stake: contracts are checked by the pinned key.
"""

from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tipstaff.errors import UsageError

_FORM: Final = "give it as https://HOST[:PORT]"


class Address(NamedTuple):
    """Where a plane answers."""

    url: str  # without a slash at its end
    is_loopback: bool


def address_of(text: str, *, plain_http: bool = False) -> Address:
    """Read a plane's address; UsageError when it is none, or not safe to speak to."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"the plane's address {text[:200]!r} cannot be read: {error}", hint=_FORM) from error
    if parts.scheme not in {"http", "https"} or not host or not text.isprintable() or " " in text:
        raise UsageError(f"the plane's address {text[:200]!r} is not one of http or https", hint=_FORM)
    if parts.username is not None or parts.password is not None:
        raise UsageError("the plane's address holds a name or a password", hint=_FORM)
    if parts.query or parts.fragment:
        raise UsageError(f"the plane's address {text[:200]!r} has more than a host, a port and a path", hint=_FORM)
    is_loopback = _is_loopback(host)
    if parts.scheme == "http" and not is_loopback and not plain_http:
        raise UsageError(
            f"the plane's address {text[:200]!r} is plain http, and others could read along",
            hint="use https, or say --plain-http where the way there is safe by itself",
        )
    return Address(text.rstrip("/"), is_loopback)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
