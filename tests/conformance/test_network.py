"""A sandbox has no network at all: not the host's, not its neighbour's, not by any family of sockets."""

import asyncio
import re
import socket
import subprocess
import sys

import pytest

CONNECT = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print(s.recv(9))"
ABSTRACT = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + sys.argv[1]); print('connected')"


@pytest.fixture
def listener():
    """A listener on the host's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def test_the_hosts_loopback_is_another(run, listener):
    """A service on the host's loopback refuses inside, and answers outside."""
    port = str(listener.getsockname()[1])
    outside = await asyncio.create_subprocess_exec(sys.executable, "-c", CONNECT, port, stdout=subprocess.PIPE)
    accepted, _ = await asyncio.to_thread(listener.accept)
    accepted.sendall(b"hello")
    accepted.close()
    assert (await outside.communicate())[0] == b"b'hello'\n"

    inside = await run("python3", "-c", CONNECT, port)

    assert inside.ended.exit_code == 1
    assert re.search(b"refused|denied", inside.stderr)


async def test_abstract_sockets_are_another_namespaces(run):
    """A host's abstract socket refuses inside, and can be connected to outside."""
    name = "tipstaff-canary-8731"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        command = [sys.executable, "-c", ABSTRACT, name]
        outside = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=10, check=False)

        inside = await run("python3", "-c", ABSTRACT, name)

    assert outside.stdout == b"connected\n"
    assert inside.ended.exit_code == 1
    assert re.search(b"refused|denied", inside.stderr)


@pytest.mark.parametrize("address", ["('192.0.2.1', 80)", "('2001:db8::1', 80)", "('169.254.169.254', 80)"])
async def test_no_address_has_a_route(run, address):
    """Addresses of either version are unreachable, at once."""
    outcome = await run("python3", "-c", f"import socket; socket.create_connection({address}, 5)", time_ms=4000)

    assert outcome.told == ("exited", 1)
    assert re.search(b"unreachable|denied", outcome.stderr)


async def test_datagrams_go_nowhere(run):
    """UDP has no route either, so no name can be asked for."""
    send = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))"

    assert re.search(b"unreachable|denied", (await run("python3", "-c", send)).stderr)


@pytest.mark.promise("sockets")
async def test_inside_its_own_loopback_a_command_can_talk_to_itself(run):
    """Programs that test themselves over loopback still can."""
    script = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "client.sendall(b'ping'); print(server.accept()[0].recv(4))\n"
    )

    assert (await run("python3", "-c", script)).text == "b'ping'"


@pytest.mark.parametrize(
    ("family", "kind"),
    [("AF_VSOCK", "SOCK_STREAM"), ("AF_PACKET", "SOCK_RAW"), ("AF_INET", "SOCK_RAW"), ("AF_ALG", "SOCK_SEQPACKET")],
)
async def test_other_families_do_not_exist(run, family, kind):
    """Sockets that a network namespace does not hold, and raw ones, are refused; a pair of plain ones is made."""
    make = "import socket; socket.socket(socket.{}, socket.{}); print('made')"

    refused = await run("python3", "-c", make.format(family, kind))
    made = await run("python3", "-c", "import socket; socket.socketpair(); print('made')")

    assert refused.ended.exit_code == 1
    assert made.text == "made"


@pytest.mark.promise("sockets")
async def test_interfaces_can_be_listed(run):
    """Asking for interfaces works, which some programs do at their start, and shows lo alone."""
    assert (await run("python3", "-c", "import socket; print(socket.if_nameindex())")).text == "[(1, 'lo')]"
