"""Whom a TLS client wants to speak to, read from its first message."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.egress.world import hello
from tipstaff.egress.hello import Hello, HelloReader, alert, depth_of
from tipstaff.egress.refusal import RefusalError


def read(data):
    return HelloReader().feed(data)


def test_a_real_client_is_read():
    """The hello of Python's own TLS names its host."""
    out = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="real.example.com")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()

    assert read(out.read()) == Hello("real.example.com", encrypted=False)


@given(st.integers(1, 80), st.integers(1, 80))
def test_a_hello_in_any_pieces_is_the_same(record, segment):
    """Records of any size in segments of any size give the same name."""
    reader, data = HelloReader(), hello("a.example.com", (16, b"\0\x03\x02h2"), record=record)
    found = [reader.feed(data[place : place + segment]) for place in range(0, len(data), segment)]

    assert found[-1] == Hello("a.example.com", encrypted=False)
    assert found[:-1] == [None] * (len(found) - 1)


def test_what_comes_after_is_left_alone():
    """Records after the hello are not looked at."""
    assert read(hello() + b"\x14\x03\x03\0\x01\x01").name == "example.com"


@pytest.mark.parametrize("kind", [0xFE0D, 0xFFCE])
def test_an_encrypted_hello_is_seen(kind):
    """A client that hides whom it wants says that it does."""
    assert read(hello("a.test", (kind, b"x"))).encrypted
    assert not read(hello("a.test", (0x0A0A, b"x"))).encrypted


def test_a_hello_may_name_nobody():
    """No name is an empty name, with other extensions or without any."""
    assert read(hello(None)).name == ""
    bare = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"
    message = b"\x01" + len(bare).to_bytes(3) + bare
    assert read(b"\x16\x03\x01" + len(message).to_bytes(2) + message) == Hello("", encrypted=False)


def two_names():
    entry = b"\0\0\x01a"
    return hello(None, (0, (2 * len(entry)).to_bytes(2) + entry * 2))


@pytest.mark.parametrize(
    "data",
    [
        b"G",
        b"GET / HTTP/1.1",
        b"SSH-2.0-x",
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x02",
        b"\x16\x03\x01\0\0",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\0\x01\x02",
        b"\x16\x03\x01\0\x04\x01\xff\xff\xff",
        b"\x16\x03\x01\0\x04\x01\0\0\0",
        hello("a", (5, b""), (5, b"")),
        hello("a", (0, b"\0\x04\0\0\x01b")),
        hello(None, (0, b"")),
        hello(None, (0, b"\0\0")),
        hello(None, (0, b"\0\x04\x01\0\x01a")),
        hello(None, (0, b"\0\x03\0\0\0")),
        hello(None, (0, b"\0\x04\0\0\x01\xff")),
        hello(None, (0, b"\0\x04\0\0\x01a!")),
        two_names(),
        hello()[:3] + (len(hello()) - 4).to_bytes(2) + hello()[5:] + b"!",
    ],
)
def test_what_is_no_hello_is_refused(data):
    """Other protocols, wrong lengths, and names said twice are refused."""
    with pytest.raises(RefusalError):
        read(data)


def test_a_hello_is_bounded():
    """An endless hello is refused, whether it says so or not."""
    with pytest.raises(RefusalError, match="64 KiB"):
        read(hello("a", (9, bytes(65_000)), (10, bytes(500))))
    with pytest.raises(RefusalError, match="64 KiB"):
        read(hello("a", (9, bytes(60_000)), record=10)[:-1])


@given(st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(data):
    """Whatever comes is a hello, the start of one, or refused."""
    for prefix in (b"", b"\x16\x03\x01\0\x60\x01\0\0\x5c\x03\x03"):
        try:
            found = read(prefix + data)
        except RefusalError:
            continue
        assert found is None or isinstance(found, Hello)


@given(st.integers(0, 71), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(place, byte):
    """A hello with one byte changed is still read, or refused, and its name is never another's by accident."""
    data = bytearray(hello("example.com"))
    data[place] = byte
    try:
        found = read(bytes(data))
    except RefusalError:
        return
    assert found is None or found.encrypted or len(found.name) in {0, 11}


def test_the_name_must_be_the_host():
    """The name in the hello is the host of the CONNECT, in its one spelling; an address may go without."""
    assert depth_of(Hello("A.Test.", encrypted=False), "a.test") == "sni"
    assert depth_of(Hello("", encrypted=False), "192.0.2.1") == "name"
    for found in (
        Hello("b.test", encrypted=False),
        Hello("", encrypted=False),
        Hello("a.test", encrypted=True),
        Hello("a test", encrypted=False),
    ):
        with pytest.raises(RefusalError):
            depth_of(found, "a.test")
    with pytest.raises(RefusalError):
        depth_of(Hello("a.test", encrypted=False), "192.0.2.1")


def test_an_encrypted_hello_hides_nothing_where_tls_ends_here():
    """An inspected connection has its outer name and no other, which must still be the host's."""
    assert depth_of(Hello("a.test", encrypted=True), "a.test", ended_here=True) == "sni"
    with pytest.raises(RefusalError):
        depth_of(Hello("b.test", encrypted=True), "a.test", ended_here=True)


def test_an_alert_is_fatal():
    """An alert is one record, fatal, with its number."""
    assert alert(112) == b"\x15\x03\x03\x00\x02\x02\x70"
