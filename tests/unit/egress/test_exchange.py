"""Requests and answers are carried whole, written anew, and masked where something was put in."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.unit.egress.world import answer, answering, get, request, world
from tipstaff.egress.options import Limits
from tipstaff.model.network import EgressRule

RULE = EgressRule(host="a.test")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
POST: dict[str, Any] = {"method": "POST"}


def chunked(*pieces):
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def reply_to(said, sent=None, **options):
    """Give what a client gets when the server says so."""
    async with world([RULE], answering(said), **options) as gate:
        reply = await gate.talk(get("a.test") if sent is None else sent)
        [attempt] = await gate.told()
    return reply, attempt


async def test_a_request_is_written_anew():
    """The server sees a path, one Host, what is meant for it, and that the connection closes; nothing of this hop."""
    seen: list[bytes] = []
    async with world([RULE], answering(OK, seen)) as gate:
        await gate.talk(
            get("a.test", "/x?y", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Proxy-Connection: z", "accept:  */*")
        )

    assert seen == [b"GET /x?y HTTP/1.1\r\nHost: a.test\r\naccept: */*\r\nConnection: close\r\n\r\n"]


@pytest.mark.parametrize(
    ("headers", "body", "arrives"),
    [
        (("Content-Length: 5",), b"hello", b"hello"),
        (("Content-Length: 0",), b"", b""),
        (("Transfer-Encoding: chunked",), chunked(b"hel", b"lo"), chunked(b"hello")),
    ],
)
async def test_a_body_arrives(headers, body, arrives):
    """A body arrives with its length said once, chunks written anew."""
    seen: list[bytes] = []
    async with world([RULE], answering(OK, seen)) as gate:
        assert (await gate.talk(get("a.test", "/", *headers, body=body, **POST))).endswith(b"hi")

    assert seen[0].partition(b"\r\n\r\n")[2] == arrives
    assert seen[0].lower().count(b"content-length") + seen[0].lower().count(b"transfer-encoding") == 1


async def test_a_large_body_streams_both_ways():
    """Megabytes go through in both directions."""
    data = bytes(range(256)) * (1 << 13)

    async def serve(reader, writer):
        sent = await request(reader)
        body = sent.partition(b"\r\n\r\n")[2]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async with world([RULE], serve) as gate:
        reply = await gate.talk(get("a.test", "/", f"Content-Length: {len(data)}", body=data, **POST))
        [attempt] = await gate.told()

    assert reply.partition(b"\r\n\r\n")[2] == data
    assert attempt.bytes_out > len(data)
    assert attempt.bytes_in > len(data)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (("Content-Length: 2",), b"hello"),
        (("Transfer-Encoding: chunked",), chunked(b"hello") + b"GET / HTTP/1.1\r\n"),
        (("Transfer-Encoding: chunked",), b"5;x\r\nhello\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"5\nhello\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"zz\r\n"),
    ],
)
async def test_a_body_that_smuggles_is_refused(headers, body):
    """Bytes after the body, and chunks that could be read in two ways, end the request."""
    async with world([RULE], answering(OK)) as gate:
        reply = await gate.talk(get("a.test", "/", *headers, **POST), body)
        [attempt] = await gate.told()

    assert reply[:13] in {b"HTTP/1.1 400 ", b""}
    assert attempt.failed
    assert (attempt.decision == "blocked") is (attempt.bytes_out == 0)


async def test_a_second_request_is_not_carried():
    """A request sent while the first is being answered ends the connection: it was not judged."""
    seen: list[bytes] = []

    async def serve(reader, writer):
        seen.append(await request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nstart")
        with contextlib.suppress(ConnectionError):
            seen.append(await reader.read(100))

    async with world([RULE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test"))
        await reader.readuntil(b"start")
        writer.write(get("a.test", "/second"))
        assert await answer(reader) == b""
        [attempt] = await gate.told()

    assert b"second" not in b"".join(seen)
    assert "one request per connection" in attempt.reason


async def test_a_client_may_end_its_side():
    """A client that ends its side after the request is still answered."""
    async with world([RULE], answering(OK)) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test"))
        writer.write_eof()
        assert (await answer(reader)).endswith(b"hi")


async def test_a_body_that_ends_early_is_not_whole():
    """A client that goes away in the middle of its body gets no answer, and the server no whole request."""
    got: list[bytes] = []

    async def serve(reader, _writer):
        with contextlib.suppress(ConnectionError):
            got.append(await request(reader))

    async with world([RULE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test", "/", "Content-Length: 10", body=b"half", **POST))
        writer.write_eof()
        assert (await answer(reader)).startswith(b"HTTP/1.1 400 ")
        await gate.told()

    assert b"".join(got) == b""


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (OK, b"hi"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"ab", b"cd"), chunked(b"abcd")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
async def test_an_answer_arrives(said, body):
    """Every way to say how long an answer is arrives as it was meant; redirects are the client's to follow."""
    reply, attempt = await reply_to(said)
    head, _, rest = reply.partition(b"\r\n\r\n")

    assert head.split()[1] == said.split()[1]
    assert head.endswith(b"\r\nConnection: close")
    assert rest == body
    assert attempt.reason == ""


async def test_headers_of_the_answers_hop_stay():
    """What the server says to this hop alone does not reach the client."""
    reply, _ = await reply_to(
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\nX-Kept: 2\r\n"
        b"Proxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
    )

    assert reply == b"HTTP/1.1 200 OK\r\nX-Kept: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def test_an_answer_ends_although_the_server_stays():
    """A server that does not hang up after a whole answer keeps nobody waiting."""

    async def serve(reader, writer):
        await request(reader)
        writer.write(OK)
        await reader.read()

    async with world([RULE], serve) as gate:
        assert (await gate.talk(get("a.test"))).endswith(b"hi")


async def test_an_answer_to_head_has_no_body():
    """The length in an answer to HEAD is not waited for."""
    reply, _ = await reply_to(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", get("a.test", method="HEAD"))

    assert b"Content-Length: 500" in reply


async def test_what_comes_before_the_answer_is_passed_on():
    """An interim answer reaches a client that waits for it, before its body is sent."""

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Expect: 100-continue" in head
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await reader.readexactly(5)
        writer.write(OK)

    async with world([RULE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test", "/", "Content-Length: 5", "Expect: 100-continue", **POST))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        assert (await answer(reader)).endswith(b"hi")


async def test_an_old_client_gets_no_chunks():
    """A client of HTTP/1.0 gets plain bytes and no interim answers, whatever the server sends."""
    said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"ab", b"cd")
    reply, _ = await reply_to(said, b"GET http://a.test/ HTTP/1.0\r\n\r\n")

    assert reply == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcd"


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"", "closed without an answer"),
        (b"garbage\r\n\r\n", "cannot be understood"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "cannot be understood"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "cannot be understood"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "cannot be understood"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "cannot be understood"),
        (b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n", "cannot be understood"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 102 Wait\r\n\r\n" * 20, ""),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * (300 << 10) + b"\r\n\r\n", "cannot be understood"),
        (b"HTTP/1.1 200", "cannot be understood"),
    ],
)
async def test_an_answer_that_is_none_is_a_bad_gateway(said, sentence):
    """Silence, garbage and answers of two readings are a 502 with a sentence, and nothing of them is passed on."""
    reply, attempt = await reply_to(said)

    assert sentence in attempt.reason
    assert attempt.decision == "allowed"
    assert not sentence or reply.startswith(b"HTTP/1.1 502 upstream error: ")


async def test_an_answer_that_breaks_off_is_not_whole():
    """A client can tell an answer that broke off from one that ended."""
    reply, attempt = await reply_to(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    assert b"Content-Length: 10" in reply or reply == b""
    assert attempt.reason == "the answer ends before its end"


async def test_a_silent_server_is_a_timeout():
    """A server that does not answer in time is a 504."""

    async def serve(reader, _writer):
        await reader.read()

    async with world([RULE], serve, limits=Limits(idle_seconds=0.1)) as gate:
        assert (await gate.talk(get("a.test"))).startswith(b"HTTP/1.1 504 upstream error: nothing came")


async def test_an_early_answer_ends_the_body():
    """A server may answer before it has read everything; the client gets the answer."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()

    async with world([RULE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(get("a.test", "/", "Content-Length: 100000000", **POST) + bytes(1000))
        assert (await answer(reader)).endswith(b"\r\n\r\nbig")


class Stars:
    """Masks `secret`, and holds back what could become it."""

    def __init__(self):
        self._kept = b""

    def feed(self, data):
        data = (self._kept + data).replace(b"secret", b"******")
        cut = next((size for size in range(5, 0, -1) if data.endswith(b"secret"[:size])), 0)
        data, self._kept = data[: len(data) - cut], data[len(data) - cut :]
        return data

    def end(self):
        return self._kept


def inject(outgoing):
    headers = tuple((name, value.replace(b"PLACEHOLDER", b"secret")) for name, value in outgoing.headers)
    if outgoing.path == "/refused":
        return "the placeholder of TOKEN is not for this path"
    return type(outgoing)(outgoing.host, outgoing.port, outgoing.method, outgoing.path, headers, outgoing.secured)


WITH = "Authorization: PLACEHOLDER"
ASKED: dict[str, Any] = {"inject": inject, "mask": Stars}


async def test_what_was_put_in_reaches_the_server_alone():
    """The server gets the value, uncompressed and whole answers are asked for, and an echo is masked everywhere."""
    seen: list[bytes] = []
    said = b"HTTP/1.1 200 OK\r\nX-Echo: secret\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(
        b"a sec", b"ret b", b"sec"
    )
    async with world([RULE], answering(said, seen), **ASKED) as gate:
        reply = await gate.talk(get("a.test", "/", WITH, "Accept-Encoding: gzip", "Range: bytes=0-3"))

    assert b"Authorization: secret\r\n" in seen[0]
    assert b"Accept-Encoding: identity" in seen[0]
    assert b"gzip" not in seen[0]
    assert b"Range" not in seen[0]
    assert b"X-Echo: ******\r\n" in reply
    assert b"secret" not in reply.replace(b"\r\n", b"")
    assert reply.count(b"*") == 12


async def test_an_answer_of_known_length_stays_so_long():
    """Masking changes no length."""
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nmy secret is"
    reply, _ = await reply_to(said, get("a.test", "/", WITH), **ASKED)

    assert reply.endswith(b"Content-Length: 12\r\nConnection: close\r\n\r\nmy ****** is")


async def test_without_a_placeholder_nothing_is_touched():
    """A request that nothing was put into keeps its encodings, and its answer is not masked."""
    seen: list[bytes] = []
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nsecret"
    async with world([RULE], answering(said, seen), **ASKED) as gate:
        assert (await gate.talk(get("a.test", "/", "Accept-Encoding: gzip", "Range: bytes=0-3"))).endswith(b"secret")

    assert b"Accept-Encoding: gzip" in seen[0]
    assert b"Range: bytes=0-3" in seen[0]


@pytest.mark.parametrize("host", ["a.test", "b.test"])
async def test_who_may_know_a_secret_is_masked_at_any_time(host):
    """A host that may have kept a secret from an earlier request gives it back masked, without a placeholder too."""
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nmy secret is"
    reply, _ = await reply_to(said, get("a.test"), knows=lambda name: name == host, **ASKED)

    assert reply.endswith(b"my ****** is" if host == "a.test" else b"my secret is")


async def test_a_compressed_answer_is_not_passed_unmasked():
    """A server that compresses although it was told not to gets nothing past the mask."""
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nsecret"
    reply, attempt = await reply_to(said, get("a.test", "/", WITH), **ASKED)

    assert reply.startswith(b"HTTP/1.1 502 ")
    assert "compressed" in attempt.reason


async def test_nothing_is_put_in_that_could_not_be_masked():
    """A secret does not go out where nothing would hide it in the answer; a request without one does."""
    async with world([RULE], answering(OK), inject=inject) as gate:
        assert (await gate.talk(get("a.test", "/", WITH))).startswith(b"HTTP/1.1 403 ")
        assert gate.dialled == []
        assert (await gate.talk(get("a.test"))).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/refused", "/x/../y", "/x%2fy", "//x"])
async def test_a_refused_placeholder_goes_nowhere(path):
    """What the injector refuses, and a path of two meanings, reach nobody."""
    async with world([RULE], answering(OK), **ASKED) as gate:
        assert (await gate.talk(get("a.test", path, WITH))).startswith(b"HTTP/1.1 403 ")
        assert (gate.resolved, gate.dialled) == ([], [])


@pytest.mark.parametrize(("word", "passes"), [(b"harmless text", True), (b"a PLACEHOLDER in it", False)])
async def test_a_body_is_looked_at(word, passes):
    """A body in which the scan finds something is not sent on whole."""

    class Finds:
        def feed(self, data):
            return "a placeholder stands in the body" if b"PLACEHOLDER" in data else ""

    seen: list[bytes] = []
    async with world([RULE], answering(OK, seen), scan=Finds) as gate:
        reply = await gate.talk(get("a.test", "/", f"Content-Length: {len(word)}", body=word, **POST))
        [attempt] = await gate.told()

    assert reply.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 403 ")
    assert attempt.failed is not passes
    assert (word in b"".join(seen)) is passes


async def test_the_bytes_of_a_rule_bound_answers_too():
    """An answer is cut where the rule's bytes are used up."""
    rule = EgressRule(host="a.test", max_bytes=5000)
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    async with world([rule], answering(said)) as gate:
        reply = await gate.talk(get("a.test"))
        [attempt] = await gate.told()

    assert len(reply) < 5000
    assert "used up" in attempt.reason
    assert attempt.decision == "allowed"


async def test_methods_and_paths_hold_for_plain_requests():
    """A rule's methods and paths are checked where a request comes in the open, each with its own rule."""
    rules = [
        EgressRule(host="a.test", methods=("GET",), paths=("/read/*",), inspect=True, rule="reads"),
        EgressRule(host="a.test", methods=("POST",), paths=("/write",), inspect=True, rule="writes"),
    ]
    async with world(rules, answering(OK)) as gate:
        for path, method in (("/read/x", "GET"), ("/write?x", "POST")):
            assert b" 200 " in await gate.talk(get("a.test", path, method=method))
        for path, method in (("/read/x", "POST"), ("/write", "GET"), ("/read/../write", "GET"), ("/read", "GET")):
            assert b" 403 " in await gate.talk(get("a.test", path, method=method))
        told = await gate.told(6)
        assert len(gate.dialled) == 2

    assert [one.rule for one in told][:2] == ["reads", "writes"]
    assert "inspect: true" in told[2].advice


async def test_a_connection_survives_a_flood_of_small_chunks():
    """A body of very many one-byte chunks is carried in reasonable time."""
    seen: list[bytes] = []
    body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"

    async def serve(reader, writer):
        seen.append(await request(reader))
        writer.write(OK)

    async with asyncio.timeout(10), world([RULE], serve) as gate:
        assert (await gate.talk(get("a.test", "/", "Transfer-Encoding: chunked", body=body, **POST))).endswith(b"hi")

    assert seen[0].count(b"x") >= 20_000
