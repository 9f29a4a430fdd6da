"""A small web on the loopback, with an authority of its own, under names that no resolver knows.

Speaks HTTP and HTTPS as `box.example` and names below it; whoever wants it names its address beside the name. Remembers
what was asked of it. Serves a folder (files, a repository, an index of packages) and a few answers that tests need.
"""

import base64
import contextlib
import datetime as dt
import gzip
import http.server
import ipaddress
import socket
import ssl
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "box.example"
NAMES = (HOST, "*.box.example", "other.example", "localhost")
ADDRESSES = ("127.0.0.1", "::1")


class Asked(NamedTuple):
    """One request that arrived."""

    secured: bool
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Web:
    """The servers, and what they saw; made by `open_web`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        self.authority = folder / "authority.pem"
        self.asked: list[Asked] = []
        self.credential = ""  # what /private wants in Authorization
        self.header = "Authorization"
        self._chain = folder / "chain.pem"
        _certify(self.authority, self._chain)
        self.authority.chmod(0o644)
        self._servers: list[_Server] = []
        self.https = self._serve("127.0.0.1", secured=True)
        self.http = self._serve("127.0.0.1", secured=False)

    def https_six(self) -> int:
        """Serve HTTPS on the loopback of IPv6, too; gives the port."""
        return self._serve("::1", secured=True)

    def flag(self, *more: str, host: str = HOST, port: int | None = None) -> str:
        """Spell what `--allow-host` takes for HTTPS, at the address where it is."""
        return ",".join((f"{host}:{port or self.https}", "address=127.0.0.1", *more))

    def url(self, path: str = "/hello", *, host: str = HOST) -> str:
        """Spell the place of something, by HTTPS."""
        return f"https://{host}:{self.https}{path}"

    def plain_url(self, path: str = "/hello", *, host: str = HOST) -> str:
        """Spell the place of something, by HTTP."""
        return f"http://{host}:{self.http}{path}"

    def seen(self, text: str) -> bool:
        """Say whether a text arrived in any part of any request."""
        return any(text in str(asked) or text.encode() in asked.body for asked in self.asked)

    def _serve(self, address: str, *, secured: bool) -> int:
        server = _Server(address, partial(_Handler, web=self, secured=secured))
        if secured:
            server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.context.load_cert_chain(self._chain)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._servers.append(server)
        return int(server.server_address[1])

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    context: ssl.SSLContext | None = None

    def __init__(self, address: str, handler: Callable[..., Any]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), handler)

    def server_bind(self) -> None:
        """Bind, and ask no resolver for our own name."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS on the thread of the connection: a client that is slow must not stop the others."""
        if self.context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(20)
        request.getpeername()  # fails where the client is gone already, which `wrap_socket` would leave open
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent: clients that vanish are what some tests are about."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    timeout = 20

    def __init__(self, *args: Any, web: Web, secured: bool) -> None:
        self._web = web
        self._secured = secured
        super().__init__(*args, directory=str(web.files))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base's parameter
        """Keep silent."""

    def do_GET(self) -> None:
        """Answer by the path's first name, or with a file."""
        self._note()
        name = urlsplit(self.path).path.split("/")[1]
        answer: Callable[[], None] | None = getattr(self, f"_{name}", None) if name in _ANSWERS else None
        (answer or super().do_GET)()

    def do_POST(self) -> None:
        """Take a body, and say how long it was."""
        self._note()
        self._say(f"took {len(self._web.asked[-1].body)} bytes\n".encode())

    do_PUT = do_DELETE = do_POST  # noqa: N815 - the names that the base looks for

    def _note(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                body += self.rfile.read(length + 2)[:-2]
            self.rfile.readline()
        said = {name.lower(): value for name, value in self.headers.items()}
        self._web.asked.append(Asked(self._secured, self.command, self.path, said, body))

    def _head(self, headers: dict[str, str], code: int = HTTPStatus.OK) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _say(self, body: bytes, code: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> None:
        self._head({"Content-Length": str(len(body))} | (headers or {}), code)
        self.wfile.write(body)

    def _hello(self) -> None:
        self._say(b"hello from the box\n")

    def _echo(self) -> None:
        self._say(str(self.headers).encode(), headers={"X-Echo": self._credential().decode()})

    def _chunks(self) -> None:
        """Give the credential back in chunks of one byte."""
        self.protocol_version = "HTTP/1.1"
        self._head({"Transfer-Encoding": "chunked", "Connection": "close"})
        for byte in self._credential():
            self.wfile.write(b"1\r\n%c\r\n" % byte)
        self.wfile.write(b"0\r\nX-Trailer: %s\r\n\r\n" % self._credential())

    def _encoded(self) -> None:
        """Give the credential back in other spellings, with no length."""
        self._head({})
        value = self._credential().split()[-1]
        self.wfile.write(b"\n".join((base64.b64encode(b"a" + value), value.hex().encode(), value[::-1])))

    def _packed(self) -> None:
        """Give the credential back compressed, although nobody asked for that."""
        self._say(gzip.compress(self._credential()), headers={"Content-Encoding": "gzip"})

    def _status(self) -> None:
        """Give the credential back in the status line, in a cookie and in an interim answer."""
        value = self._credential()
        self.wfile.write(b"HTTP/1.1 103 %b\r\nLink: %b\r\n\r\n" % (value, value))
        self.wfile.write(b"HTTP/1.1 200 %b\r\nSet-Cookie: a=%b\r\nContent-Length: 0\r\n\r\n" % (value, value))

    def _credential(self) -> bytes:
        return str(self.headers.get(self._web.header, "none")).encode()

    def _last(self) -> None:
        """Give away what somebody else has just sent, as a page for debugging would."""
        sent = [asked.headers.get(self._web.header.lower(), "") for asked in self._web.asked]
        self._say("\n".join(sent).encode())

    def _big(self) -> None:
        self._say(b"x" * int(self.path.split("/")[2]))

    def _moved(self) -> None:
        self._say(b"", HTTPStatus.FOUND, {"Location": parse_qs(urlsplit(self.path).query)["to"][0]})

    def _private(self) -> None:
        known = self.headers.get(self._web.header) == self._web.credential
        self._say(b"welcome\n" if known else b"who are you?\n", HTTPStatus.OK if known else HTTPStatus.UNAUTHORIZED)


_ANSWERS = frozenset({"hello", "echo", "chunks", "encoded", "packed", "status", "last", "big", "moved", "private"})


@contextlib.contextmanager
def open_web(folder: Path) -> Iterator[Web]:
    """Give a web that is gone afterwards."""
    web = Web(folder)
    try:
        yield web
    finally:
        web.close()


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], object]) -> Iterator[int]:
    """Serve TCP by a function that gets each connection, one after the other; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(listener.accept()[0])
                    with contextlib.suppress(OSError):
                        talk(held[-1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        for one in held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for one in held:
            one.close()


def add_repository(web: Web) -> str:
    """Put a repository with one file into the served folder, as plain files; gives its path."""
    source, bare = web.folder / "source", web.files / "repository.git"
    source.mkdir()
    (source / "README").write_text("from the repository\n")
    names = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    commands = [
        *(("init", "--quiet", "."), ("add", "README"), ("commit", "--quiet", "-m", "one")),
        ("clone", "--quiet", "--bare", ".", str(bare)),
        ("-C", str(bare), "update-server-info"),
    ]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(source), "GIT_CONFIG_NOSYSTEM": "1"}
    for command in commands:
        subprocess.run(["/usr/bin/git", *names, *command], cwd=source, env=environ, check=True, capture_output=True)
    return "/repository.git"


def add_package(web: Web) -> str:
    """Put an index with one package into the served folder; gives the index's path."""
    name = "tipstaff_canary-1.0-py3-none-any.whl"
    folder = web.files / "index" / "tipstaff-canary"
    folder.mkdir(parents=True)
    about = "tipstaff_canary-1.0.dist-info"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("tipstaff_canary.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tipstaff-canary\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>')
    return "/index/"


def basic(user: str, password: str) -> str:
    """Spell a login as Authorization has it."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _certify(authority: Path, chain: Path) -> None:
    """Write a new authority, and a certificate of its with the key."""
    now = dt.datetime.now(dt.UTC)
    top, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
    sign = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
    )
    above = (
        sign.subject_name(issuer)
        .public_key(top.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(top.public_key()), critical=False)
        .add_extension(_signing(), critical=True)
        .sign(top, hashes.SHA256())
    )
    names = [*map(x509.DNSName, NAMES), *(x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES)]
    below = (
        sign.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)]))
        .public_key(leaf.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(top.public_key()), critical=False)
        .sign(top, hashes.SHA256())
    )
    authority.write_bytes(above.public_bytes(serialization.Encoding.PEM))
    key = leaf.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(key + below.public_bytes(serialization.Encoding.PEM))


def _signing() -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
