"""Wires carry bytes both ways, and let go of everybody who waits."""

import asyncio
import socket

import pytest

from tipstaff.egress.duplex import Ahead, Wire


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    yield one, other
    one.close()
    other.close()


async def test_bytes_go_both_ways(pair):
    """What is written on one side is read on the other, up to its end."""
    one, other = Wire(pair[0]), Wire(pair[1])
    waiting = asyncio.create_task(other.read(100))
    await asyncio.sleep(0)
    await one.write(b"hello")
    await one.end()

    assert await waiting == b"hello"
    assert await other.read(100) == b""
    await other.write(b"still here")
    assert await one.read(100) == b"still here"
    one.close()
    other.close()


async def test_a_writer_waits_for_room(pair):
    """More than a socket holds is written as the other side reads."""
    one, other = Wire(pair[0]), Wire(pair[1])
    data = bytes(range(256)) * 8192
    writing = asyncio.create_task(one.write(data))
    got = b""
    while len(got) < len(data):
        got += await other.read(1 << 16)
    await writing

    assert got == data
    one.close()
    other.close()


@pytest.mark.parametrize("way", ["abort", "close"])
async def test_closing_wakes_whoever_waits(pair, way):
    """A task that waits in `read` when the wire is closed gets an error, and the loop forgets the socket."""
    wire = Wire(pair[0])
    waiting = asyncio.create_task(wire.read(1))
    await asyncio.sleep(0)
    getattr(wire, way)()
    getattr(wire, way)()

    with pytest.raises(OSError, match="Bad file descriptor"):
        await waiting


async def test_a_cancelled_reader_leaves_the_wire_whole(pair):
    """After a wait was given up, the same wire is read again, and nothing is lost."""
    one, other = Wire(pair[0]), Wire(pair[1])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await one.read(10)
    await other.write(b"late")

    assert await one.read(10) == b"late"
    one.close()
    other.close()


async def test_what_was_read_ahead_comes_first(pair):
    """Bytes that were given back are read before those of the wire, in their order."""
    one, other = Ahead(Wire(pair[0])), Wire(pair[1])
    await other.write(b"three")
    one.give_back(b"two")
    one.give_back(b"one")

    assert [await one.read(2), await one.read(100), await one.read(100)] == [b"on", b"etwo", b"three"]
    one.give_back(b"x")
    assert (one.take(), one.take()) == (b"x", b"")
    one.abort()
    other.close()
