"""Accepting: connections are counted from their first moment, by address and together."""

import socket
import ssl
import time
from contextlib import ExitStack

import httpx2
import pytest

from tests.unit.doors.http.conftest import Serve
from tests.unit.doors.http.served import Served
from tests.unit.doors.http.test_serving import certificate
from tipstaff.doors.http import accepting
from tipstaff.doors.http.settings import Limits


def connect(served: Served, source: str = "127.0.0.1") -> socket.socket:
    """Open a connection from an address of this machine."""
    host, port = served.url.partition("://")[2].rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0))


def is_closed(connection: socket.socket) -> bool:
    """Say whether the plane has hung up; it may say why before."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def eventually(claim, seconds: float = 20) -> bool:
    """Wait for something to become true."""
    until = time.monotonic() + seconds
    while not claim() and time.monotonic() < until:
        time.sleep(0.02)
    return bool(claim())


def test_connections_beyond_what_can_be_held_are_refused(serve: Serve, monkeypatch):
    """One connection too many is told so and closed; those before it are served on, and when they end there is room."""
    monkeypatch.setattr(accepting, "most_connections", lambda: 4)
    with serve() as served, ExitStack() as stack:
        assert served.ask("GET", "/v1/health").status_code == 200
        for _ in range(2):
            stack.enter_context(connect(served))
        with connect(served) as late:
            assert late.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert served.ask("GET", "/v1/health").status_code == 200
        stack.close()
        assert eventually(lambda: served.seats.total == 1)
        with connect(served) as one:
            one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert one.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_an_address_has_only_so_many_connections(serve: Serve, monkeypatch):
    """Beyond its share an address is refused, another is not; this machine itself may have more."""
    monkeypatch.setattr(accepting, "is_loopback", lambda address: address == "127.0.0.1")
    with serve(limits=Limits(connections=2)) as served, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(served, "127.0.0.2"))
        with connect(served, "127.0.0.2") as late:
            assert late.recv(65536).startswith(b"HTTP/1.1 503 ")
        for source in ("127.0.0.3", "127.0.0.1", "127.0.0.1", "127.0.0.1"):
            stack.enter_context(connect(served, source))
        assert served.ask("GET", "/v1/health").status_code == 200


def test_a_trusted_proxy_speaks_for_many(serve: Serve, monkeypatch):
    """The proxy that the settings name may have more connections than one address."""
    monkeypatch.setattr(accepting, "is_loopback", lambda _address: False)
    with serve(limits=Limits(connections=2), trusted_proxy="127.0.0.2") as served, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(served, "127.0.0.2"))
        with connect(served, "127.0.0.2") as one:
            one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert one.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_connections_without_tls_are_counted_too(serve: Serve, tmp_path, monkeypatch):
    """Those that never begin their handshake take seats, are closed soon, and leave their seats."""
    monkeypatch.setattr(accepting, "is_loopback", lambda address: address == "127.0.0.1")
    monkeypatch.setattr(accepting, "HANDSHAKE_SECONDS", 1.0)
    tls = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=tls.certificate)
    with serve(tls=tls, limits=Limits(connections=2)) as served, ExitStack() as stack:
        silent = [stack.enter_context(connect(served, "127.0.0.2")) for _ in range(2)]
        with connect(served, "127.0.0.2") as late:
            assert is_closed(late)
        with httpx2.Client(verify=trusting) as client:
            assert client.get(f"{served.url}/v1/health").json()["ok"] is True
        assert all(is_closed(one) for one in silent)
        assert eventually(lambda: served.seats.total == 0)
        with trusting.wrap_socket(connect(served, "127.0.0.2"), server_hostname="127.0.0.1") as one:
            one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert one.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
def test_a_handshake_that_fails_leaves_its_seat(serve: Serve, tmp_path, sent):
    """However a handshake ends, the connection is not counted any longer."""
    with serve(tls=certificate(tmp_path)) as served:
        for _ in range(20):
            with connect(served) as one:
                one.sendall(sent)
        assert eventually(lambda: served.seats.total == 0)
