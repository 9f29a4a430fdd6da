"""One client's connection, from its first byte to its one record.

1. The head is read and parsed; credentials are checked, where the gate has any.
2. The name is judged, for CONNECT and for forwarded requests alike. Whoever must be asked is asked.
3. CONNECT: the place is reached, the tunnel is granted, and the ClientHello must name the host before a byte goes on.
   A client that speaks HTTP in the open inside the tunnel, as some do, is taken as one that has asked for it openly.
4. CONNECT that is looked into: TLS ends here, and the request inside is judged like one that came in the open.
5. A request: its rule is found by method and path, secrets are put in, and only then is its place reached.

Whatever happens, the sockets are closed and the record says how it ended.
"""

import asyncio
import base64
import contextlib
import hmac
import re
import socket
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from tipstaff.egress import advice
from tipstaff.egress.attempt import Attempt, Meter
from tipstaff.egress.dial import Place, Reached
from tipstaff.egress.duplex import Ahead, Duplex, Wire
from tipstaff.egress.exchange import Errand, Exchange
from tipstaff.egress.forward import order_of, spelled
from tipstaff.egress.heads import Head, body_length, parse_request, values
from tipstaff.egress.hello import INTERNAL_ERROR, alert, depth_of
from tipstaff.egress.means import Means
from tipstaff.egress.reading import CHUNK_BYTES, read_head, read_hello
from tipstaff.egress.refusal import RefusalError, UpstreamError, malformed
from tipstaff.egress.relay import Tunnel
from tipstaff.egress.replies import ESTABLISHED, reply
from tipstaff.egress.targets import HTTP, HTTPS, Target, check_host, connect_target, forward_target, origin_target
from tipstaff.egress.terms import judge, judge_request, looks_inside, ways
from tipstaff.model.network import EgressRule

PARTING_SECONDS: Final = 2.0  # for a client to take an answer
PARTING_BYTES: Final = 1 << 20
_REQUEST: Final = re.compile(rb"[A-Z]{3,32} /")


class Connection:
    """One client; `attempt` is None until it has said something."""

    def __init__(self, means: Means, sock: socket.socket, *, crowded: bool) -> None:
        self.attempt: Attempt | None = None
        self._means = means
        self._limits = means.options.limits
        self._crowded = crowded
        self._wire = Wire(sock)
        self._client = Ahead(self._wire)  # whom we answer; inside TLS, once that is ended here
        self._manner: Literal["http", "tls", "none"] = "http"  # how a refusal can be said
        self._meter = Meter(means.account(None))

    async def run(self) -> None:
        """Serve the client to the end."""
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                await self._serve()
        except (RefusalError, UpstreamError) as fault:
            await self._fail(fault)
        except EOFError as end:
            self._note(reason=str(end))
        except OSError as fault:  # also a TimeoutError
            self._note(reason=_broken(fault))
            self._wire.abort()
        except asyncio.CancelledError:
            self._note(reason="the gate was closed")
            self._wire.abort()
            raise
        else:
            await self._part()

    def close(self) -> None:
        """Let go of everything, and settle the record."""
        self._wire.close()
        self._note(bytes_out=self._meter.bytes_out, bytes_in=self._meter.bytes_in)

    async def _serve(self) -> None:
        head = await self._first_head()
        if head is None:
            return
        if self._crowded:
            raise RefusalError(f"there are {self._limits.connections} connections already", status=503)
        if head.method == "CONNECT":
            await self._connect(head)
        else:
            target = forward_target(head)
            self._note(host=target.host, port=target.port)
            check_host(head.headers, target, HTTP, head.minor)
            self._note(depth="http")
            await self._request(head, target, secured=False)

    async def _first_head(self) -> Head | None:
        """Read the first head; a client that comes and goes in silence has attempted nothing."""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                first = await self._client.read(self._limits.head_bytes)
        except TimeoutError:
            first = b""
        if not first:
            return None
        self._client.give_back(first)
        if self._means.options.credentials is None:
            self.attempt = Attempt()
            return await self._head()
        head = await self._head()
        self._check_credentials(head)  # who has none makes no attempt of this run, and leaves no word in its record
        self.attempt = Attempt(method=head.method)
        return head

    async def _head(self) -> Head:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                head = parse_request(await read_head(self._client, self._limits.head_bytes))
        except TimeoutError:
            raise malformed(f"no whole head came within {self._limits.head_seconds:g} seconds", 408) from None
        self._note(method=head.method)
        return head

    def _check_credentials(self, head: Head) -> None:
        wanted = b"basic " + base64.b64encode((self._means.options.credentials or "").encode())
        given = [value[:6].lower() + value[6:] for value in values(head.headers, b"proxy-authorization")]
        if len(given) != 1 or not hmac.compare_digest(given[0], wanted):
            raise RefusalError("this gate is another's: its credentials are missing or wrong", status=407)

    def _judge(self, target: Target) -> Place:
        """Judge a name, before anybody resolves it."""
        verdict = judge(self._means.terms, target.host, target.port)
        self._note(host=verdict.host or target.host, port=target.port)
        if not verdict.allowed:
            raise RefusalError(verdict.reason, advice=verdict.advice)
        return Place(verdict.host, target.port, verdict.rule)

    async def _connect(self, head: Head) -> None:
        target = connect_target(head)
        self._note(host=target.host, port=target.port)
        if body_length(head.headers, head.minor) or len(values(head.headers, b"host")) > 1:
            raise malformed("a CONNECT has no body and one Host")
        place = self._judge(target)
        if looks_inside(place.rule):
            await self._look_inside(place)
            return
        if self._means.options.knows is not None and self._means.options.knows(place.host):
            raise RefusalError(f"{place.host} may know a secret, and this connection could not be looked into")
        await self._means.asking.check(place)
        with self._seat(place.rule):
            reached = await self._reach(place, tunnel=True)
            with _left_behind(reached.wire):
                await self._grant()
                if not await self._speaks_openly(place):
                    await self._tunnel(place, reached.wire)
                    return
        self._manner = "http"
        head = await self._head()
        target = origin_target(head, place.host, place.port)
        check_host(head.headers, target, HTTP, head.minor)
        self._note(depth="http")
        await self._request(head, target, secured=False)

    async def _speaks_openly(self, place: Place) -> bool:
        """Look at the first bytes inside a tunnel that is not opaque: a method and a path are no beginning of TLS."""
        if place.rule is None or place.rule.opaque:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.head_seconds):
                first = await self._client.read(CHUNK_BYTES)
            self._client.give_back(first)
            return _REQUEST.match(first) is not None
        return False

    async def _tunnel(self, place: Place, far: Wire) -> None:
        if place.rule is None or place.rule.opaque:
            self._note(depth="opaque")
        else:
            await self._check_hello(place)
        first = self._client.take()
        self._manner = "none"
        self._meter.out(len(first))
        await far.write(first)
        await Tunnel(self._wire, far, self._meter, self._means.pipe).run(self._limits.idle_seconds)

    async def _grant(self) -> None:
        await self._client.write(ESTABLISHED)
        self._manner = "tls"

    async def _check_hello(self, place: Place) -> None:
        """Read whom the client wants to speak to: the host that it was let through for, and nobody else."""
        unseen = advice.to_pass_unseen(place.host, place.port)
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                hello = await read_hello(self._client)
            self._note(depth=depth_of(hello, place.host, ended_here=looks_inside(place.rule)))
        except TimeoutError:
            seconds = self._limits.head_seconds
            raise RefusalError(f"the client did not start TLS within {seconds:g} seconds", advice=unseen) from None
        except RefusalError as fault:
            fault.advice = unseen
            raise

    async def _look_inside(self, place: Place) -> None:
        terminate = self._means.options.terminate
        if terminate is None or self._means.options.secure is None:
            raise RefusalError(f"connections to {place.host} must be inspected, and this gate cannot")
        await self._grant()
        await self._check_hello(place)
        self._manner = "none"  # TLS itself says what is wrong with it
        self._client = Ahead(await terminate(self._client, place.host))
        self._manner = "http"
        self._note(depth="inspected")
        head = await self._head()
        target = origin_target(head, place.host, place.port)
        check_host(head.headers, target, HTTPS, head.minor)
        await self._request(head, target, secured=True)

    async def _request(self, head: Head, target: Target, *, secured: bool) -> None:
        place = self._fitting(self._judge(target), head.method, target.path)
        options = self._means.options
        await self._means.asking.check(place)
        order = order_of(head, place, target.path, secured=secured, options=options)
        if order.length == 0 and self._client.take():
            raise malformed("one request per connection: bytes came after the request")
        if order.masked and options.mask is None:
            raise RefusalError("a secret would go out, and nothing could hide it in the answer")
        with self._seat(place.rule):
            reached = await self._reach(place, tunnel=secured)
            with _left_behind(reached.wire):
                far = await self._secured(reached.wire, place.host) if secured else reached.wire
                errand = Errand(
                    head=spelled(order, reached.proxy),
                    method=head.method,
                    minor=head.minor,
                    length=order.length,
                    mask=options.mask if order.masked else None,
                    scan=options.scan() if options.scan is not None else None,
                )
                await self._exchange(Exchange(self._client, far, errand, self._meter))

    async def _exchange(self, exchange: Exchange) -> None:
        try:
            await exchange.run(self._limits.idle_seconds)
        finally:
            if exchange.answered:
                self._manner = "none"

    def _fitting(self, place: Place, method: str, path: str) -> Place:
        """Find the rule that has the method and the path."""
        reasons = []
        for rule in ways(self._means.terms, place.host, place.port) or (None,):
            reason = judge_request(rule, method, path)
            if not reason:
                return place._replace(rule=rule)
            reasons.append(reason)
        raise RefusalError(reasons[0], advice=advice.to_request(place.host, place.port, method, path))

    async def _reach(self, place: Place, *, tunnel: bool) -> Reached:
        reached = await self._means.dialler.reach(place, tunnel=tunnel)
        self._note(address=reached.address)
        if self._means.options.opened is not None and self.attempt is not None:
            self._means.options.opened(self.attempt)
        return reached

    async def _secured(self, wire: Wire, host: str) -> Duplex:
        secure = self._means.options.secure
        if secure is None:
            raise RefusalError(f"connections to {host} must be inspected, and this gate cannot")
        try:
            return await secure(wire, host)
        except OSError as fault:
            raise UpstreamError(str(fault)) from fault

    @contextlib.contextmanager
    def _seat(self, rule: EgressRule | None) -> Iterator[None]:
        """Count the connection for its rule while it lasts: from here on it is allowed."""
        account = self._means.account(rule)
        account.enter()
        self._note(decision="allowed", rule=(rule.rule or rule.host) if rule else "")
        self._meter = Meter(account)
        try:
            yield
        finally:
            account.leave()

    async def _fail(self, fault: RefusalError | UpstreamError) -> None:
        """Write down why not, and say it to the client in whatever way it can still hear."""
        # What went out was not blocked, whatever came after.
        blocked = isinstance(fault, RefusalError) and not fault.midway and not self._meter.bytes_out
        self._note(reason=fault.message, advice=getattr(fault, "advice", ""), failed=True)
        if blocked:
            self._note(decision="blocked")
        said = reply(fault, self.attempt.method if self.attempt else "")
        if self._manner == "tls":
            said = alert(fault.alert if isinstance(fault, RefusalError) else INTERNAL_ERROR)
        if self._manner == "none":
            self._wire.abort()
            return
        with contextlib.suppress(OSError):
            async with asyncio.timeout(PARTING_SECONDS):
                await self._client.write(said)
        await self._part()

    async def _part(self) -> None:
        """End, and read what still comes for a moment: closing on unread bytes would take the answer back."""
        with contextlib.suppress(OSError):
            async with asyncio.timeout(PARTING_SECONDS):
                await self._client.end()
                left = PARTING_BYTES
                while left > 0 and (data := await self._wire.read(CHUNK_BYTES)):
                    left -= len(data)

    def _note(self, **fields: str | int | bool) -> None:
        if self.attempt is not None:
            self.attempt = msgspec.structs.replace(self.attempt, **fields)


@contextlib.contextmanager
def _left_behind(wire: Wire) -> Iterator[None]:
    """Close the far side in order when all went well, else by a reset: it must not take a part for the whole."""
    try:
        yield
    except BaseException:
        wire.abort()
        raise
    wire.close()


def _broken(fault: OSError) -> str:
    """Say how a connection ended that nobody refused; an error without a number has a sentence of its own."""
    return f"the connection broke: {fault.strerror}" if fault.strerror else str(fault) or "it took too long"
