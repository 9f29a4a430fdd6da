"""The gate over the wire: who gets through, who does not, and what is told about both."""

import asyncio
import base64
import contextlib
import socket

import pytest

from tests.unit.egress.world import QUICK, answer, answering, connect, echo, get, hello, world
from tipstaff.egress.options import Limits
from tipstaff.model.network import EgressRule

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
RULE = EgressRule(host="a.test", ports=(80, 443), rule="hosts-1")


def body(reply):
    return reply.partition(b"\r\n\r\n")[2].decode()


@contextlib.asynccontextmanager
async def tunnel(gate, place="a.test:443", first=None):
    """Open a tunnel whose hello has come back from the echo."""
    reader, writer = await gate.client()
    writer.write(connect(place))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
    first = hello("a.test") if first is None else first
    writer.write(first)
    assert await reader.readexactly(len(first)) == first
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_a_request_is_forwarded():
    """An allowed request reaches the server and its answer comes back; both are counted and told."""
    async with world([RULE], answering(OK)) as gate:
        assert (await gate.talk(get("a.test"))).endswith(b"\r\n\r\nhi")
        [attempt] = await gate.told()

    assert (attempt.host, attempt.port, attempt.method, attempt.depth) == ("a.test", 80, "GET", "http")
    assert (attempt.decision, attempt.rule, attempt.reason) == ("allowed", "hosts-1", "")
    assert attempt.address == "93.184.215.14"
    assert attempt.bytes_out > 20
    assert attempt.bytes_in >= 36


@pytest.mark.parametrize("request_", [get("b.test"), get("a.test:8080"), connect("b.test:443"), connect("a.test:22")])
async def test_what_no_rule_has_is_refused(request_):
    """Another host or another port is refused for CONNECT and for forwarding alike, and is never resolved."""
    async with world([RULE]) as gate:
        reply = await gate.talk(request_)
        [attempt] = await gate.told()

    assert reply.startswith(b"HTTP/1.1 403 blocked by tipstaff egress policy: ")
    assert body(reply) == f"blocked by tipstaff egress policy: {attempt.reason}\nto allow it: {attempt.advice}\n"
    assert attempt.advice == f"--allow-host {attempt.host}:{attempt.port}"
    assert (attempt.decision, attempt.bytes_out, attempt.address) == ("blocked", 0, "")
    assert (gate.resolved, gate.dialled) == ([], [])


@pytest.mark.parametrize("request_", [get("a.test"), connect("a.test:443")])
async def test_no_rules_allow_nothing(request_):
    """An empty list is nothing, not everything."""
    async with world([]) as gate:
        assert b" 403 " in await gate.talk(request_)
        assert gate.resolved == []


@pytest.mark.parametrize(
    "host",
    ["a%00.test", "x@a.test", "0x7f.1", "127.1", "2130706433", "[::ffff:127.0.0.1]", "a" * 64 + ".test", "a..test"],
)
@pytest.mark.parametrize("spell", [get, lambda host: connect(f"{host}:443")], ids=["get", "connect"])
async def test_odd_hosts_are_refused_before_anybody_resolves(spell, host):
    """Hosts with NUL, credentials, other spellings of addresses and over-long labels go nowhere, even with `*`."""
    async with world([EgressRule(host="*")], default_deny=False) as gate:
        assert (await gate.talk(spell(host))).split()[1] in {b"400", b"403"}
        assert [attempt.decision for attempt in await gate.told()] == ["blocked"]
        assert (gate.resolved, gate.dialled) == ([], [])


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1", "::ffff:10.0.0.1"]
)
async def test_a_name_does_not_lead_inside(address):
    """An allowed name that resolves to an address inside is refused, with the line that would allow it."""
    async with world([RULE], names={"a.test": [address]}) as gate:
        reply = await gate.talk(get("a.test"))
        [attempt] = await gate.told()

    assert b" 403 " in reply
    assert address in attempt.reason
    assert ",address=" in attempt.advice
    assert (gate.resolved, gate.dialled) == (["a.test"], [])


async def test_only_the_checked_address_is_dialled():
    """Of several addresses those inside are left out, and what is dialled is what was checked, resolved once."""
    async with world([RULE], answering(OK), names={"a.test": ["127.0.0.1", "93.184.215.14"]}) as gate:
        assert b" 200 " in await gate.talk(get("a.test"))

    assert (gate.resolved, gate.dialled) == (["a.test"], ["93.184.215.14 80"])


async def test_a_rule_with_addresses_asks_no_resolver():
    """A name whose rule lists single addresses is dialled there, even inside, and never resolved."""
    rule = EgressRule(host="a.test", addresses=("10.0.0.7",))
    async with world([rule], answering(OK)) as gate:
        assert b" 200 " in await gate.talk(get("a.test"))

    assert (gate.resolved, gate.dialled) == ([], ["10.0.0.7 80"])


async def test_a_literal_is_dialled_where_its_rule_names_it():
    """An address inside is reached by a rule for that very address, and not by `*`."""
    async with world([EgressRule(host="127.0.0.1")], answering(OK)) as gate:
        assert b" 200 " in await gate.talk(get("127.0.0.1"))
    async with world([EgressRule(host="*")], answering(OK)) as gate:
        assert b" 403 " in await gate.talk(get("127.0.0.1"))
        assert gate.dialled == []


async def test_an_open_network_still_denies():
    """With `defaultDeny: false` every host is let through and told, but no denied one and no address inside."""
    async with world(
        [], default_deny=False, deny=("bad.test",), names={"a.test": ["93.184.215.14"], "in.test": ["::1"]}
    ) as gate:
        async with tunnel(gate, "a.test:9", first=b"any protocol"):
            pass
        assert b" 403 " in await gate.talk(connect("bad.test:443"))
        assert b" 403 " in await gate.talk(connect("in.test:443"))
        told = await gate.told(3)

    assert sorted((one.host, one.decision, one.depth) for one in told) == [
        ("a.test", "allowed", "opaque"),
        ("bad.test", "blocked", ""),
        ("in.test", "blocked", ""),
    ]


async def test_a_tunnel_is_checked_by_its_hello():
    """A tunnel whose hello names the host goes through, both ways, and is told with its bytes."""
    async with world([RULE]) as gate:
        async with tunnel(gate) as (reader, writer):
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            writer.write_eof()
            assert await answer(reader) == b""
        [attempt] = await gate.told()

    size = len(hello("a.test")) + 4
    assert (attempt.decision, attempt.depth, attempt.method) == ("allowed", "sni", "CONNECT")
    assert (attempt.bytes_out, attempt.bytes_in) == (size, size)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (hello("b.test"), 112),
        (hello(None), 112),
        (hello("a.test", (0xFE0D, b"x")), 49),
        (b"SSH-2.0-OpenSSH\r\n", 49),
        (b"PUT it there\r\n\r\n", 49),
    ],
    ids=["another", "none", "encrypted", "ssh", "words"],
)
@pytest.mark.parametrize("opaque", [True, False])
async def test_what_hides_its_name_needs_an_opaque_rule(said, number, opaque):
    """Another name, no name, an encrypted hello or no TLS: nothing is sent on, unless the rule is opaque."""
    seen: list[bytes] = []

    async def serve(reader, writer):
        seen.append(await reader.read(1 << 16))
        writer.close()

    async with world([EgressRule(host="a.test", opaque=opaque)], serve) as gate:
        reply = await gate.talk(connect("a.test:443") + said)
        [attempt] = await gate.told()

    assert (b"".join(seen) == said) is opaque
    assert reply.endswith(b"\x15\x03\x03\x00\x02\x02" + bytes((number,))) is not opaque
    assert (attempt.decision, attempt.depth) == (("allowed", "opaque") if opaque else ("blocked", ""))
    assert (",opaque" in attempt.advice) is not opaque


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET /x HTTP/1.1\r\nHost: a.test:8080\r\n\r\n", b"200"),
        (b"GET /x HTTP/1.1\r\nHost: b.test:8080\r\n\r\n", b"403"),
        (b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n", b"403"),
        (b"GET /x HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", b""),
        (b"GET /x HTTP/1.1\r\nHost: a.test:8080\r\n\r\nGET /y HTTP/1.1\r\nHost: b.test\r\n\r\n", b"400"),
    ],
)
async def test_http_in_a_tunnel_is_judged_as_in_the_open(said, status):
    """Some clients ask for a tunnel for http too: each request in it is parsed, judged and written anew."""
    seen: list[bytes] = []

    async def serve(reader, writer):
        if request := await reader.read(1 << 16):
            seen.append(request)
            writer.write(OK)
        writer.close()

    async with world([EgressRule(host="a.test", ports=(8080,))], serve) as gate:
        reply = await gate.talk(connect("a.test:8080") + said)
        [attempt] = await gate.told()

    answered = reply.partition(b"\r\n\r\n")[2]
    assert answered.startswith(b"HTTP/1.1 " + status if status else b"\x15")
    assert bool(seen) is (status == b"200")
    assert (attempt.decision, attempt.depth) == (
        ("allowed", "http") if status == b"200" else ("blocked", attempt.depth)
    )


async def test_a_hello_in_many_segments_is_put_together():
    """A hello may come byte by byte, in many records."""
    async with world([RULE]) as gate:
        reader, writer = await gate.client()
        writer.write(connect("a.test:443"))
        await reader.readuntil(b"\r\n\r\n")
        said = hello("a.test", record=7)
        for byte in said:
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        assert await reader.readexactly(len(said)) == said
        writer.close()


async def test_an_address_needs_no_name_in_its_hello():
    """TLS names no addresses: a tunnel to one goes by the CONNECT alone."""
    async with world([EgressRule(host="93.184.215.14")]) as gate:
        async with tunnel(gate, "93.184.215.14:443", first=hello(None)):
            pass
        [attempt] = await gate.told()

    assert attempt.depth == "name"


async def test_a_connect_without_port_means_443():
    """A CONNECT without a port is judged as 443."""
    async with world([EgressRule(host="a.test", ports=(443,))]) as gate:
        async with tunnel(gate, "a.test"):
            pass
        assert gate.dialled == ["93.184.215.14 443"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        (b"GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        (b"GET http://a.test/ HTTP/1.1\nHost: a.test\n\n", 400),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", 403),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n", 400),
        (b"GET http://a.test/ HTTP/1.1\r\n\r\n", 400),
        (b"TRACE http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 405),
        (b"GET http://a.test/ HTTP/3.0\r\n\r\n", 505),
        (get("a.test", "/", "Content-Length: 1", "Transfer-Encoding: chunked"), 400),
        (get("a.test", "/", "Connection: Host"), 400),
        (get("a.test", "/", "Expect: 200-maybe"), 417),
        (get("a.test") + get("a.test"), 400),
        (get("a.test", "/", "X: " + "y" * 40_000), 431),
        (b"CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"CONNECT http://a.test HTTP/1.1\r\n\r\n", 400),
        (b"\x05\x01\x00", 400),
        (hello("a.test"), 400),
        (b"\r\n\r\nGET http://a.test/ HTTP/1.1\r\n\r\n", 400),
    ],
)
async def test_what_is_no_request_is_refused(sent, status):
    """A malformed request gets a number and a sentence, reaches nobody, and is told once."""
    async with world([RULE]) as gate:
        reply = await gate.talk(sent)
        [attempt] = await gate.told()
        assert (gate.resolved, gate.dialled) == ([], [])

    assert reply.startswith(b"HTTP/1.1 %d " % status)
    assert len(body(reply)) > 20
    assert attempt.decision == "blocked"
    assert attempt.reason


async def test_credentials_guard_a_gate_that_others_can_reach():
    """A gate with credentials takes exactly those; everybody else gets 407, before anything is judged."""
    right = "Proxy-Authorization: bAsIc " + base64.b64encode(b"run:secret").decode()
    wrong = "Proxy-Authorization: Basic " + base64.b64encode(b"run:other").decode()
    async with world([RULE], answering(OK), credentials="run:secret") as gate:
        assert b" 200 " in await gate.talk(get("a.test", "/", right))
        for headers in ((), (wrong,), (right, right)):
            reply = await gate.talk(get("a.test", "/", *headers))
            assert reply.startswith(b"HTTP/1.1 407 ")
            assert b"Proxy-Authenticate: Basic" in reply
        assert b" 407 " in await gate.talk(connect("a.test:443"))
        assert len(gate.dialled) == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_a_rule_that_asks_waits_for_the_answer(approved):
    """The connection is held until somebody has answered; many connections are one question; no is no."""
    asked = []

    async def ask(host, port, rule):
        asked.append((host, port, rule.rule))
        await asyncio.sleep(0.02)
        return approved

    rule = EgressRule(host="a.test", ask=True, rule="r")
    async with world([rule], answering(OK), ask=ask) as gate:
        replies = await asyncio.gather(*(gate.talk(get("a.test")) for _ in range(3)))
        decisions = {attempt.decision for attempt in await gate.told(3)}
        assert (gate.dialled == []) is not approved

    assert asked == [("a.test", 80, "r")]
    assert {reply.split()[1] for reply in replies} == {b"200" if approved else b"403"}
    assert decisions == {"allowed" if approved else "blocked"}


async def test_a_rule_that_asks_nobody_is_refused():
    """Where nobody can be asked, what must be asked for is refused."""
    async with world([EgressRule(host="a.test", ask=True)], answering(OK)) as gate:
        assert b"nobody can be asked" in await gate.talk(get("a.test"))
        assert gate.dialled == []


async def test_a_run_cannot_tire_its_approver_out():
    """After a bounded number of questions everything else is refused unasked."""
    asked = []

    async def ask(host, _port, _rule):
        asked.append(host)
        return True

    async with world([EgressRule(host="*.test", ask=True)], answering(OK), ask=ask) as gate:
        replies = [await gate.talk(get(f"h{number}.test")) for number in range(34)]

    assert [reply.split()[1] for reply in replies] == [b"200"] * 32 + [b"403"] * 2
    assert len(asked) == 32


async def test_too_many_connections_are_told_so():
    """Beyond the limit a connection is refused with a sentence, and taken again when there is room."""
    limits = Limits(connections=2, head_seconds=5)
    async with world([RULE], limits=limits) as gate:
        async with tunnel(gate), tunnel(gate):
            assert b" 503 " in await gate.talk(get("a.test"))
        await gate.told(3)
        async with tunnel(gate):
            pass


async def test_a_slow_head_ends():
    """A head that does not get finished is refused; a client that says nothing is let go, and attempted nothing."""
    async with world([RULE], limits=Limits(head_seconds=0.3)) as gate:
        silent, _writer = await gate.client()
        assert (await gate.talk(b"GET http://a")).startswith(b"HTTP/1.1 408 ")
        assert await answer(silent) == b""
        assert len(await gate.told()) == 1
        _writer.close()


async def test_a_tunnel_without_hello_ends():
    """A client that gets its tunnel and then says nothing is ended."""
    async with world([RULE], limits=Limits(head_seconds=0.3)) as gate:
        assert (await gate.talk(connect("a.test:443"))).endswith(b"\x15\x03\x03\x00\x02\x02\x31")
        assert "did not start TLS" in (await gate.told())[0].reason


@pytest.mark.parametrize(
    ("names", "sentence"), [({}, "does not resolve: no such name"), ({"a.test": []}, "has no address")]
)
async def test_a_name_that_leads_nowhere_is_told(names, sentence):
    """A name that does not resolve is the other side's fault, and said so."""
    async with world([RULE], names=names) as gate:
        reply = await gate.talk(connect("a.test:443"))
        [attempt] = await gate.told()

    assert reply.startswith(b"HTTP/1.1 502 upstream error: the name a.test ")
    assert sentence in attempt.reason
    assert attempt.decision == "allowed"


async def test_a_host_that_is_down_is_told():
    """A refused connection is a 502 with a sentence; one that never answers is a 504 in time."""

    async def refused(_address, _port):
        raise ConnectionRefusedError(111, "Connection refused")

    async def silence(_address, _port):
        await asyncio.sleep(60)

    async with world([RULE], dial=refused) as gate:
        assert b"502 upstream error: a.test:443 cannot be reached: Connection refused" in await gate.talk(
            connect("a.test")
        )
    async with world([RULE], dial=silence, limits=Limits(connect_seconds=0.1)) as gate:
        assert b"504 upstream error: a.test:443 did not answer within 0.1 seconds" in await gate.talk(connect("a.test"))


async def test_the_next_address_is_tried():
    """A name with several addresses is reached by the first that answers."""
    tried = []

    async with world([RULE], answering(OK), names={"a.test": ["1.1.1.1", "1.1.1.2"]}) as gate:
        reach = gate._dial

        async def dial(address, port):
            tried.append(address)
            if address == "1.1.1.1":
                raise OSError(113, "No route to host")
            return await reach(address, port)

        gate.gate._means.dialler._dial = dial
        assert b" 200 " in await gate.talk(get("a.test"))

    assert tried == ["1.1.1.1", "1.1.1.2"]


async def test_closing_ends_everything_at_once():
    """Closing waits for no peer; every attempt that was open is told, with the bytes that it moved."""
    async with world([RULE], limits=QUICK) as gate:
        async with tunnel(gate), tunnel(gate):
            half, writer = await gate.client()
            writer.write(b"GET http://a.te")
            await asyncio.sleep(0.01)
            async with asyncio.timeout(2):
                await gate.gate.close()
            assert len(gate.attempts) == 3
            assert await answer(half) == b""
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await gate.client()

    assert sorted((one.decision, one.bytes_out > 0, one.reason) for one in gate.attempts) == [
        ("allowed", True, "the gate was closed"),
        ("allowed", True, "the gate was closed"),
        ("blocked", False, "the gate was closed"),
    ]


async def test_a_gate_can_be_closed_twice():
    """Closing again, or a gate that never served, is no error."""
    async with world([RULE]) as gate:
        await gate.gate.close()


async def test_a_client_that_vanishes_leaves_nothing():
    """Clients that go away at any moment end their tunnels, and nothing of the loop breaks."""
    async with world([RULE], echo) as gate:
        for sent in (b"G", connect("a.test"), connect("a.test") + hello("a.test"), get("a.test")):
            for reset in (True, False):
                client = socket.create_connection(("127.0.0.1", gate.port))
                client.sendall(sent)
                await asyncio.sleep(0.005)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
        await gate.told(8)
        await asyncio.sleep(0)
        assert len(gate.gate._tasks) == 0


async def test_a_fault_of_ours_lets_nothing_out():
    """A defect in what the gate was given ends the connection, and is told as what it is."""

    async def resolve(_host, _port):
        raise RuntimeError("a defect")

    async with world([RULE], resolve=resolve) as gate:
        assert await gate.talk(get("a.test")) == b""
        [attempt] = await gate.told()
        assert [fault["message"] for fault in gate.faults] == ["the egress gate failed"]
        gate.faults.clear()

    assert (attempt.decision, attempt.reason) == ("blocked", "the gate failed: RuntimeError")
