"""The gate with real TLS at both of its ends: what a client inside sees of a server outside."""

import asyncio
import ssl

import pytest

from tests.unit.egress.world import World, answer, connect, request
from tipstaff.egress.authority import Authority
from tipstaff.egress.inspection import Inspection
from tipstaff.egress.terms import Terms
from tipstaff.model.network import EgressRule

INSPECTED = EgressRule(host="a.test", inspect=True, methods=("GET",))


@pytest.fixture(scope="module")
def internet():
    """The authority that the world outside trusts."""
    return Authority()


async def serve(reader, writer):
    """Answer with the first line of the request."""
    body = (await request(reader)).partition(b"\r\n")[0]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def ask(internet, trusted, rule, outside, sent):
    """Send a request over TLS through a gate with one rule, and give the answer and the record."""
    ours = Authority()
    inspection = Inspection(ours, outside.certificate_pem)
    gate = World(Terms((rule,)), serve, None, terminate=inspection.terminate, secure=inspection.secure)
    await gate.open()
    server = await asyncio.start_server(gate._served, "127.0.0.1", 0, ssl=internet.server_context("a.test"))
    gate.server_port = server.sockets[0].getsockname()[1]
    try:
        reader, writer = await gate.client()
        writer.write(connect("a.test:443"))
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        context = ssl.create_default_context(cadata=(trusted or ours).certificate_pem)
        await writer.start_tls(context, server_hostname="a.test")
        writer.write(sent)
        reply = await answer(reader)
        writer.close()
        return reply, (await gate.told())[0]
    finally:
        await gate.close()
        server.close()


async def test_a_tunnel_is_the_servers_own(internet):
    """Without inspection the client sees the certificate of the server itself."""
    rule = EgressRule(host="a.test")
    reply, attempt = await ask(internet, internet, rule, internet, b"POST /x HTTP/1.1\r\nHost: a.test\r\n\r\n")

    assert reply.endswith(b"POST /x HTTP/1.1")
    assert (attempt.depth, attempt.decision) == ("sni", "allowed")


@pytest.mark.parametrize(("method", "status"), [(b"GET", b"200"), (b"POST", b"403")])
async def test_an_inspected_request_is_judged(internet, method, status):
    """With inspection the client trusts the session's authority, and the method decides."""
    sent = method + b" /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
    reply, attempt = await ask(internet, None, INSPECTED, internet, sent)

    assert reply.split()[1] == status
    assert (attempt.depth, attempt.method) == ("inspected", method.decode())


async def test_a_server_that_nobody_vouches_for_gets_nothing(internet):
    """A server whose certificate the host does not trust is told to the client, inside TLS."""
    reply, attempt = await ask(internet, None, INSPECTED, Authority(), b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")

    assert reply.startswith(b"HTTP/1.1 502 upstream error: the certificate of a.test is not accepted")
    assert attempt.bytes_out == 0
