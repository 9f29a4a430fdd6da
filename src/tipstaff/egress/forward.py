"""A request as it leaves the gate: from the parts that were judged, and nothing else. Pure.

Headers for this hop are gone; Host and the body's length are written by us. Where a secret was put in, or the host may
have kept one from before, the answer must be readable for the mask: no compression, and no ranges, which would give the
secret back in pieces too small to see.
"""

from typing import Final, NamedTuple

from tipstaff.egress.dial import Place
from tipstaff.egress.heads import CHUNKED, Head, Headers, body_length, end_to_end, spell, values
from tipstaff.egress.options import Options
from tipstaff.egress.paths import normal_path
from tipstaff.egress.refusal import RefusalError, malformed
from tipstaff.egress.targets import HTTP, HTTPS, spell_authority
from tipstaff.egress.upstream import Upstream
from tipstaff.model.outgoing import Outgoing

_OURS: Final = frozenset((b"host", b"content-length"))
_PIECEMEAL: Final = frozenset((b"accept-encoding", b"range", b"if-range", b"request-range", b"a-im"))


class Order(NamedTuple):
    """A request that was judged, ready to be spelled."""

    outgoing: Outgoing
    minor: int
    length: int  # of the body, or CHUNKED
    told: bool  # that there is a body, in the request's head
    injected: bool
    masked: bool  # the answer has to be looked through


def order_of(head: Head, place: Place, path: str, *, secured: bool, options: Options) -> Order:
    """Take a request apart, and have secrets put in; RefusalError when it must not go."""
    length = body_length(head.headers, head.minor)
    if any(value.lower() != b"100-continue" for value in values(head.headers, b"expect")):
        raise malformed("nothing but 100-continue can be expected", 417)
    kept = tuple(header for header in end_to_end(head.headers) if header[0].lower() not in _OURS)
    plain = Outgoing(host=place.host, port=place.port, method=head.method, path=path, headers=kept, secured=secured)
    filled = options.inject(plain) if options.inject is not None else plain
    if isinstance(filled, str):
        raise RefusalError(filled)
    injected = filled.headers != plain.headers
    masked = injected or (options.knows is not None and options.knows(place.host))
    if masked:
        plain = _fit_for_mask(plain, filled.headers)
    return Order(plain, head.minor, length or 0, length is not None, injected, masked)


def spelled(order: Order, proxy: Upstream | None) -> bytes:
    """Spell the head that goes out, to the host itself or to a proxy before it."""
    outgoing = order.outgoing
    authority = spell_authority(outgoing.host, outgoing.port, HTTPS if outgoing.secured else HTTP)
    through = proxy is not None and not outgoing.secured
    target = f"http://{authority}{outgoing.path}" if through else outgoing.path
    headers = [(b"Host", authority.encode()), *outgoing.headers, *_framing(order), (b"Connection", b"close")]
    if proxy is not None and through and proxy.authorization:
        headers.append((b"Proxy-Authorization", proxy.authorization.encode()))
    try:
        return spell(f"{outgoing.method} {target} HTTP/1.{order.minor}", headers)
    except ValueError as fault:
        raise RefusalError(f"what would be sent is no request: {fault}") from fault


def _fit_for_mask(plain: Outgoing, headers: Headers) -> Outgoing:
    try:
        normal_path(plain.path)
    except ValueError as fault:
        raise RefusalError(f"a secret goes only to a path that has one meaning: {fault}") from fault
    kept = [header for header in headers if header[0].lower() not in _PIECEMEAL]
    return Outgoing(
        host=plain.host,
        port=plain.port,
        method=plain.method,
        path=plain.path,
        headers=(*kept, (b"Accept-Encoding", b"identity")),
        secured=plain.secured,
    )


def _framing(order: Order) -> Headers:
    if order.length == CHUNKED:
        return ((b"Transfer-Encoding", b"chunked"),)
    return ((b"Content-Length", str(order.length).encode()),) if order.told else ()
