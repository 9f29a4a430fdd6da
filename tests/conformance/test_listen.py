"""The one way out of a sandbox's network: a socket of ours inside it, where we asked for one."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from tests.conformance.conftest import plan
from tipstaff.isolation import running
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.client import Box, SpawnerError
from tipstaff.isolation.streams import Streams

TALK = "import socket; s = socket.create_connection(('127.0.0.1', 3128), 5); s.sendall(b'ping'); print(s.recv(9))"


@pytest.fixture
async def tier(tmp_path):
    """The tier of namespaces: no other has a network of its own."""
    async with Bubblewrap(scratch=tmp_path / "scratch") as tier:
        yield tier


@contextlib.asynccontextmanager
async def waiting(tier: Bubblewrap, *argv: str) -> AsyncIterator[tuple[Box, list[bytes]]]:
    """A sandbox whose command waits; what it says once it was let go is in the list at the end."""
    streams = Streams(None)
    said: list[bytes] = []
    box = (await tier.workshop.link()).build(running.order(plan(*argv), "bwrap"), streams.theirs)
    streams.hand_over()
    try:
        assert await box.ready
        yield box, said
        box.release()
        await streams.drain((said.append, said.append), None, lambda: None)
        await box.ended
    finally:
        box.end("cancelled")
        await box.ended
        streams.close()


async def answer(listener: socket.socket) -> bytes:
    """Take one connection, and answer what comes with pong."""
    loop = asyncio.get_running_loop()
    accepted, _ = await loop.sock_accept(listener)
    with accepted:
        heard = await loop.sock_recv(accepted, 9)
        await loop.sock_sendall(accepted, b"pong")
    return heard


@pytest.mark.parametrize("port", [3128, 3129])
async def test_a_command_reaches_the_socket_that_was_made_for_it(tier, port):
    """A command that connects to the port of our socket talks to us; at any other port it is refused."""
    async with waiting(tier, "python3", "-c", TALK) as (box, said):
        listener = await box.listen(port)
        answering = asyncio.create_task(answer(listener))
    with listener:
        if port == 3128:
            assert (await answering, b"".join(said)) == (b"ping", b"b'pong'\n")
        else:
            answering.cancel()
            assert b"refused" in b"".join(said)


async def test_the_hosts_own_port_stays_free(tier):
    """The socket is in the sandbox's network alone: on the host nobody listens at that port."""
    async with waiting(tier, "true") as (box, _):
        with await box.listen(3128), socket.socket() as outside:
            assert outside.connect_ex(("127.0.0.1", 3128)) != 0


async def test_a_port_is_taken_once(tier):
    """A second socket on the same port is refused with a reason, and the sandbox stays what it was."""
    async with waiting(tier, "echo", "fine") as (box, said):
        with await box.listen(3128):
            with pytest.raises(SpawnerError, match="3128"):
                await box.listen(3128)
            with await box.listen(3129):
                pass
    assert b"".join(said) == b"fine\n"


@pytest.mark.parametrize("port", [-1, 65536])
async def test_a_port_that_is_none_is_refused(tier, port):
    """A number that is no port is refused with a sentence; the spawner lives on."""
    async with waiting(tier, "true") as (box, _):
        with pytest.raises(SpawnerError, match=str(port)):
            await box.listen(port)
        with await box.listen(1):
            pass


async def test_a_sandbox_that_is_gone_has_no_sockets(tier):
    """Asking for a socket in a sandbox that has ended says so instead of waiting for ever."""
    async with waiting(tier, "true") as (box, _):
        pass

    with pytest.raises(SpawnerError, match="ended"):
        await box.listen(3128)
