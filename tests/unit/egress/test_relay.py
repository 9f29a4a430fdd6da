"""Tunnels carry every byte, in both directions, and end as their ends do."""

import asyncio
import hashlib
import os
import socket

import pytest

from tests.unit.egress.test_gate import tunnel
from tests.unit.egress.world import answer, connect, world
from tipstaff.egress.options import Limits
from tipstaff.model.network import EgressRule

OPAQUE = EgressRule(host="a.test", opaque=True)
DATA = os.urandom(3 << 20)


async def test_bulk_arrives_unchanged_both_ways_at_once():
    """Megabytes go out and come back at the same time, byte for byte."""
    async with world([OPAQUE]) as gate, tunnel(gate, first=b"x") as (reader, writer):

        async def send():
            writer.write(DATA)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        back = await answer(reader)
        await sending
        [attempt] = await gate.told()

    assert hashlib.sha256(back).digest() == hashlib.sha256(DATA).digest()
    assert (attempt.bytes_out, attempt.bytes_in) == (len(DATA) + 1, len(DATA) + 1)


async def test_a_stalled_reader_stops_the_sender():
    """While the server does not read, a client can send only what buffers hold; then everything arrives."""
    go, got = asyncio.Event(), []

    async def serve(reader, writer):
        await go.wait()
        while data := await reader.read(1 << 16):
            got.append(len(data))
        writer.close()

    async with world([OPAQUE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(connect("a.test"))
        await reader.readuntil(b"\r\n\r\n")
        sending = asyncio.create_task(_pour(writer, 64, bytes(1 << 20)))
        for _ in range(1000):
            if gate.gate._means.pipe.held_bytes:
                break
            await asyncio.sleep(0.005)
        assert max(account._bytes for account in gate.gate._means._accounts.values()) < 48 << 20
        assert 0 < gate.gate._means.pipe.held_bytes <= 1 << 20
        go.set()
        total = await sending
        writer.write_eof()
        assert await answer(reader) == b""
        assert gate.gate._means.pipe.held_bytes == 0

    assert sum(got) == total


async def _pour(writer, count, chunk):
    for _ in range(count):
        writer.write(chunk)
        await writer.drain()
    return count * len(chunk)


async def test_an_end_is_passed_on_as_an_end():
    """A client may end its side and still be answered."""

    async def serve(reader, writer):
        data = await answer(reader)
        await asyncio.sleep(0.02)
        writer.write(data[::-1])
        writer.close()

    async with world([OPAQUE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(connect("a.test") + b"abc")
        writer.write_eof()
        assert (await answer(reader)).endswith(b"\r\n\r\ncba")
        writer.close()
        [attempt] = await gate.told()

    assert attempt.reason == ""


async def test_the_server_may_speak_first_and_end_first():
    """A server that greets and hangs up is heard, while the client has said nothing."""

    async def serve(_reader, writer):
        writer.write(b"220 hello\r\n")
        writer.close()

    async with world([OPAQUE], serve) as gate:
        assert (await gate.talk(connect("a.test"))).endswith(b"220 hello\r\n")


async def test_a_reset_is_passed_on_as_a_reset():
    """A server that resets does not look like one that has finished."""

    async def serve(reader, writer):
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with world([OPAQUE], serve) as gate:
        reader, writer = await gate.client()
        writer.write(connect("a.test") + b"x")
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        [attempt] = await gate.told()

    assert "reset" in attempt.reason


async def test_an_idle_tunnel_ends():
    """A tunnel in which nothing moves is ended after its time; one in which something moves is not."""
    async with world([OPAQUE], limits=Limits(idle_seconds=0.5)) as gate, tunnel(gate, first=b"x") as (reader, writer):
        for _ in range(6):
            await asyncio.sleep(0.1)
            writer.write(b"y")
            assert await reader.readexactly(1) == b"y"
        await answer(reader)
        [attempt] = await gate.told()

    assert attempt.reason == "nothing moved for 0.5 seconds"
    assert attempt.bytes_out == 7


async def test_the_bytes_of_a_rule_are_counted_over_the_run():
    """A rule's bytes are the sum of all its connections: exactly so many pass, then none, and other rules are free."""
    rules = [EgressRule(host="a.test", opaque=True, max_bytes=1000), EgressRule(host="b.test", opaque=True)]
    async with world(rules) as gate:
        async with tunnel(gate, first=bytes(400)) as (reader, writer):
            writer.write(bytes(400))
            came = await answer(reader)
        assert b" 403 " in await gate.talk(connect("a.test"))
        async with tunnel(gate, "b.test:443", first=bytes(2000)):
            pass
        told = await gate.told(3)

    assert len(came) <= 200
    assert sorted((one.host, one.decision, one.bytes_out + one.bytes_in) for one in told) == [
        ("a.test", "allowed", 1000),
        ("a.test", "blocked", 0),
        ("b.test", "allowed", 4000),
    ]
    assert "used up" in told[0].reason


async def test_the_last_byte_of_a_rule_arrives():
    """A connection that moves exactly what its rule allows ends in order."""
    async with world([EgressRule(host="a.test", opaque=True, max_bytes=800)]) as gate:
        async with tunnel(gate, first=bytes(400)) as (reader, writer):
            writer.write_eof()
            assert await answer(reader) == b""
        [attempt] = await gate.told()

    assert (attempt.reason, attempt.bytes_out + attempt.bytes_in) == ("", 800)


async def test_the_connections_of_a_rule_are_counted():
    """A rule's connections at once are bounded; when one ends, another may begin."""
    async with world([EgressRule(host="a.test", opaque=True, max_connections=1)]) as gate:
        async with tunnel(gate, first=b"x"):
            assert b"429 " in await gate.talk(connect("a.test"))
        await gate.told(2)
        async with tunnel(gate, first=b"x"):
            pass


async def test_a_tunnel_has_a_total_time():
    """Whatever moves in it, a tunnel ends when its time is up."""
    async with world([OPAQUE], limits=Limits(total_seconds=0.1)) as gate, tunnel(gate, first=b"x") as (reader, _writer):
        await answer(reader)
        [attempt] = await gate.told()

    assert attempt.decision == "allowed"
    assert attempt.reason


async def test_many_tunnels_are_held_at_once():
    """A hundred tunnels are open at once, and each carries its own bytes."""
    async with world([OPAQUE]) as gate:
        pairs = await asyncio.gather(*(gate.client() for _ in range(100)))
        for _reader, writer in pairs:
            writer.write(connect("a.test"))
        for reader, _writer in pairs:
            await reader.readuntil(b"\r\n\r\n")
        for number, (_reader, writer) in enumerate(pairs):
            writer.write(b"%04d" % number)
        assert [await reader.readexactly(4) for reader, _ in pairs] == [b"%04d" % number for number in range(100)]
        for _reader, writer in pairs:
            writer.close()
        assert len(await gate.told(100)) == 100
