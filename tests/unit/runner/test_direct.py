"""The short way to a plane: one whole reply to one request, on connections that are used again, and nothing odd."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import pytest

from tipstaff.runner.direct import Direct, OddReplyError

pytestmark = pytest.mark.anyio
MOST = 1024


@pytest.fixture
def anyio_backend():
    """The loop that runners have."""
    return "asyncio"


@asynccontextmanager
async def answering(*replies: bytes, closing: bool = False):
    """Serve these replies, one for each request, whatever is asked; tells the requests and counts connections."""
    seen: list[bytes] = []
    left = list(replies)
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                seen.append(head + await reader.readexactly(length))
                writer.write(left.pop(0))
                await writer.drain()
                if closing:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    direct = Direct(f"http://127.0.0.1:{port}/under", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), 2.0)
    try:
        yield direct, seen, connections
    finally:
        direct.close()
        for writer in connections:
            writer.close()
        server.close()
        await asyncio.sleep(0.02)  # for the closed sockets to be let go


def said(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A reply."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_questions_go_over_one_connection():
    """A reply that was read to its end leaves the connection for the next question."""
    async with answering(said(b"one"), said(b"two", status=b"404 Not Found")) as (direct, seen, connections):
        first = await direct.post("/v1/claims", b"{}", 2.0, MOST)
        second = await direct.post("/v1/claims", b"{}", 2.0, MOST)

        assert (first.status, first.data, second.status, second.data) == (200, b"one", 404, b"two")
        assert len(connections) == 1
        assert seen[0].startswith(b"POST /under/v1/claims HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_a_connection_that_the_server_closed_is_not_used_again():
    """The next question has a connection of its own, and is asked once."""
    async with answering(said(b"one"), said(b"two"), closing=True) as (direct, seen, connections):
        await direct.post("/a", b"", 2.0, MOST)
        await asyncio.sleep(0.05)
        await direct.post("/b", b"", 2.0, MOST)

        assert (len(seen), len(connections)) == (2, 2)


@pytest.mark.parametrize("late", [b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", b"x", b""])
@pytest.mark.parametrize("pause_seconds", [0.0, 0.05])
async def test_a_connection_on_which_something_came_unasked_is_not_used_again(late, pause_seconds):
    """What a server says while nobody asks, at once or later, is no answer to the next question."""
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        answer = said(b"%d" % len(connections))
        with suppress(asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer + (late if not pause_seconds else b""))
                await asyncio.sleep(pause_seconds)
                writer.write(late if pause_seconds else b"")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    direct = Direct(f"http://127.0.0.1:{port}", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), 2.0)
    first = await direct.post("/a", b"", 2.0, MOST)
    await asyncio.sleep(0.2)
    second = await direct.post("/b", b"", 2.0, MOST)
    direct.close()
    for writer in connections:
        writer.close()
    server.close()

    assert (first.data, second.status, second.data) == (b"1", 200, b"2" if late else b"1")
    assert len(connections) == (2 if late else 1)


async def test_a_server_may_ask_to_close():
    """A server that says `Connection: close` is heeded."""
    async with answering(said(b"one", b"Connection: close"), said(b"two")) as (direct, _, connections):
        await direct.post("/a", b"", 2.0, MOST)
        await direct.post("/b", b"", 2.0, MOST)

        assert len(connections) == 2


async def test_a_reply_in_chunks_is_put_together():
    """What stands between us and a plane may send chunks."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"
    async with answering(chunked, said(b"next")) as (direct, _, connections):
        assert (await direct.post("/a", b"", 2.0, MOST)).data == b"abcde"
        assert (await direct.post("/b", b"", 2.0, MOST)).data == b"next"
        assert len(connections) == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabcd\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n" + b"x" * 1025,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n" + b"x" * 1025 + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_an_odd_reply_is_refused_and_its_connection_not_used_again(reply):
    """What is not HTTP/1.1 as a plane speaks it, or is too much, is an error; the next question is answered."""
    async with answering(reply, said(b"good")) as (direct, _, connections):
        with pytest.raises(OddReplyError):
            await direct.post("/a", b"", 2.0, MOST)
        assert (await direct.post("/b", b"", 2.0, MOST)).data == b"good"
        assert len(connections) == 2


async def test_half_a_reply_is_a_broken_connection():
    """A server that dies in the middle of its answer did not answer."""
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", closing=True) as (direct, _, _):
        with pytest.raises(ConnectionResetError):
            await direct.post("/a", b"", 2.0, MOST)


async def test_nobody_is_waited_for_too_long():
    """An answer that does not come in time is a timeout."""
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", said(b"next")) as (direct, _, _):
        with pytest.raises(TimeoutError):
            await direct.post("/a", b"", 0.2, MOST)


async def test_a_question_that_was_given_up_leaves_no_answer_behind():
    """Who stops waiting closes the connection: a late answer is never taken for the next question's."""
    async with answering(b"HTTP/1.1 200 OK\r\n", said(b"good")) as (direct, seen, connections):
        task = asyncio.ensure_future(direct.post("/a", b"", 2.0, MOST))
        while not seen:  # noqa: ASYNC110 - the server has no other way to say so
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await direct.post("/b", b"", 2.0, MOST)).data == b"good"
        assert len(connections) == 2
