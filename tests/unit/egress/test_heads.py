"""Heads are read in one way, or not at all."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.egress.heads import CHUNKED, body_length, end_to_end, parse_answer, parse_request, spell, values
from tipstaff.egress.refusal import RefusalError

LINE = b"GET http://a.test/ HTTP/1.1"


def status(head):
    with pytest.raises(RefusalError) as caught:
        parse_request(head)
    return caught.value.status


def test_a_head_is_read():
    """Method, target, version and headers come out as they were sent, values without the space around them."""
    head = parse_request(b"POST /x?y HTTP/1.0\r\nHost: a.test\r\nX-Empty:\r\nX-Latin:\t caf\xe9 \t")

    assert head[:3] == ("POST", "/x?y", 0)
    assert head.headers == ((b"Host", b"a.test"), (b"X-Empty", b""), (b"X-Latin", b"caf\xe9"))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET",
        b"GET /",
        b"GET  / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b" GET / HTTP/1.1",
        b"GET\t/ HTTP/1.1",
        b"get / HTTP/1.1",
        b"G\xc9T / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        b"GET /\xe9 HTTP/1.1",
        b"GET /\\ HTTP/1.1",
        b"GET /#x HTTP/1.1",
        LINE + b"\nHost: a.test",
        LINE + b"\r\nHost: a.test\nX: 1",
        LINE + b"\r\nHost: a\rX: 1",
        LINE + b"\r\nHost : a.test",
        LINE + b"\r\n Host: a.test",
        LINE + b"\r\nX: 1\r\n folded",
        LINE + b"\r\nX: 1\r\n\tfolded",
        LINE + b"\r\nX",
        LINE + b"\r\n: 1",
        LINE + b"\r\nX Y: 1",
        LINE + b"\r\nX\x00: 1",
        LINE + b"\r\nX: a\x00b",
        LINE + b"\r\nX: a\x0bb",
        LINE + b"\r\nX: a\x7fb",
        LINE + b"\r\nX\xe9: 1",
        LINE + b"\r\n" + b"X" * 257 + b": 1",
    ],
)
def test_what_two_readers_could_read_differently_is_refused(head):
    """Bare line ends, folded lines, odd spaces, control characters and half lines are no request."""
    assert status(head) == 400


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (b"GET / HTTP/2.0", 505),
        (b"GET / HTTP/1.2", 505),
        (b"GET / HTTP/0.9", 505),
        (b"GET / http/1.1", 505),
        (b"PRI * HTTP/2.0", 505),
        (b"TRACE http://a.test/ HTTP/1.1", 405),
        (LINE + b"\r\nX: 1" * 129, 431),
    ],
)
def test_what_is_not_spoken_here_is_refused(head, number):
    """Other versions, TRACE and too many headers have numbers of their own."""
    assert status(head) == number


@pytest.mark.parametrize(
    ("headers", "minor", "length"),
    [
        ((), 1, None),
        (((b"Content-Length", b"0"),), 1, 0),
        (((b"content-length", b"12"),), 0, 12),
        (((b"Transfer-Encoding", b"Chunked"),), 1, CHUNKED),
    ],
)
def test_a_length_is_said_once(headers, minor, length):
    """A body's length is a number, `chunked`, or not said."""
    assert body_length(headers, minor) == length


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Content-Length", b"1"), (b"Content-Length", b"1")],
        [(b"Content-Length", b"1, 1")],
        [(b"Content-Length", b"+1")],
        [(b"Content-Length", b"-1")],
        [(b"Content-Length", b"0x1")],
        [(b"Content-Length", b"1_0")],
        [(b"Content-Length", b"\xb2")],
        [(b"Content-Length", b"")],
        [(b"Content-Length", b"9" * 16)],
        [(b"Content-Length", b"9" * 5000)],
        [(b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")],
        [(b"Transfer-Encoding", b"chunked"), (b"Transfer-Encoding", b"chunked")],
        [(b"Transfer-Encoding", b"gzip, chunked")],
        [(b"Transfer-Encoding", b"chunked, identity")],
        [(b"Transfer-Encoding", b"identity")],
        [(b"Transfer-Encoding", b"xchunked")],
        [(b"Transfer-Encoding", b"\x0bchunked")],
        [(b"Transfer-Encoding", b"")],
    ],
)
def test_a_length_said_in_two_ways_is_refused(headers):
    """Two lengths, two codings, both, or anything that is not quite one of them: refused."""
    with pytest.raises(RefusalError):
        body_length(tuple(headers), 1)


def test_an_old_client_has_no_chunks():
    """HTTP/1.0 knows no Transfer-Encoding."""
    with pytest.raises(RefusalError):
        body_length(((b"Transfer-Encoding", b"chunked"),), 0)


def test_headers_of_one_hop_stay():
    """Connection, what it names, and the proxy's own headers are not passed on; everything else is."""
    sent = parse_request(
        LINE + b"\r\nHost: a\r\nConnection: close, X-Hop\r\nx-hop: 1\r\nKeep-Alive: 1\r\nProxy-Authorization: s\r\n"
        b"Proxy-Connection: x\r\nProxy: evil\r\nTE: trailers\r\nTrailer: y\r\nUpgrade: h2c\r\nX-Kept: 2\r\nCookie: c"
    )

    assert end_to_end(sent.headers) == ((b"Host", b"a"), (b"X-Kept", b"2"), (b"Cookie", b"c"))


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "AUTHORIZATION", "cookie"])
def test_connection_does_not_name_what_counts(name):
    """A request that asks to have its framing, its host or its credentials dropped is refused."""
    with pytest.raises(RefusalError, match="one hop"):
        end_to_end(((b"Connection", b"close ,\t" + name.encode()),))


def test_an_answer_is_read():
    """An answer has a status, and may have no phrase."""
    assert parse_answer(b"HTTP/1.1 200 OK\r\nA: b") == (200, 1, "OK", ((b"A", b"b"),))
    assert parse_answer(b"HTTP/1.0 404")[:3] == (404, 0, "")


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1", b"HTTP/1.1 20", b"HTTP/1.1 600 X", b"HTTP/2 200", b"garbage\r\n", b"\x15\x03"]
)
def test_garbage_is_no_answer(head):
    """What is no status line is refused."""
    with pytest.raises(RefusalError):
        parse_answer(head)


@pytest.mark.parametrize("value", [b"a\r\nX: 1", b"a\nb", b"a\rb", b"a\0b"])
def test_a_header_cannot_be_two(value):
    """Nothing is ever written that would be read as two lines."""
    with pytest.raises(ValueError, match="one line"):
        spell("GET / HTTP/1.1", [(b"X", value)])


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_refused(head):
    """Bytes are a request, or a refusal with a number: never anything else."""
    for prefix in (b"", LINE + b"\r\n"):
        with contextlib.suppress(RefusalError):
            parsed = parse_request(prefix + head)
            assert spell(f"{parsed.method} {parsed.target} HTTP/1.{parsed.minor}", parsed.headers).endswith(b"\r\n\r\n")


@given(st.binary(max_size=100))
def test_what_is_written_is_read_the_same(value):
    """A header that was read and written anew is read the same again."""
    try:
        first = parse_request(LINE + b"\r\nX: " + value)
    except RefusalError:
        return
    again = parse_request(spell("GET http://a.test/ HTTP/1.1", first.headers)[:-4])
    assert values(again.headers, b"x") == values(first.headers, b"x")
