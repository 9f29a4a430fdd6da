"""The proxy that this host itself must use, read from its environment. Pure.

With one, names are resolved by that proxy: which addresses they lead to is then its business, and the record says so.
A rule that has `addresses` is dialled directly, because only so can the promise be kept.
A proxy of a kind that the gate does not speak is an error: going around it could mean going nowhere, or past a watch.
"""

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from tipstaff.errors import UsageError
from tipstaff.policy.hosts import is_address, normal_host

_HTTP = 80


class Upstream(msgspec.Struct, frozen=True):
    """A corporate proxy: where it is, what it wants to see, and what goes past it."""

    host: str
    port: int
    authorization: str = ""
    direct: tuple[str, ...] = ()

    def passes(self, host: str, port: int) -> bool:
        """Say whether the normal `host` is reached through the proxy."""
        return not any(_is_direct(entry, host, port) for entry in self.direct)


def upstream_of(environ: Mapping[str, str]) -> Upstream | None:
    """Read `https_proxy` (or `all_proxy`) and `no_proxy`; None without, UsageError when it cannot be meant."""
    name, url = next(((name, environ[name]) for name in _NAMES if environ.get(name)), ("", ""))
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = normal_host(parts.hostname or ""), parts.port or _HTTP
    except ValueError as fault:
        raise UsageError(f"{name} does not name a proxy: {fault}", hint="write http://proxy.example:3128") from None
    if parts.scheme != "http":
        raise UsageError(f"{name}: a proxy is spoken to by http://, not {parts.scheme}://")
    skipped = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").lower().replace(",", " ").split()
    return Upstream(host, port, _basic(parts.username, parts.password), tuple(skipped))


_NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy")


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _is_direct(entry: str, host: str, port: int) -> bool:
    """Match one entry of `no_proxy`: `*`, a name and all below it, an address, a network, each with an own port."""
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.endswith("]")):
        return int(number) == port and _is_direct(name, host, port)
    entry = entry.strip("[]")
    if is_address(host):
        return _within(host, entry)
    suffix = entry.removeprefix("*").strip(".")
    return bool(suffix) and (host == suffix or host.endswith("." + suffix))


def _within(host: str, entry: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
