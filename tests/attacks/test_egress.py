"""Ways past the gate that are known from other tools, in real runs with one allowed host; each beside its twin."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

import tipstaff
from tests.acceptance.outing import TIPSTAFF, Outing
from tests.acceptance.web import HOST, Web, open_web, talking
from tests.attacks.knocking import SPEAK, TABLE, connect, heard, held, lines, spoken, status
from tests.unit.egress.world import hello

ECH = 0xFE0D
HELLO = "hello from the box"


@pytest.fixture(autouse=True)
def forgetful(web) -> None:
    """Have the web forget what was asked before."""
    web.asked.clear()


class Sink:
    """Sockets of the host that nobody inside may reach, and what came to them."""

    def __init__(self) -> None:
        self.abstract = f"tipstaff-sink-{os.getpid()}"
        self.lan = _own_address()
        self.four, self.six = socket.create_server(("127.0.0.1", 0)), _server_six()
        self.any = socket.create_server(("0.0.0.0", 0))  # noqa: S104 - as services that trust their network do
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("0.0.0.0", 0))  # noqa: S104 - as above
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(f"\0{self.abstract}")
        self.unix.listen()

    def port(self, name: str) -> int:
        """Give the port of one of them."""
        return int(getattr(self, name).getsockname()[1])

    def reached(self) -> list[str]:
        """Say which of them somebody came to."""
        found = []
        for name in ("four", "six", "any", "unix", "datagrams"):
            sock: socket.socket = getattr(self, name)
            sock.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                if name == "datagrams":
                    sock.recv(99)
                else:
                    sock.accept()[0].close()
                found.append(name)
        return found

    def close(self) -> None:
        """Let go of them."""
        for name in ("four", "six", "any", "unix", "datagrams"):
            getattr(self, name).close()


def _server_six() -> socket.socket:
    return socket.create_server(("::1", 0), family=socket.AF_INET6)


def _own_address() -> str:
    """Give the address that this host has on its network, or another of its loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        asking.connect(("192.0.2.1", 9))
        return str(asking.getsockname()[0])
    return "127.0.0.2"  # inside that is the sandbox's own


@pytest.fixture
def sink() -> Iterator[Sink]:
    """The host's sockets."""
    made = Sink()
    yield made
    made.close()


NETLINK = """
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 0))
body = struct.pack('BBHiII', 0, 0, 0, 0, 0, 0) + struct.pack('HH', 12, 3) + b'dummy0\\0\\0'
s.send(struct.pack('IHHII', 16 + len(body), 16, 0x605, 1, 0) + body)
code = struct.unpack('i', s.recv(4096)[16:20])[0]
if code: raise OSError(-code, '')
"""


def ways_past(sink: Sink, web: Web) -> dict[str, str]:
    """List what a command may try that does not use the gate."""
    tcp = "socket.create_connection(({!r}, {}), 3)"
    udp = "socket.socket(socket.{}, socket.SOCK_DGRAM).sendto(b'x', ({!r}, {}))"
    made = "socket.socket(socket.{}, socket.{})"
    gate = f"s = socket.create_connection(('127.0.0.1', 3128), 3); s.sendall({connect(f'{HOST}:{web.https}')!r}); "
    return {
        "the gate": gate + "assert b' 200 ' in s.recv(999)",
        "loopback": tcp.format("127.0.0.1", sink.port("four")),
        "loopback of IPv6": tcp.format("::1", sink.port("six")),
        "any address": tcp.format("0.0.0.0", sink.port("any")),  # noqa: S104 - to connect to
        "host's own address": tcp.format(sink.lan, sink.port("any")),
        "allowed server itself": tcp.format("127.0.0.1", web.https),
        "mapped": f"s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', {sink.port('four')}))",
        "public": tcp.format("198.51.100.7", 443),
        "public of IPv6": tcp.format("2001:db8::7", 443),
        "metadata": tcp.format("169.254.169.254", 80),
        "DoH by address": tcp.format("192.0.2.53", 443),
        "DNS over TCP": tcp.format("192.0.2.53", 53),
        "DNS over UDP": udp.format("AF_INET", "192.0.2.53", 53),
        "own loopback": udp.format("AF_INET", "127.0.0.1", sink.port("datagrams")),
        "datagram": udp.format("AF_INET", sink.lan, sink.port("datagrams")),
        "datagram of IPv6": udp.format("AF_INET6", "2001:db8::7", 53),
        "resolver": "socket.getaddrinfo('example.com', 443)",
        "resolver, allowed name": f"socket.getaddrinfo({HOST!r}, 443)",
        "abstract": f"socket.socket(socket.AF_UNIX).connect('\\0{sink.abstract}')",
        "raw": made.format("AF_INET", "SOCK_RAW"),
        "packet": made.format("AF_PACKET", "SOCK_RAW"),
        "vsock": made.format("AF_VSOCK", "SOCK_STREAM"),
        "bluetooth": "socket.socket(31, socket.SOCK_RAW)",
        "netlink": NETLINK,
        "forwarding": "open('/proc/sys/net/ipv4/ip_forward', 'w').write('1')",
        "route": "if len(open('/proc/net/route').readlines()) < 2: raise OSError(101, '')",
        "other namespace": "if ctypes.CDLL(None).setns(os.open('/proc/1/ns/net', 0), 0): raise OSError(1, '')",
        "no variables": f"subprocess.run(['env', '-i', '/usr/bin/curl', '-skm', '3', '{web.url()}'], check=True)",
        "no proxy": f"subprocess.run(['/usr/bin/curl', '-skm', '3', '--noproxy', '*', '{web.url()}'], check=True)",
    }  # fmt: skip


def test_nothing_leaves_but_through_the_gate(outing, web, sink):
    """Of all sockets that a command can make only the one to the gate leads anywhere; the host hears of no other."""
    ways = ways_past(sink, web)
    went = outing.go("--allow-host", web.flag(), "--", "python3", "-c", TABLE, stdin=json.dumps(ways).encode())
    found = json.loads(went.stdout)

    own = ["the gate", "own loopback"] + ["datagram"] * sink.lan.startswith("127.")
    assert [name for name, outcome in found.items() if outcome == "ok"] == own, found
    assert sink.reached() == []


def corpus(port: int) -> dict[str, list[bytes]]:
    """List requests that two readers would read differently, and spellings of hosts that programs disagree about."""
    box = f"{HOST}:{port}"
    get = f"GET http://{box}/smuggled HTTP/1.1"
    host = f"Host: {box}"
    chunked, none = "Transfer-Encoding: chunked", b"0\r\n\r\n"
    inner = lines(f"GET http://{box}/smuggled HTTP/1.1", host)
    requests = {
        "length and coding": lines(get, host, "Content-Length: 4", chunked, body=none),
        "two lengths": lines(get, host, "Content-Length: 0", "Content-Length: 5", body=b"hello"),
        "length with sign": lines(get, host, "Content-Length: +5", body=b"hello"),
        "length as list": lines(get, host, "Content-Length: 5, 5", body=b"hello"),
        "coding in disguise": lines(get, host, "Transfer-Encoding: xchunked", body=none),
        "coding twice": lines(get, host, chunked, "Transfer-Encoding: identity", body=none),
        "coding, vertical tab": lines(get, host, b"Transfer-Encoding:\x0bchunked", body=none),
        "coding, space before colon": lines(get, host, "Transfer-Encoding : chunked", body=none),
        "coding in HTTP/1.0": lines(get.replace("1.1", "1.0"), host, chunked, body=none),
        "chunk with sign": lines(get, host, chunked, body=b"+5\r\nhello\r\n0\r\n\r\n"),
        "chunk with 0x": lines(get, host, chunked, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
        "chunk with bare LF": lines(get, host, chunked, body=b"5\nhello\r\n0\r\n\r\n"),
        "chunk too long": lines(get, host, chunked, body=b"3\r\nhello\r\n0\r\n\r\n"),
        "bare LF": f"{get}\n{host}\n\n".encode(),
        "bare LF in head": lines(get, host + "\nX: y"),
        "bare CR in head": lines(get, host + "\rX: y"),
        "folded line": lines(get, host, "X: a", " folded"),
        "NUL in a value": lines(get, host, "X: a\0b"),
        "NUL in the target": lines(f"GET http://{box}/\0 HTTP/1.1", host),
        "no Host": lines(get),
        "two Hosts": lines(get, host, host),
        "another Host": lines(get, "Host: other.example"),
        "Host, other port": lines(get, f"Host: {HOST}:1"),
        "userinfo, denied behind": lines(f"GET http://{HOST}@other.example/ HTTP/1.1", "Host: other.example"),
        "userinfo": lines(f"GET http://user:word@{box}/ HTTP/1.1", host),
        "userinfo, allowed in front": lines(f"GET http://{box}@127.0.0.1:{port}/ HTTP/1.1", host),
        "fragment": lines(f"GET http://{box}#@other.example/ HTTP/1.1", host),
        "backslash": lines(f"GET http://other.example\\@{box}/ HTTP/1.1", host),
        "path only": lines("GET /smuggled HTTP/1.1", host),
        "https by GET": lines(f"GET https://{box}/ HTTP/1.1", host),
        "another scheme": lines(f"GET ftp://{box}/ HTTP/1.1", host),
        "version 0.9": f"GET http://{box}/\r\n\r\n".encode(),
        "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "TRACE": lines(f"TRACE http://{box}/ HTTP/1.1", host),
        "lower-case method": lines(f"get http://{box}/ HTTP/1.1", host),
        "two spaces": lines(f"GET  http://{box}/ HTTP/1.1", host),
        "hop header takes Host": lines(get, host, "Connection: close, Host"),
        "hop header takes a length": lines(get, host, "Connection: Content-Length", "Content-Length: 5", body=b"hello"),
        "endless header": lines(get, host, "X: " + "a" * 70_000),
        "many headers": lines(get, host, *(f"X-{number}: a" for number in range(500))),
        "pipelined": lines(f"GET http://{box}/hello HTTP/1.1", host) + inner,
        "pipelined behind a body": lines(get.replace("GET", "PUT"), host, "Content-Length: 2", body=b"ok" + inner),
        "CONNECT with a body": lines(f"CONNECT {box} HTTP/1.1", host, "Content-Length: 5", body=b"hello"),
        "CONNECT with a path": lines(f"CONNECT {box}/x HTTP/1.1", host),
        "CONNECT with userinfo": lines(f"CONNECT a@{box} HTTP/1.1", host),
        "SOCKS 5": b"\x05\x01\x00",
        "SOCKS 4": b"\x04\x01\x01\xbb\x7f\0\0\x01\0",
        "TLS at once": hello(HOST),
    }  # fmt: skip
    return {name: [said] for name, said in requests.items()}


NAMES = (
    "evil.example\0.box.example", "evil.example%00.box.example", "evil.example\n.box.example",
    "evil.example .box.example", "evil.example/.box.example", "evil.example#.box.example", "b\u043ex.example",
    "xbox.example", "box.example.evil.example", "box.example..", ".box.example", "-", "a" * 64 + ".box.example",
    "127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.", "0.0.0.0.", "0", "[::1]",
    "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
    "[fe80::1%25lo]", "localhost", "169.254.169.254", "*.box.example", "*", "",
)  # fmt: skip


def test_what_can_be_read_in_two_ways_is_refused(outing, web):
    """Smuggling, odd targets and other protocols get an error, and nothing of them arrives; plain requests do."""
    said = corpus(web.http)
    plain = lines(f"GET http://{HOST}:{web.http}/hello HTTP/1.1", f"Host: {HOST}:{web.http}")
    said["plain"] = [plain]
    said["spelled otherwise"] = [plain.replace(b"box.example", b"BOX.example.")]
    went = outing.go("--allow-host", web.flag(port=web.http), "--", "python3", "-c", SPEAK, stdin=spoken(said))

    answers = {name: status(answer) for name, answer in heard(went.stdout).items()}
    good = {name: answers.pop(name) for name in ("plain", "spelled otherwise")}
    assert good == {"plain": 200, "spelled otherwise": 200}
    assert {name: code for name, code in answers.items() if not (400 <= code < 500 or code == 505)} == {}
    assert not web.seen("smuggled")
    assert [asked.path for asked in web.asked if asked.method == "GET"].count("/hello") in {2, 3}
    assert all(asked.headers["host"] == f"{HOST}:{web.http}" for asked in web.asked)


@pytest.mark.parametrize("way", ["CONNECT", "GET"])
def test_only_the_allowed_name_passes(outing, web, way):
    """No spelling of another name or address passes for the allowed one, by CONNECT or forwarded; its own does."""
    said = {}
    for name in (*NAMES, HOST, "Box.Example."):
        place = f"{name}:{web.http}"
        first = f"CONNECT {place} HTTP/1.1" if way == "CONNECT" else f"GET http://{place}/hello HTTP/1.1"
        said[name] = [lines(first.encode(), f"Host: {place}".encode())]
    went = outing.go(
        "--allow-host", web.flag("opaque", port=web.http), "--", "python3", "-c", SPEAK, stdin=spoken(said)
    )

    answers = {name: status(answer) for name, answer in heard(went.stdout).items()}
    assert [name for name, code in answers.items() if code == 200] == [HOST, "Box.Example."]
    assert {code for name, code in answers.items() if name in NAMES} <= {400, 403}
    assert {tried["host"] for tried in went.attempts if tried["decision"] == "allowed"} == {HOST}


ALERT = 21  # the first byte of what TLS says when it refuses


def test_the_clienthello_must_name_the_host(outing):
    """Another name, none, or an encrypted one is refused before a byte goes on; the right one, even in pieces, goes."""
    arrived: list[bytes] = []

    def take(sock: socket.socket) -> None:
        sock.settimeout(5)
        with contextlib.suppress(TimeoutError):
            while data := sock.recv(4096):
                arrived.append(data)
                sock.sendall(b"\x15\x03\x03\x00\x02\x02\x28")
        sock.shutdown(socket.SHUT_RDWR)

    with talking(take) as port:
        start = connect(f"{HOST}:{port}")
        good = hello(HOST)
        said = {
            "another": [start, hello("other.example")],
            "none": [start, hello(None)],
            "below": [start, hello("a.box.example")],
            "NUL": [start, hello("box.example\0")],
            "decoy": [start, hello(HOST, (ECH, b"\0\0\x01\0\x01\0\0\x20" + bytes(32) + b"\0\x08" + bytes(8)))],
            "not TLS": [start, b"SSH-2.0-OpenSSH_9.0\r\n"],
            "HTTP": [start, lines("GET / HTTP/1.1", "Host: other.example")],
        }
        flag = f"{HOST}:{port},address=127.0.0.1"
        refused = outing.go("--allow-host", flag, "--", "python3", "-c", SPEAK, stdin=spoken(said))
        before = list(arrived)
        passed = outing.go("--allow-host", flag, "--", "python3", "-c", SPEAK, stdin=spoken({"good": [start, good]}))

    answers = heard(refused.stdout)
    assert {name: status(answer) for name, answer in answers.items()} == dict.fromkeys(said, 200)
    assert answers.pop("HTTP")[1].startswith(b"HTTP/1.1 403 ")  # read, and judged like a request that is forwarded
    assert {name: answer[1][0] for name, answer in answers.items()} == dict.fromkeys(answers, ALERT)
    assert (before, b"".join(arrived)) == ([], good)
    assert {tried["decision"] for tried in refused.attempts} == {"blocked"}
    assert [(tried["decision"], tried["depth"]) for tried in passed.attempts] == [("allowed", "sni")]


FRONT = """
import base64, json, socket, ssl, sys
def ask(place, name, head, alpn=None):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(alpn or [])
    try:
        sock = socket.create_connection(("127.0.0.1", 3128), 10)
        sock.sendall(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n".encode())
        if b" 200 " not in (said := sock.recv(4096)):
            return said.decode()
        with context.wrap_socket(sock, server_hostname=name) as inside:
            if alpn and inside.selected_alpn_protocol() != "http/1.1":
                return f"no protocol: {inside.selected_alpn_protocol()}"
            inside.sendall(base64.b64decode(head))
            found = b""
            while data := inside.recv(65536):
                found += data
            return found.decode()
    except (OSError, ssl.SSLError) as fault:
        return f"broken: {fault}"
print(json.dumps({name: ask(*one) for name, one in json.load(sys.stdin).items()}))
"""


def test_fronting_is_seen_under_inspection(outing, web):
    """Inside TLS that is looked into, another Host, an absolute target, a second request and HTTP/2 are refused."""
    place, own = f"{HOST}:{web.https}", f"Host: {HOST}:{web.https}"
    heads = {
        "plain": (HOST, lines("GET /hello HTTP/1.1", own)),
        "Host": (HOST, lines("GET /smuggled HTTP/1.1", f"Host: other.example:{web.https}")),
        "Host, no port": (HOST, lines("GET /smuggled HTTP/1.1", "Host: other.example")),
        "no Host": (HOST, lines("GET /smuggled HTTP/1.1")),
        "target": (HOST, lines(f"GET https://other.example:{web.https}/smuggled HTTP/1.1", own)),
        "CONNECT inside": (HOST, connect(f"other.example:{web.https}")),
        "second": (HOST, lines("GET /hello HTTP/1.1", own) + lines("GET /smuggled HTTP/1.1", "Host: other.example")),
        "name": ("other.example", lines("GET /smuggled HTTP/1.1", own)),
        "no name": (None, lines("GET /smuggled HTTP/1.1", own)),
        "upgrade": (HOST, lines("GET /hello HTTP/1.1", own, "Connection: Upgrade", "Upgrade: websocket")),
    }
    tried: dict[str, list[object]] = {
        name: [place, sni, base64.b64encode(head).decode()] for name, (sni, head) in heads.items()
    }
    tried["only HTTP/2"] = [place, HOST, base64.b64encode(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").decode(), ["h2"]]
    flags = ["--allow-host", web.flag("inspect")]
    went = outing.go(*flags, "--", "python3", "-c", FRONT, stdin=json.dumps(tried).encode())

    answers = json.loads(went.stdout)
    assert HELLO in answers.pop("plain")
    assert HELLO in answers.pop("upgrade")  # as a plain request: nobody is asked for another protocol
    assert {name: said for name, said in answers.items() if " 200 " in said.split("\n")[0]} == {}
    assert not web.seen("smuggled")
    assert all("upgrade" not in asked.headers for asked in web.asked)


@pytest.mark.parametrize("known", [True, False])
def test_a_certificate_is_checked_where_the_gate_looks_inside(outing, web, tmp_path, known):
    """The gate speaks for its clients, so it checks for them: a server that the host does not trust is not reached."""
    with open_web(tmp_path / "other") as other:
        trusted = (other if known else web).authority
        flag = other.flag("inspect")
        went = outing.go("--allow-host", flag, "--", "curl", "-sk", other.url(), SSL_CERT_FILE=str(trusted))

        assert (HELLO in went.text) is known
        assert bool(other.asked) is known
    assert known or "upstream error" in went.text


@pytest.mark.parametrize("second", [True, False])
def test_a_redirect_is_a_new_decision(outing, web, second):
    """A client that follows an allowed host to another one is judged anew."""
    target = web.url(host="other.example")
    more = ["--allow-host", web.flag("inspect", host="other.example")] if second else []
    command = ["curl", "-sL", web.url(f"/moved?to={target}")]
    went = outing.go("--allow-host", web.flag("inspect"), *more, "--", *command)

    # Each is told when it has ended, so that either may come first.
    assert sorted((tried["host"], tried["decision"]) for tried in went.attempts) == [
        (HOST, "allowed"),
        ("other.example", "allowed" if second else "blocked"),
    ]
    assert (went.text == HELLO) is second


RELAY = """
import socket, subprocess, sys, threading
def pump(one, other):
    while data := one.recv(65536):
        other.sendall(data)
def serve():
    while True:
        near, far = server.accept()[0], socket.create_connection(("127.0.0.1", 3128))
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
gate = f"http://127.0.0.1:{server.getsockname()[1]}"
for url in sys.argv[1:]:
    command = ["curl", "-s", "-m", "9", "-o", "/dev/null", "-w", "%{http_connect}", "-x", gate, url]
    print(subprocess.run(command, stdout=-1).stdout.decode())
"""


def test_a_relay_inside_changes_nothing(outing, web):
    """Whoever speaks to the gate through a program of the sandbox's own gets the same answers."""
    urls = [web.url(), web.url(host="other.example")]
    went = outing.go("--allow-host", web.flag("inspect"), "--", "python3", "-c", RELAY, *urls)

    assert went.text.split() == ["200", "403"]


def at_the_door(port: int, request: bytes) -> int:
    """Say what a local user gets who speaks to a port of the host's; 0 where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(request)
            return status([sock.recv(4096)])
    except ConnectionRefusedError:
        return 0


def test_a_gate_serves_its_own_sandbox_alone(outing, web):
    """While one run may reach a host, its neighbour may not, and on the host there is no such port."""
    before = at_the_door(3128, connect(f"{HOST}:{web.https}"))
    command = ["sh", "-c", 'echo on; cat; curl -s "$1"', "sh", web.url()]
    with held(outing, "--allow-host", web.flag("inspect"), "--", *command) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"on\n"
        neighbour = outing.go("--", "curl", "-s", "-x", "http://127.0.0.1:3128", web.url())
        during = at_the_door(3128, connect(f"{HOST}:{web.https}"))
        said, _ = first.communicate(timeout=60)

    assert [tried["decision"] for tried in neighbour.attempts] == ["blocked"]
    assert (before, during) == (during, before)
    assert said.decode().strip() == HELLO


async def test_runs_at_once_in_one_process_have_a_gate_each(web, tmp_path):
    """Of many runs that one process holds at the same time each gets out by its own rules, and by no other's."""
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", web.plain_url()]
    async with tipstaff.open(home=tmp_path / "home") as box:
        allowed = [[web.flag(port=web.http)] if number % 2 else [] for number in range(6)]
        outcomes = await asyncio.gather(*(box.run(command, allow_hosts=hosts) for hosts in allowed))

    assert [outcome.stdout for outcome in outcomes] == [b"403", b"200"] * 3
    assert [len(outcome.refusals) for outcome in outcomes] == [1, 0] * 3


def on_trust(outing: Outing) -> str:
    """Write a policy for runs without a network of their own."""
    clauses = ("memory", "cpu", "pids", "disk", "files", "secrets", "time", "output", "restricted", "network", "hosts")
    tiers = {"default": "process", "minimum": "process", "tolerate": dict.fromkeys(clauses, "unenforceable")}
    return outing.policy(network={"hosts": [{"host": HOST, "addresses": ["127.0.0.1"]}]}, tiers=tiers)


def test_a_gate_on_the_hosts_loopback_wants_its_password(outing, web):
    """A local user who finds the port of a run without a network of its own is sent away, unless he has its word."""
    command = ["sh", "-c", "echo $https_proxy; cat"]
    flags = ["--policy", on_trust(outing), "--allow-host", web.flag()]
    with held(outing, *flags, "--", *command) as run:
        assert run.stdout is not None
        login, _, place = run.stdout.readline().decode().strip().removeprefix("http://").partition("@")
        port, target = int(place.rpartition(":")[2]), f"{HOST}:{web.https}"
        logins = {
            "none": "",
            "wrong": "tipstaff:" + "0" * 48,
            "name only": "tipstaff:",
            "longer": login + "0",
            "right": login,
        }
        words = {name: base64.b64encode(word.encode()).decode() for name, word in logins.items()}
        found = {
            name: at_the_door(port, lines(f"CONNECT {target} HTTP/1.1", f"Proxy-Authorization: Basic {word}"))
            for name, word in words.items()
        }
        found["no header"] = at_the_door(port, connect(target))
        found["forwarded"] = at_the_door(port, lines(f"GET http://{target}/ HTTP/1.1", f"Host: {target}"))
        run.communicate(timeout=60)

    assert found.pop("right") == 200
    assert set(found.values()) == {407}, found


# In a network and a mount namespace of its own, with a resolver of its own: runs the program, prints what it was asked.
RESOLVER = """
import fcntl, json, os, socket, struct, subprocess, sys, threading
told = json.loads(sys.argv[1])
lo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(lo, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up and running
lo.bind(("127.0.0.1", 53))
asked = []
def name_in(query):
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode())
        place += 1 + length
    return ".".join(labels), place + 1
def answer(query):
    name, place = name_in(query)
    kind = struct.unpack("!H", query[place : place + 2])[0]
    asked.append(name)
    turn = told["names"].get(name, [])
    # Each time the next list of addresses, where there are several: that is how a name is rebound.
    listed = turn.pop(0) if len(turn) > 2 else turn[0] if turn else []
    found = [socket.inet_pton(socket.AF_INET6 if ":" in one else socket.AF_INET, one) for one in listed]
    fitting = [one for one in found if len(one) == {1: 4, 28: 16}.get(kind)]
    records = [b"\\xc0\\x0c" + struct.pack("!HHIH", kind, 1, 0, len(one)) + one for one in fitting]
    code = 0x8180 if name in told["names"] else 0x8183
    return query[:2] + struct.pack("!HHHHH", code, 1, len(records), 0, 0) + query[12 : place + 4] + b"".join(records)
def serve():
    while True:
        query, who = lo.recvfrom(4096)
        lo.sendto(answer(query), who)
threading.Thread(target=serve, daemon=True).start()
ended = subprocess.run(told["command"], capture_output=True, timeout=90)
print(json.dumps({"asked": asked, "stdout": ended.stdout.decode(), "stderr": ended.stderr.decode()}))
"""
ENTER = (
    'echo nameserver 127.0.0.1 > "$1/resolv.conf" && mount --bind "$1/resolv.conf" /etc/resolv.conf && exec "${@:2}"'
)


@pytest.mark.only_if(os.geteuid() == 0, "only root can have a resolver of its own")
def test_a_name_is_judged_before_it_is_resolved_and_its_addresses_after(outing, tmp_path):
    """The resolver hears of allowed names alone; where one leads to this host, hidden or not, nobody is dialled."""
    hidden = {
        "four.in.example": "127.0.0.1",
        "mapped.in.example": "::ffff:127.0.0.1",
        "nat.in.example": "64:ff9b::7f00:1",
        "sixtofour.in.example": "2002:7f00:1::",
        "metadata.in.example": "169.254.169.254",
        "lan.in.example": "192.168.1.1",
        "zero.in.example": "0.0.0.0",  # noqa: S104 - what a resolver says
        "six.in.example": "::1",
        "local.in.example": "fe80::1",
    }
    denied = ["secret-canary.out.example", "in.example", "a.deep.example"]
    # Answers to both kinds of question, thrice: were it asked again between the check and the dial, it would be caught.
    rebound = [["198.41.0.4"], ["198.41.0.4"], ["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]]
    names = {name: [[address]] for name, address in hidden.items()} | {"rebound.in.example": rebound}
    urls = [f"http://{name}/" for name in (*hidden, *denied, "rebound.in.example", "missing.in.example")]
    script = "for url; do curl -s -m 20 $url | head -1; done"
    path = tmp_path / "bundle.json"
    flags = ["--bundle", path, "--allow-host", "*.in.example", "--", "sh", "-c", script, "sh", *urls]
    told = {"names": names, "command": [TIPSTAFF, "run", *map(str, flags)]}
    words = [str(tmp_path), sys.executable, "-c", RESOLVER, json.dumps(told)]
    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "--net", "bash", "-c", ENTER, "bash", *words],
        env=outing.environ, cwd=tmp_path, capture_output=True, timeout=100, check=True,
    )  # fmt: skip

    found = json.loads(ended.stdout)
    said = dict(zip(urls, found["stdout"].splitlines(), strict=True))
    assert set(found["asked"]) == {*hidden, "rebound.in.example", "missing.in.example"}
    assert found["asked"].count("rebound.in.example") <= 2  # one question for each kind of address
    assert all("which" in said[f"http://{name}/"] for name in hidden), said
    assert all("no rule allows" in said[f"http://{name}/"] for name in denied)
    assert "upstream error: rebound.in.example:80 cannot be reached" in said["http://rebound.in.example/"]
    assert "does not resolve" in said["http://missing.in.example/"]
    tried = {
        event["host"]: event for link in json.loads(path.read_text())["events"] if "host" in (event := link["event"])
    }
    assert {tried[name]["decision"] for name in (*hidden, *denied)} == {"blocked"}
    assert not any(tried[name].get("address") for name in hidden)
