"""Where a request wants to go: the authority of a CONNECT, of an absolute URL, and of Host. Pure.

A port is a decimal number without leading zeros. Credentials before an `@` are refused, because readers differ in
which `@` they take. Whether the host is one at all is for `terms.judge` to say.
"""

import re
from typing import Final, NamedTuple

from tipstaff.egress.heads import Head, Headers, values
from tipstaff.egress.refusal import malformed
from tipstaff.policy.hosts import normal_host

HTTP: Final = 80
HTTPS: Final = 443
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:@/?\\]{1,255})(?::([1-9][0-9]{0,4}))?\Z")
_ABSOLUTE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(.*)\Z")
_LAST_PORT: Final = 65535


class Target(NamedTuple):
    """A host as it was spelled, a port, and the path with its query."""

    host: str
    port: int
    path: str = ""


def connect_target(head: Head) -> Target:
    """Read the authority of a CONNECT; without a port it means 443."""
    return authority(head.target, HTTPS)


def forward_target(head: Head) -> Target:
    """Read the absolute URL of a request that is to be forwarded."""
    found = _ABSOLUTE.match(head.target)
    if not found:
        raise malformed("proxy requires absolute-form URLs")
    scheme, place, rest = found[1].lower(), found[2], found[3]
    if scheme == "https":
        raise malformed("an https:// URL is reached by CONNECT, so that nobody between can read it")
    if scheme != "http":
        raise malformed("only http:// can be forwarded")
    return authority(place, HTTP)._replace(path=rest if rest.startswith("/") else "/" + rest)


def origin_target(head: Head, host: str, port: int) -> Target:
    """Read the path of a request inside a connection to a host that is known."""
    if not head.target.startswith("/"):
        raise malformed("inside a connection a target is a path")
    return Target(host, port, head.target)


def authority(text: str, default: int) -> Target:
    """Read `host`, `host:port` or `[v6]:port`."""
    found = _AUTHORITY.match(text)
    port = int(found[2] or default) if found else 0
    if not found or not 0 < port <= _LAST_PORT:
        raise malformed("an authority is a host, and a port after a colon")
    return Target(found[1].removeprefix("[").removesuffix("]"), port)


def check_host(headers: Headers, target: Target, default: int, minor: int) -> None:
    """Refuse a request whose Host is not the authority of its target: the two would be judged by different readers."""
    found = values(headers, b"host")
    if not found and minor == 0:
        return
    if len(found) != 1:
        raise malformed("a request has one Host")
    try:
        said = authority(found[0].decode("ascii"), default)
        same = (normal_host(said.host), said.port) == (normal_host(target.host), target.port)
    except ValueError:
        same = False
    if not same:
        raise malformed("Host is not the host that the request goes to", 403)


def spell_authority(host: str, port: int, default: int) -> str:
    """Spell a normal host for Host, without the port that goes without saying."""
    name = f"[{host}]" if ":" in host else host
    return name if port == default else f"{name}:{port}"
