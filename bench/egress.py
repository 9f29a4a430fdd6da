"""What the gate costs: bytes through a tunnel and a CONNECT, against going directly, and many tunnels at once.

Server, gate and client are processes of their own, on loopback; direct and through the gate take turns. The gate runs
as in a session: its own rules, its own checks, addresses by the rule so that no resolver is measured.
"""

import asyncio
import contextlib
import multiprocessing
import resource
import socket
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

from bench.figure import Figure, interleaved
from tipstaff.egress.gate import Gate
from tipstaff.egress.terms import Terms
from tipstaff.model.network import EgressRule

MIB = 1 << 20
VOLUME_BYTES = 256 * MIB
ROUNDS = 7
CONNECTS = 300
HELD = 500
PIECE = bytes(MIB)
NAME = "server.example"
LOOPBACK = "127.0.0.1"


def figures() -> Iterator[Figure]:
    """Measure everything about the gate."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))  # of the gate's process, which inherits it
    try:
        with _process(_server, socket.create_server((LOOPBACK, 0), backlog=1024)) as server:
            rule = EgressRule(host=NAME, opaque=True, addresses=(LOOPBACK,))
            with _process(_gate, socket.create_server((LOOPBACK, 0), backlog=1024), rule) as gate:
                yield _throughput(server, gate)
                yield _latency(server, gate)
                yield _held(server, gate)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _throughput(server: int, gate: int) -> Figure:
    direct, through = interleaved(ROUNDS, lambda: _download(_direct(server)), lambda: _download(_through(gate, server)))
    detail = {"direct_mib_per_second": round(VOLUME_BYTES / MIB / direct), "mib": VOLUME_BYTES // MIB}
    detail["gate_mib_per_second"] = round(VOLUME_BYTES / MIB / through)
    return Figure(
        "egress_throughput_ratio",
        direct / through,
        "of a direct connection",
        at_least=0.35,
        is_gate=False,
        detail=detail,
    )


def _latency(server: int, gate: int) -> Figure:
    """Time a connection up to its first byte back."""
    direct, through = interleaved(CONNECTS, lambda: _ping(_direct(server)), lambda: _ping(_through(gate, server)))
    detail = {"direct_ms": round(direct * 1000, 3), "connects": CONNECTS}
    return Figure(
        "egress_latency_ms",
        (through - direct) * 1000,
        "ms added per CONNECT",
        at_most=3.0,
        is_gate=False,
        detail=detail,
    )


def _held(server: int, gate: int) -> Figure:
    """Open many tunnels, then have each carry something while all are open."""
    start = perf_counter()
    with contextlib.ExitStack() as stack:
        tunnels = [stack.enter_context(_through(gate, server)) for _ in range(HELD)]
        opened = perf_counter() - start
        times = []
        for tunnel in tunnels:
            start = perf_counter()
            _exchange(tunnel)
            times.append(perf_counter() - start)
    detail = {"open_seconds": round(opened, 2), "exchange_ms": round(median(times) * 1000, 3)}
    return Figure("egress_connections", len(times), "tunnels at once", at_least=HELD, is_gate=False, detail=detail)


def _direct(server: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, server), timeout=30)


def _through(gate: int, server: int) -> socket.socket:
    made = socket.create_connection((LOOPBACK, gate), timeout=30)
    made.sendall(f"CONNECT {NAME}:{server} HTTP/1.1\r\nHost: {NAME}:{server}\r\n\r\n".encode())
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += made.recv(1)
    if b" 200 " not in said:
        raise RuntimeError(said.decode())
    return made


def _exchange(made: socket.socket) -> None:
    made.sendall(b"p")
    if made.recv(1) != b"p":
        raise RuntimeError("the server did not answer")


def _ping(made: socket.socket) -> None:
    with made:
        _exchange(made)


def _download(made: socket.socket) -> None:
    buffer, left = bytearray(MIB), VOLUME_BYTES
    with made:
        made.sendall(b"d")
        while left:
            left -= made.recv_into(buffer)


@contextlib.contextmanager
def _process(target: Callable[..., Any], listener: socket.socket, *arguments: Any) -> Iterator[int]:
    process = multiprocessing.get_context("fork").Process(target=target, args=(listener, *arguments), daemon=True)
    process.start()
    port: int = listener.getsockname()[1]
    listener.close()
    try:
        yield port
    finally:
        process.kill()
        process.join()


def _gate(listener: socket.socket, rule: EgressRule) -> None:
    async def serve() -> None:
        Gate(Terms((rule,)), lambda _: None).serve(listener)
        await asyncio.Event().wait()

    asyncio.run(serve())


def _server(listener: socket.socket) -> None:
    """Answer `p` with itself, and `d` with the whole volume."""

    class Answers(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport

        def data_received(self, data: bytes) -> None:
            if data == b"p":
                self._transport.write(data)
            else:
                asyncio.get_running_loop().create_task(_pour(self._transport.get_extra_info("socket").dup()))

    async def _pour(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            for _ in range(VOLUME_BYTES // len(PIECE)):
                await asyncio.get_running_loop().sock_sendall(sock, PIECE)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Answers, sock=listener)
        await server.serve_forever()

    asyncio.run(serve())
