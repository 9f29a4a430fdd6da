"""Connections that are looked into: what is inside TLS is judged as if it had come in the open.

TLS itself is taken out of these tests: the client sends its hello and then plain bytes, as if both sides had agreed.
"""

from typing import Any

import pytest

from tests.unit.egress.world import answer, answering, connect, hello, world
from tipstaff.egress.duplex import Ahead
from tipstaff.egress.reading import read_hello
from tipstaff.model.network import EgressRule

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
RULE = EgressRule(host="a.test", ports=(443,), inspect=True, methods=("GET",), paths=("/v1/*",), rule="inspected")


async def terminate(client, _host):
    """Take the hello away, as if TLS had been agreed on."""
    ahead = Ahead(client)
    await read_hello(ahead)
    read = ahead.take()
    ahead.give_back(read[len(hello("a.test")) :])
    return ahead


async def secure(upstream, _host):
    return upstream


PROTECTED: dict[str, Any] = {"terminate": terminate, "secure": secure}


async def ask(gate, sent, name="a.test"):
    """Open an inspected connection, send something in it, and give what comes back after the grant."""
    reader, writer = await gate.client()
    writer.write(connect("a.test:443"))
    granted = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in granted:
        return granted + await answer(reader)
    writer.write(hello(name) + sent)
    try:
        return await answer(reader)
    finally:
        writer.close()


def inner(path="/v1/x", host="a.test", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_a_request_inside_is_judged_and_carried():
    """A request whose method and path the rule has goes through, and the record says that it was seen."""
    seen: list[bytes] = []
    async with world([RULE], answering(OK, seen), **PROTECTED) as gate:
        assert (await ask(gate, inner())).endswith(b"hi")
        [attempt] = await gate.told()

    assert seen == [b"GET /v1/x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"]
    assert (attempt.depth, attempt.method, attempt.decision, attempt.rule) == (
        "inspected",
        "GET",
        "allowed",
        "inspected",
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (inner(method="POST"), 403),
        (inner("/v2/x"), 403),
        (inner("/v1/../admin"), 403),
        (inner(host="b.test"), 403),
        (inner(host="a.test:8443"), 403),
        (b"GET https://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", 400),
        (b"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (inner() + inner("/v1/y"), 400),
    ],
)
async def test_a_request_inside_that_no_rule_has_reaches_nobody(sent, status):
    """Another method, path or Host, another protocol, or a second request: refused inside TLS, before anybody dials."""
    async with world([RULE], answering(OK), **PROTECTED) as gate:
        assert (await ask(gate, sent)).startswith(b"HTTP/1.1 %d " % status)
        [attempt] = await gate.told()
        assert (gate.resolved, gate.dialled) == ([], [])

    assert (attempt.decision, attempt.depth) == ("blocked", "inspected")


@pytest.mark.parametrize("missing", ["terminate", "secure"])
async def test_a_gate_that_cannot_look_inside_refuses(missing):
    """An inspected rule without the means to inspect is refused, never passed by."""
    means = {name: value for name, value in PROTECTED.items() if name != missing}
    async with world([RULE], answering(OK), **means) as gate:
        assert b" 403 " in await ask(gate, inner())
        assert gate.dialled == []


async def test_paths_without_inspect_are_inspected_all_the_same():
    """A rule with methods or paths is never tunnelled unseen."""
    async with world([EgressRule(host="a.test", paths=("/x",))], answering(OK)) as gate:
        assert b"must be inspected" in await ask(gate, inner())


async def test_the_hello_of_an_inspected_connection_must_name_its_host():
    """TLS is not ended for another name than the one that was allowed."""
    async with world([RULE], answering(OK), **PROTECTED) as gate:
        assert await ask(gate, inner(), name="b.test") == b"\x15\x03\x03\x00\x02\x02\x70"
        assert gate.dialled == []


async def test_secrets_go_in_over_tls():
    """What is put in knows that it goes over TLS, and where to."""
    asked = []

    def inject(outgoing):
        asked.append((outgoing.host, outgoing.port, outgoing.method, outgoing.path, outgoing.secured))
        return outgoing

    async with world([RULE], answering(OK), inject=inject, **PROTECTED) as gate:
        await ask(gate, inner("/v1/x?y"))

    assert asked == [("a.test", 443, "GET", "/v1/x?y", True)]


@pytest.mark.parametrize("side", ["terminate", "secure"])
async def test_tls_that_fails_is_told(side):
    """A client that does not trust us, and a server that cannot be trusted, are told with their sentence."""

    async def fail(_duplex, _host):
        raise OSError("the certificate is not accepted")

    async with world([RULE], answering(OK), **{**PROTECTED, side: fail}) as gate:
        reply = await ask(gate, inner())
        [attempt] = await gate.told()

    assert "the certificate is not accepted" in attempt.reason
    assert (b"502 upstream error: the certificate is not accepted" in reply) is (side == "secure")
