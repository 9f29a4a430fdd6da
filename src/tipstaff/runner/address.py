"""The address of a plane: https, or http where nobody else can listen. Pure; for runners and for clients alike.

`https://HOST[:PORT][/PATH]`, spelled in one way, because keys are pinned under it. Plain http beyond this machine is
refused unless it was asked for: whoever reads along would have the token, the secrets of runs and their output. What
signs is not at stake: contracts and receipts are checked by the pinned key.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tipstaff.errors import UsageError

PLAIN: Final = "TIPSTAFF_PLAIN_HTTP"
SHOWN: Final = 200  # characters
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+\Z")
_YES: Final = ("1", "true", "yes")
_FORM: Final = "give it as https://HOST[:PORT], for example https://plane.example.com:7172"


class Address(NamedTuple):
    """Where a plane answers."""

    url: str  # without a slash at its end
    is_loopback: bool


def address_of(text: str, *, plain_http: bool = False) -> Address:
    """Read a plane's address; UsageError when it is none, or not safe to speak to."""
    parts = _parts(text)
    host, port = (parts.hostname or "").lower(), parts.port
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None and port != _PORTS[parts.scheme] else ""
    found = Address(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", _is_loopback(host))
    if parts.scheme == "http" and not found.is_loopback and not plain_http:
        raise UsageError(
            f"{found.url} is plain http to another machine: whoever listens there would read the token",
            hint="use https, or say --plain-http where nobody can listen",
        )
    return found


def plain_is_meant(environ: Mapping[str, str]) -> bool:
    """Say whether the environment lets plain http go beyond this machine."""
    return environ.get(PLAIN, "").lower() in _YES


def _parts(text: str) -> SplitResult:
    """Take an address apart; refuses what is none."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"the plane's address{_shown(text)} cannot be read", hint=_FORM) from error
    if parts.username is not None or parts.password is not None:
        raise UsageError("the plane's address holds a name or a password", hint="a token has no place in it")
    if parts.scheme not in _PORTS or not _HOST.match(host) or not _is_plain(text):
        raise UsageError(f"the plane's address{_shown(text)} is not one of http or https", hint=_FORM)
    if parts.query or parts.fragment:
        raise UsageError(f"the plane's address{_shown(text)} has more than a host, a port and a path", hint=_FORM)
    return parts


def _shown(text: str) -> str:
    """Quote an address, unless a password may stand in it."""
    return "" if "@" in text else f" {text[:SHOWN]!r}"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
