"""Floods, crowds, servers that break off, clients that vanish: the gate says a sentence, and the run ends in time."""

import contextlib
import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.acceptance.web import HOST, talking
from tests.attacks.knocking import SPEAK, connect, heard, held, lines, spoken, status


@pytest.fixture(autouse=True)
def forgetful(web) -> None:
    """Have the web forget what was asked before."""
    web.asked.clear()


FLOOD = """
import concurrent.futures, socket
def knock(number):
    with socket.create_connection(("127.0.0.1", 3128), 60) as gate:
        gate.sendall(b"CONNECT n%d.evil.example:443 HTTP/1.1\\r\\n\\r\\n" % number)
        return b" 403 " in gate.recv(999)
with concurrent.futures.ThreadPoolExecutor(8) as crowd:
    print(sum(crowd.map(knock, range(5000))))
"""


def test_a_flood_is_bounded(outing, web):
    """Of 5000 refused attempts each is answered, what is written down stays small, and so does our memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    went = outing.go("--allow-host", web.flag(), "--", "python3", "-c", FLOOD)

    counted = sum(tried.get("count", 1) for tried in went.attempts)
    assert (went.text, counted) == ("5000", 5000)
    assert len(went.attempts) <= 2002
    assert went.said.count("refused while it ran") <= 20
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 200_000)  # KiB


CROWD = """
import resource, socket, subprocess, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(650):
    held.append(socket.create_connection(("127.0.0.1", 3128), 10))
    held[-1].sendall(b"GET http://")
def get():
    command = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_connect}", sys.argv[1]]
    return subprocess.run(command, stdout=-1).stdout.decode()
print(get())
for one in held:
    one.close()
for _ in range(50):  # the gate has to hear of their going first
    after = get()
    if after == "200":
        break
    time.sleep(0.1)
print(after)
"""


def test_a_crowd_that_says_nothing_keeps_nobody_out_for_long(outing, web):
    """Connections beyond the most are sent away or wait; when the crowd has gone, the gate serves as before."""
    went = outing.go("--allow-host", web.flag("inspect"), "--", "python3", "-c", CROWD, web.url())

    during, after = went.text.split()
    assert during in {"503", "000", "200"}
    assert after == "200"


def reset(sock: socket.socket) -> None:
    """Break a connection off."""
    sock.recv(1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def end(sock: socket.socket) -> None:
    """Hang up without a word."""
    sock.recv(65536)
    sock.shutdown(socket.SHUT_RDWR)


def saying(words: bytes) -> Callable[[socket.socket], None]:
    """Make a server that says something whatever it is asked, and hangs up."""

    def talk(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(words)
        sock.shutdown(socket.SHUT_RDWR)

    return talk


HEAD = b"HTTP/1.1 200 OK\r\n"
FAULTS = {
    "reset": (reset, "upstream error: the connection broke before an answer"),
    "silent end": (end, "upstream error: the connection was closed without an answer"),
    "garbage": (saying(b"\0\xff garbage\r\n\r\n"), "upstream error: the answer cannot be understood"),
    "no end of head": (saying(HEAD + b"X: " + b"a" * 300_000), "upstream error"),
    "two lengths": (saying(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "upstream error"),
    "good": (saying(HEAD + b"Content-Length: 2\r\n\r\nok"), "ok"),
}


def test_a_broken_server_is_a_sentence(outing):
    """A server that breaks off or answers nonsense gives the client an error with a sentence, at once."""
    with contextlib.ExitStack() as servers:
        places = {name: f"{HOST}:{servers.enter_context(talking(talk))}" for name, (talk, _) in FAULTS.items()}
        flags = [word for place in places.values() for word in ("--allow-host", f"{place},address=127.0.0.1")]
        said = {name: [lines(f"GET http://{place}/ HTTP/1.1", f"Host: {place}")] for name, place in places.items()}
        went = outing.go(*flags, "--", "python3", "-c", SPEAK, stdin=spoken(said))

    answers = {name: b"".join(answer).partition(b"\r\n\r\n")[2].decode() for name, answer in heard(went.stdout).items()}
    assert {name: said for name, said in answers.items() if not said.startswith(FAULTS[name][1])} == {}
    assert {tried["decision"] for tried in went.attempts} == {"allowed"}
    assert len(went.attempts) == len(FAULTS)


def test_a_server_that_is_down_is_a_sentence(outing, web):
    """Nobody at the port: 502 and a sentence, forwarded and by CONNECT."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    place = f"{HOST}:{port}"
    said = {"CONNECT": [connect(place)], "GET": [lines(f"GET http://{place}/ HTTP/1.1", f"Host: {place}")]}
    went = outing.go("--allow-host", web.flag(port=port), "--", "python3", "-c", SPEAK, stdin=spoken(said))

    answers = heard(went.stdout)
    assert {name: status(answer) for name, answer in answers.items()} == {"CONNECT": 502, "GET": 502}
    assert all(f"{place} cannot be reached".encode() in b"".join(answer) for answer in answers.values())


@pytest.mark.parametrize("more", [(), ("inspect",)])
def test_a_server_that_says_nothing_ends_with_the_run(outing, web, more):
    """Waiting for a server that never answers ends when the run's time is over, and is written down."""
    over = threading.Event()
    with talking(lambda _: over.wait(30)) as port:
        began = time.monotonic()
        flags = ["--timeout", "2", "--allow-host", web.flag(*more, port=port)]
        went = outing.go(*flags, "--", "curl", "-sk", f"https://{HOST}:{port}/")
        took = time.monotonic() - began
        over.set()

    assert went.code == 124
    assert took < 15  # 3 s on an idle machine
    assert [(tried["host"], tried["port"]) for tried in went.attempts] == [(HOST, port)]


VANISH = """
import os, socket, sys
for words in (b"CONN", b"CONNECT %s HTTP/1.1\\r\\n\\r\\n", b"CONNECT %s HTTP/1.1\\r\\n\\r\\n\\x16\\x03\\x01\\x10\\0",
              b"POST http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: 99999\\r\\n\\r\\nabc"):
    gate = socket.create_connection(("127.0.0.1", 3128), 10)
    gate.sendall(words.replace(b"%s", sys.argv[1].encode()))
    gate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
    gate.close()
os.kill(os.getpid(), 9)
"""


def test_a_client_that_vanishes_leaves_nothing_open(outing, web):
    """A client that breaks off at any point, or is killed, ends its attempts; the run ends at once and tells them."""
    began = time.monotonic()
    went = outing.go("--allow-host", web.flag(port=web.http), "--", "python3", "-c", VANISH, f"{HOST}:{web.http}")

    assert went.code == 137
    assert time.monotonic() - began < 15  # one second on an idle machine
    assert 1 <= len(went.attempts) <= 4
    assert web.asked == []
    assert b"Traceback" not in went.stderr


STAY = """
import socket, sys, time
gate = socket.create_connection(("127.0.0.1", 3128), 20)
gate.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
assert b" 200 " in gate.recv(999)
gate.sendall(b"question")
print("on", flush=True)
time.sleep(60)
"""


def test_a_run_that_is_stopped_tells_its_open_tunnels(outing, web):
    """A run that is interrupted with a tunnel open ends at once, and its receipt has the tunnel and its bytes."""
    over = threading.Event()
    with talking(lambda _: over.wait(30)) as port:
        path = outing.folder / "stopped.json"
        flags = ["--bundle", path, "--allow-host", web.flag("opaque", port=port)]
        with held(outing, *flags, "--", "python3", "-c", STAY, f"{HOST}:{port}") as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"on\n"
            began = time.monotonic()
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        over.set()

    assert time.monotonic() - began < 20  # at once, on an idle machine
    bundle = json.loads(path.read_text())
    tried = [
        link["event"]
        for link in bundle["events"]
        if link["event"]["type"] == "network.connected" and "opened" not in link["event"]
    ]
    assert bundle["receipt"]["status"] == "cancelled"
    assert [(one["port"], one["decision"], one["bytesOut"]) for one in tried] == [(port, "allowed", 8)]
    assert outing.run("verify", path).returncode == 0


HALF = """
import socket, sys
gate = socket.create_connection(("127.0.0.1", 3128), 20)
gate.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
assert b" 200 " in gate.recv(999)
gate.sendall(b"question")
gate.shutdown(socket.SHUT_WR)
found = b""
while data := gate.recv(999):
    found += data
print(found.decode())
"""


def test_half_an_end_is_passed_on(outing, web):
    """A client that has said everything still gets the answer that comes after it, and then the end."""

    def answer(sock: socket.socket) -> None:
        found = b""
        while data := sock.recv(999):
            found += data
        sock.sendall(found[::-1])
        sock.shutdown(socket.SHUT_RDWR)

    with talking(answer) as port:
        flag = web.flag("opaque", port=port)
        went = outing.go("--allow-host", flag, "--", "python3", "-c", HALF, f"{HOST}:{port}")

    assert went.text == "noitseuq"
    assert [(tried["bytesOut"], tried["bytesIn"]) for tried in went.attempts] == [(8, 8)]
