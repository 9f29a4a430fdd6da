"""From an allowed name to a connection: resolve once, check every address, dial exactly what was checked.

1. An address is taken as itself. A name whose rule lists single addresses is not resolved at all.
2. Otherwise the host's proxy is asked, where it has one, or else its resolver, once.
3. Addresses that may not be dialled are left out, this host's own among them; when none is left, that is a refusal.
4. The others are tried in turn, within one time for all.
"""

import asyncio
import contextlib
import socket
from typing import Final, NamedTuple

from tipstaff.egress.addresses import fault_of, is_named, pinned
from tipstaff.egress.advice import spell_place, to_dial
from tipstaff.egress.duplex import Ahead, Wire
from tipstaff.egress.heads import parse_answer, spell
from tipstaff.egress.options import Dial, Limits, Options, Resolve
from tipstaff.egress.reading import read_head
from tipstaff.egress.refusal import RefusalError, UpstreamError
from tipstaff.egress.terms import Terms
from tipstaff.egress.upstream import Upstream
from tipstaff.model.network import EgressRule
from tipstaff.policy.hosts import is_address

MOST_ADDRESSES: Final = 8
_OK: Final = 200
_DISCARD: Final = 9


class Place(NamedTuple):
    """Where an attempt goes, and the rule that lets it."""

    host: str  # in its one spelling
    port: int
    rule: EgressRule | None


class Reached(NamedTuple):
    """A connection; `proxy` when another proxy is at its end."""

    wire: Wire
    address: str
    proxy: Upstream | None = None


class Dialler:
    """Reaches places, for one gate."""

    def __init__(self, terms: Terms, options: Options, resolve: Resolve) -> None:
        self._deny = terms.deny
        self._limits: Limits = options.limits
        self._upstream = options.upstream
        self._resolve = options.resolve or resolve
        self._dial: Dial = options.dial or _tcp

    async def reach(self, place: Place, *, tunnel: bool) -> Reached:
        """Connect to a place; through a proxy that is between, too, where a tunnel is wanted."""
        upstream = self._upstream
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                if upstream is None or not upstream.passes(place.host, place.port) or _is_pinned(place):
                    return await self._directly(place)
                self._check_literal(place)
                return await self._through(upstream, place, tunnel=tunnel)
        except TimeoutError:
            where = spell_place(place.host, place.port)
            sentence = f"{where} did not answer within {self._limits.connect_seconds:g} seconds"
            raise UpstreamError(sentence, status=504) from None

    async def _directly(self, place: Place) -> Reached:
        found = await self._addresses(place)
        faults = [(address, self._fault_of(address, place)) for address in found]
        fitting = [address for address, fault in faults if not fault]
        if not fitting:
            raise _unfit(place, *faults[0])
        return await self._first(place, fitting[:MOST_ADDRESSES])

    def _fault_of(self, address: str, place: Place) -> str:
        if fault := fault_of(address, place.rule, self._deny):
            return fault
        return "is this host itself" if not is_named(address, place.rule) and _is_own(address) else ""

    async def _addresses(self, place: Place) -> list[str]:
        if is_address(place.host):
            return [place.host]
        if known := pinned(place.rule, place.host):
            return list(known)
        try:
            found = await self._resolve(place.host, place.port)
        except OSError as fault:
            raise UpstreamError(f"the name {place.host} does not resolve: {_said(fault)}") from fault
        if not found:
            raise UpstreamError(f"the name {place.host} has no address")
        return found

    async def _first(self, place: Place, addresses: list[str]) -> Reached:
        """Take the first address that answers; each of several gets its share of the time."""
        fault: OSError = OSError("nothing was tried")
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                async with asyncio.timeout(self._limits.connect_seconds / left if left > 1 else None):
                    return Reached(Wire(await self._dial(address, place.port)), address)
            except OSError as error:  # also a TimeoutError
                fault = error
        raise UpstreamError(f"{spell_place(place.host, place.port)} cannot be reached: {_said(fault)}") from fault

    def _check_literal(self, place: Place) -> None:
        """Judge an address before a proxy gets to see it; names are the proxy's to resolve."""
        if is_address(place.host) and (fault := fault_of(place.host, place.rule, self._deny)):
            raise _unfit(place, place.host, fault)

    async def _through(self, upstream: Upstream, place: Place, *, tunnel: bool) -> Reached:
        proxy = Place(upstream.host, upstream.port, None)
        # Configured by the host's owner, not asked for by the client: wherever it is, it is meant.
        found = [proxy.host] if is_address(proxy.host) else await self._addresses(proxy)
        reached = await self._first(proxy, found[:MOST_ADDRESSES])
        try:
            if tunnel:
                await _ask_for_tunnel(reached.wire, upstream, spell_place(place.host, place.port), self._limits)
        except BaseException:
            reached.wire.abort()
            raise
        return Reached(reached.wire, f"via {spell_place(upstream.host, upstream.port)}", upstream)


async def _ask_for_tunnel(wire: Wire, upstream: Upstream, where: str, limits: Limits) -> None:
    headers = [(b"Host", where.encode())]
    if upstream.authorization:
        headers.append((b"Proxy-Authorization", upstream.authorization.encode()))
    try:
        await wire.write(spell(f"CONNECT {where} HTTP/1.1", headers))
        source = Ahead(wire)
        answer = parse_answer(await read_head(source, limits.head_bytes))
    except (OSError, EOFError, RefusalError) as fault:
        raise UpstreamError(f"this host's own proxy cannot be used: {_said(fault)}") from fault
    if answer.status != _OK or source.take():
        raise UpstreamError(f"this host's own proxy answered {answer.status} to CONNECT {where}")


def _is_pinned(place: Place) -> bool:
    return place.rule is not None and bool(place.rule.addresses)


def _unfit(place: Place, address: str, fault: str) -> RefusalError:
    what = f"the address {address}" if address == place.host else f"{place.host} leads to {address}, which"
    return RefusalError(f"{what} {fault}", advice=to_dial(place.host, place.port, address))


def _is_own(address: str) -> bool:
    """Ask the kernel where a packet to `address` would come from: to this host's own addresses, from these."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, _DISCARD))  # which sends nothing
        return bool(probe.getsockname()[0] == address)
    return False


async def _tcp(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(0)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        with contextlib.suppress(OSError):
            made.close()
        raise
    return made


def _said(fault: BaseException) -> str:
    if isinstance(fault, TimeoutError):
        return "it did not answer in time"
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
