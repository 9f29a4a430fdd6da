"""Claims about inspected connections as the gate gets them."""

import asyncio
import contextlib
import os
import socket
import subprocess
import time

import pytest

from tests.unit.egress.world import wires
from tipstaff.egress.authority import Authority
from tipstaff.egress.duplex import Duplex, Wire
from tipstaff.egress.gate import Attempt, Gate, Options
from tipstaff.egress.inspection import Inspection
from tipstaff.egress.paths import normal_path
from tipstaff.egress.terms import Terms
from tipstaff.egress.tls import TlsError, client_context, secure, terminate
from tipstaff.egress.variables import proxy_variables
from tipstaff.model.decision import SecretLease
from tipstaff.model.network import EgressRule
from tipstaff.secrets.inject import Injector
from tipstaff.secrets.placeholders import placeholders_for
from tipstaff.secrets.redact import Leak

HOST = "api.example.com"
VALUE = "ghp_" + "Real0Value1Real2Value3Real4Value5Real"


async def test_a_request_passes_from_one_tls_into_another():
    """A client that trusts the session talks, through the gate's two sides, to a server that the host trusts."""
    ours, world = Authority((HOST,)), Authority()
    inspection = Inspection(ours, world.certificate_pem)
    async with wires() as (client, near), wires() as (far, server):
        inside, entry, way_out, origin = await asyncio.gather(
            secure(client, HOST, client_context(ours.certificate_pem)),
            inspection.terminate(near, HOST),
            inspection.secure(far, HOST),
            terminate(server, world.server_context(HOST)),
        )
        await inside.write(b"GET /")
        await way_out.write(await entry.read(100))

        assert await origin.read(100) == b"GET /"


@pytest.mark.parametrize("trusted", [True, False])
async def test_only_what_the_host_trusts_is_reached(trusted):
    """A server that the host does not trust is refused, although the session's own authority signed for it."""
    ours, world = Authority(), Authority()
    inspection = Inspection(ours, world.certificate_pem)

    async with wires() as (far, server):
        reached, _ = await asyncio.gather(
            inspection.secure(far, HOST),
            terminate(server, (world if trusted else ours).server_context(HOST)),
            return_exceptions=True,
        )

    assert isinstance(reached, TlsError) is not trusted


@pytest.mark.parametrize(("host", "signed"), [(HOST, True), ("other.example.com", False)])
async def test_only_hosts_of_inspected_rules_are_stood_in_for(host, signed):
    """The gate is no server for a host that no inspected rule names, whatever it is asked."""
    ours = Authority((HOST,))

    async def attempt(near: Duplex) -> Duplex:
        return await Inspection(ours, "").terminate(near, host)

    async with wires() as (client, near):
        told, _ = await asyncio.gather(
            attempt(near),
            secure(client, host, client_context(ours.certificate_pem), seconds=2 if signed else 0.02),
            return_exceptions=True,
        )

    assert isinstance(told, TlsError) is not signed


@contextlib.asynccontextmanager
async def origin(world: Authority):
    """The real server: answers every request with the request itself; with it, the heads that it has got."""
    heads: list[bytes] = []

    async def visit(sock: socket.socket) -> None:
        wire = Wire(sock)
        with contextlib.closing(wire), contextlib.suppress(OSError):
            duplex = await terminate(wire, world.server_context(HOST))
            head = b""
            while b"\r\n\r\n" not in head and (part := await duplex.read(4096)):
                head += part
            heads.append(head)
            await duplex.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
            await duplex.end()

    async def accept() -> None:
        async with asyncio.TaskGroup() as visits:
            while True:
                visits.create_task(visit((await asyncio.get_running_loop().sock_accept(listener))[0]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        accepting = asyncio.create_task(accept())
        yield listener.getsockname()[1], heads
        accepting.cancel()
        await asyncio.wait([accepting])


class Shown:
    """What one visit with curl came to."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.heads: list[bytes] = []
        self.out = b""
        self.leaks: tuple[Leak, ...] = ()


async def visited(tmp_path, place: str, *arguments: str, asked: str = "https") -> Shown:
    """Have curl ask for `place` through a real gate, with a placeholder for PLACEHOLDER in its arguments."""
    shown, ours, world = Shown(), Authority((HOST,)), Authority()
    trusted = tmp_path / "authority.pem"
    trusted.write_text(ours.certificate_pem)
    held = placeholders_for({"TOKEN": VALUE}, os.urandom)
    lease = SecretLease(name="TOKEN", way="inject", hosts=(HOST,), paths=("/v1/*",))
    injector = Injector((lease,), {"TOKEN": VALUE}, held, time.monotonic, normal_path)
    inspection = Inspection(ours, world.certificate_pem)
    async with origin(world) as (port, shown.heads):
        rule = EgressRule(host=HOST, ports=(port,), inspect=True, addresses=("127.0.0.1",))
        options = Options(
            terminate=inspection.terminate, secure=inspection.secure,
            inject=injector.apply, mask=injector.mask, scan=injector.scanner,
        )  # fmt: skip
        gate = Gate(Terms(rules=(rule,)), shown.attempts.append, options=options)
        listener = socket.create_server(("127.0.0.1", 0))
        gate.serve(listener)
        environ = proxy_variables(listener.getsockname()[1]) | {"CURL_CA_BUNDLE": str(trusted), "PATH": "/usr/bin:/bin"}
        command = ["curl", "-sS", "--max-time", "20", f"{asked}://{HOST}:{port}{place}", *arguments]
        child = await asyncio.create_subprocess_exec(
            *(part.replace("PLACEHOLDER", held["TOKEN"]) for part in command), env=environ, stdout=subprocess.PIPE
        )
        shown.out, _ = await child.communicate()
        await gate.close()
    shown.leaks = injector.leaks()
    assert VALUE.encode() not in shown.out
    return shown


async def test_a_secret_goes_to_its_host_and_not_into_the_sandbox(tmp_path):
    """The real server gets the value; what it echoes comes back masked, and is recorded as a leak."""
    shown = await visited(tmp_path, "/v1/me", "-H", "Authorization: Bearer PLACEHOLDER")

    assert f"Authorization: Bearer {VALUE}\r\n".encode() in shown.heads[0]
    assert b"Authorization: Bearer " + b"*" * len(VALUE) in shown.out
    assert shown.leaks == (Leak("TOKEN", "egress", 1),)
    assert [(attempt.decision, attempt.depth) for attempt in shown.attempts] == [("allowed", "inspected")]


@pytest.mark.parametrize(
    ("place", "arguments", "reason"),
    [
        ("/v2/me", ("-H", "Authorization: Bearer PLACEHOLDER"), "may not be sent to this path"),
        ("/v1/me", ("-H", "X-Other: PLACEHOLDER"), "stands in the header X-Other"),
        ("/v1/me?key=PLACEHOLDER", (), "stands in the path"),
        ("/v1/me", ("--data", "key=PLACEHOLDER"), "stands in the request's body"),
    ],
)
async def test_a_placeholder_in_the_wrong_place_never_arrives(tmp_path, place, arguments, reason):
    """What is refused is recorded, and the real server gets nothing that ends."""
    shown = await visited(tmp_path, place, *arguments)

    assert [attempt.failed for attempt in shown.attempts if reason in attempt.reason] == [True]
    assert not any(b"PLACEHOLDER" in head or b"ghp_" in head for head in shown.heads)


async def test_a_placeholder_never_leaves_in_the_open(tmp_path):
    """Over plain HTTP the request is refused, to the very host that may have the secret."""
    shown = await visited(tmp_path, "/v1/me", "-H", "Authorization: Bearer PLACEHOLDER", asked="http")

    assert b"over TLS only" in shown.out
    assert shown.heads == []
