"""The host's own proxy is used where there is one, and is told no more than it must know."""

import asyncio
import contextlib

import pytest

from tests.unit.egress.world import answer, answering, connect, get, request, world
from tipstaff.egress.upstream import Upstream
from tipstaff.model.network import EgressRule

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
PROXY = Upstream("proxy.test", 3128, "Basic dTpw", direct=("direct.test",))
ANY = EgressRule(host="*", opaque=True)


def proxy(said=b"HTTP/1.1 200 OK\r\n\r\n", seen=None):
    """Make a proxy that answers a CONNECT so, and then echoes."""

    async def serve(reader, writer):
        head = await request(reader)
        if seen is not None:
            seen.append(head)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(100):
                writer.write(data)

    return serve


async def test_a_tunnel_goes_through_the_proxy():
    """A CONNECT is put to the host's proxy with its credentials; the name is resolved there and not here."""
    seen: list[bytes] = []
    async with world([ANY], proxy(seen=seen), upstream=PROXY) as gate:
        reader, writer = await gate.client()
        writer.write(connect("a.test:8443") + b"ping")
        assert (await reader.readuntil(b"ping")).startswith(b"HTTP/1.1 200 ")
        writer.close()
        [attempt] = await gate.told()

    assert seen == [b"CONNECT a.test:8443 HTTP/1.1\r\nHost: a.test:8443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"]
    assert gate.resolved == ["proxy.test"]
    assert attempt.address == "via proxy.test:3128"


async def test_a_request_goes_through_the_proxy():
    """A plain request is forwarded as a URL, with the proxy's credentials and not the client's."""
    seen: list[bytes] = []
    async with world([ANY], answering(OK, seen), upstream=PROXY) as gate:
        assert (await gate.talk(get("a.test", "/x", "Proxy-Authorization: Basic c2FuZGJveA=="))).endswith(b"hi")

    assert seen == [
        b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
    ]


async def test_the_proxy_is_told_no_name_that_is_refused():
    """A refused name reaches neither a resolver nor the proxy, and an address inside does not either."""
    async with world([EgressRule(host="a.test"), EgressRule(host="*.in.test")], proxy(), upstream=PROXY) as gate:
        assert b" 403 " in await gate.talk(connect("b.test:443"))
    async with world([ANY], proxy(), upstream=PROXY) as gate:
        assert b" 403 " in await gate.talk(connect("169.254.169.254:80"))
        assert (gate.resolved, gate.dialled) == ([], [])


@pytest.mark.parametrize("rule", [ANY, EgressRule(host="a.test", addresses=("10.0.0.9",), opaque=True)])
async def test_some_places_are_dialled_directly(rule):
    """A host of `no_proxy`, and a rule with addresses, go past the proxy."""
    host = "direct.test" if rule is ANY else "a.test"
    async with world([rule], answering(OK), upstream=PROXY) as gate:
        await gate.talk(get(host))

    assert gate.dialled == ["93.184.215.14 80" if rule is ANY else "10.0.0.9 80"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407"),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", "answered 200"),
        (b"garbage\r\n\r\n", "cannot be used"),
        (b"", ""),
    ],
)
async def test_a_proxy_that_refuses_is_told(said, sentence):
    """What the host's proxy does not let through is a 502 with its answer."""

    async def serve(reader, writer):
        await request(reader)
        writer.write(said)
        await writer.drain()

    async with world([ANY], serve, upstream=PROXY) as gate:
        reply = await gate.talk(connect("a.test"))

    assert reply.startswith(b"HTTP/1.1 502 upstream error: this host's own proxy ")
    assert sentence.encode() in reply


async def test_a_reset_while_waiting_is_told():
    """A server that resets before it answers is a 502."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    async with world([ANY], serve) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test"))
        assert (await answer(reader)).startswith(b"HTTP/1.1 502 ")
        await asyncio.sleep(0)
        writer.close()
