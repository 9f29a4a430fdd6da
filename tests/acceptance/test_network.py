"""Getting out of a sandbox as a person does it: real programs, a real gate, and the words that help when it says no."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.outing import BASE, Outing
from tests.acceptance.test_embedded import asking
from tests.acceptance.web import HOST, Web, add_package, add_repository, talking
from tipstaff.egress.trust import BUNDLE
from tipstaff.home import Home
from tipstaff.local.embedded import open_local
from tipstaff.policy import load_policy

FETCH = Path(__file__).with_name("fetch.js").read_text()
URLLIB = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
CLONE = 'git clone --quiet "$1" it && cat it/README'
DOWNLOAD = 'pip download --quiet --no-deps --retries 0 --no-cache-dir --index-url "$1" tipstaff-canary && ls'
CLIENTS: dict[str, Callable[[Web], list[str]]] = {
    "curl": lambda web: ["curl", "-sS", "--fail", web.url()],
    "git": lambda web: ["sh", "-c", CLONE, "sh", web.url("/repository.git")],
    "pip": lambda web: ["sh", "-c", DOWNLOAD, "sh", web.url("/index/")],
    "python": lambda web: ["python3", "-c", URLLIB, web.url()],
    "node": lambda web: ["node", "-e", FETCH, web.url()],
}
ANSWERS = {"git": "from the repository", "pip": "tipstaff_canary-1.0-py3-none-any.whl"}
HELLO = "hello from the box"


@pytest.fixture(scope="module", autouse=True)
def stocked(web: Web) -> None:
    """Have a repository and a package in the web."""
    add_repository(web)
    add_package(web)


@pytest.fixture(autouse=True)
def forgetful(web) -> None:
    """Have the web forget what was asked before."""
    web.asked.clear()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_gets_out_with_the_flag(outing, web, client):
    """With --allow-host a program reaches its host by TLS of its own, and the event says that the name was seen."""
    went = outing.go("--allow-host", web.flag(), *outing.trusting(*CLIENTS[client](web)))

    assert (went.code, went.text) == (0, ANSWERS.get(client, HELLO)), went.said
    assert {(tried["host"], tried["decision"], tried["depth"]) for tried in went.attempts} == {(HOST, "allowed", "sni")}
    assert all(tried["bytesIn"] > 0 and tried["address"] == "127.0.0.1" for tried in went.attempts)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_gets_out_under_inspection(outing, web, client):
    """Where the gate looks inside, programs trust the session's authority without being told, and it is recorded."""
    went = outing.go("--allow-host", web.flag("inspect"), "--", *CLIENTS[client](web))

    assert (went.code, went.text) == (0, ANSWERS.get(client, HELLO)), went.said
    assert {(tried["depth"], tried["method"]) for tried in went.attempts} == {("inspected", "GET")}


@pytest.mark.parametrize("client", CLIENTS)
def test_without_the_flag_a_program_fails_at_once_and_says_the_flag(outing, web, client):
    """A host that nobody named refuses at once; stderr has the flag that allows it, the bundle has the attempt."""
    began = time.monotonic()
    went = outing.go(*outing.trusting(*CLIENTS[client](web)))

    assert went.code not in {0, 124, 125, 126}
    assert (
        time.monotonic() - began < 30
    )  # a second on an idle machine; what matters is that nothing waits for an answer
    assert f"tipstaff: refused while it ran: {HOST}:{web.https}: no rule allows {HOST}:{web.https}" in went.said
    assert f"to allow it: --allow-host {HOST}:{web.https}\n" in went.said
    assert {(tried["host"], tried["port"], tried["decision"]) for tried in went.attempts} == {
        (HOST, web.https, "blocked")
    }
    assert web.asked == []


@pytest.mark.parametrize("named", [True, False])
def test_plain_http_is_forwarded(outing, web, named):
    """A request without TLS is forwarded to a named host, and refused with a body that says why for any other."""
    flag = ["--allow-host", web.flag(port=web.http)] if named else []
    went = outing.go(*flag, "--", "curl", "-sS", web.plain_url())

    assert (HELLO in went.text) is named
    assert ("blocked by tipstaff egress policy" in went.text) is not named
    assert [(tried["decision"], tried.get("depth"), tried["method"]) for tried in went.attempts] == [
        ("allowed" if named else "blocked", "http", "GET")
    ]


def test_json_has_what_was_refused(outing, web):
    """With --json the sentences are in `refusals`, and the run itself is none."""
    told = json.loads(outing.run("run", "--json", "--", "curl", "-sS", web.url()).stdout)

    assert told["refusals"] == [
        f"{HOST}:{web.https}: no rule allows {HOST}:{web.https}; to allow it: --allow-host {HOST}:{web.https}"
    ]
    assert (told["decision"], told["ending"], told["refusal"]) == ("allow", "exited", None)
    assert told["receipt"]["networkAccessed"] == [{"host": HOST, "decision": "blocked"}]


def test_quiet_does_not_hide_a_refusal(outing, web):
    """With --quiet nothing is said of an allowed attempt, and a refused one is still told."""
    refused = outing.go("--quiet", "--", "curl", "-s", web.url())
    allowed = outing.go("--quiet", "--allow-host", web.flag("inspect"), "--", "curl", "-s", web.url())

    assert refused.said.startswith(f"tipstaff: refused while it ran: {HOST}:{web.https}:")
    assert (allowed.said, allowed.text) == ("", HELLO)


STEPS = """
curl -s -o /dev/null -w '%{http_code}\\n' $1/hello
curl -s -o /dev/null -w '%{http_code}\\n' -X POST -d x $1/hello
curl -s $1/index/
curl -s --path-as-is -o /dev/null -w '%{http_code}\\n' $1/hello/../index/
curl -s --path-as-is -o /dev/null -w '%{http_code}\\n' $1/hello/%2e%2e/index/
"""


def test_methods_and_paths_are_held_to_the_policy(outing, web):
    """Under inspection a request passes by its method and path; any other gets 403 with the lines that allow it."""
    grant = {"host": HOST, "ports": [web.https], "methods": ["GET"], "paths": ["/hello*"], "inspect": True}
    policy = outing.policy(network={"hosts": [grant | {"addresses": ["127.0.0.1"]}]})
    went = outing.go("--policy", policy, "--allow-host", web.flag(), "--", "sh", "-c", STEPS, "sh", web.url(""))

    got, posted, *told, above, hidden = went.text.splitlines()
    assert (got, posted, above, hidden) == ("200", "403", "403", "403")
    assert told[0].startswith("blocked by tipstaff egress policy: the path ")
    assert "is not among /hello*" in told[0]
    assert 'methods: [GET], paths: ["/index/"], inspect: true' in told[1]
    assert [asked.path for asked in web.asked] == ["/hello"]
    assert "the method POST is not among GET" in went.said
    assert {tried["depth"] for tried in went.attempts} == {"inspected"}


def test_a_body_passes_both_ways(outing, web):
    """What is sent arrives whole, with a length and in chunks, and the answer comes back."""
    script = (
        "head -c 300000 /dev/zero > it; "
        f"curl -s --data-binary @it {web.url()}; curl -s -T it -X POST -H 'Transfer-Encoding: chunked' {web.url()}; "
        f"curl -s {web.url('/big/3000000')} | wc -c"
    )
    went = outing.go("--allow-host", web.flag("inspect"), "--", "sh", "-c", script)

    assert went.text.split("\n") == ["took 300000 bytes", "took 300000 bytes", "3000000"]
    assert [asked.body for asked in web.asked[:2]] == [bytes(300_000)] * 2


INSIDE = """
import http.server, threading, subprocess, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
place = f"http://{sys.argv[1]}:{server.server_address[1]}/"
print(subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", place], stdout=-1).stdout.decode())
"""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_servers_inside_are_reached_inside(outing, name):
    """A server that the command starts is reached by its own clients, which leave the gate alone."""
    went = outing.go("--", "python3", "-c", INSIDE, name)

    assert (went.text, went.attempts) == ("200", [])


@pytest.mark.parametrize(("name", "allowed"), [("a.box.example", True), (HOST, False), ("other.example", False)])
def test_a_pattern_is_for_names_below(outing, web, name, allowed):
    """A rule for `*.box.example` lets through what lies below that name, and neither the name itself nor another."""
    went = outing.go("--allow-host", web.flag("inspect", host="*.box.example"), "--", "curl", "-sS", web.url(host=name))

    assert (went.code == 0) is allowed
    assert [tried["decision"] for tried in went.attempts] == ["allowed" if allowed else "blocked"]


def test_a_port_is_part_of_the_rule(outing, web):
    """A rule for one port is no rule for another, and the refusal says which it is for."""
    went = outing.go("--allow-host", web.flag(), "--", "curl", "-sS", web.plain_url())

    assert f"port {web.http} of {HOST} is not among {web.https}" in went.text
    assert f"--allow-host {HOST}:{web.http}" in went.said


@pytest.mark.parametrize(("flag", "code"), [("[::1]:{}", 0), ("[::1]:1", 56), ("[fd00::1]:{}", 56)])
def test_an_address_of_ipv6_can_be_named(outing, web, flag, code):
    """A literal of IPv6 with its port is a host like any other; TLS names no addresses, and the depth says so."""
    port = web.https_six()
    command = ["curl", "-sS", "--noproxy", "", f"https://[::1]:{port}/hello"]
    went = outing.go("--allow-host", flag.format(port), *outing.trusting(*command))

    assert went.code == code
    assert [tried.get("depth") for tried in went.attempts] == ["name" if code == 0 else None]


FLAGS = (
    "", ",inspect", ":443", "box.example:0", "box.example:65536", "box.example:\u0664\u0664", "box.example,what",
    "box.example,address=", "http://box.example", "*.*", "127.1", "box.example\n", "box.example/path", "a@b.example",
)  # fmt: skip


def test_a_flag_that_is_none_is_an_error(outing):
    """What names no host, no port or no address is told in a sentence, and nothing runs."""
    ended = {flag: outing.run("run", "--allow-host", flag, "--", "echo", "ran") for flag in FLAGS}

    assert {flag: one.returncode for flag, one in ended.items() if one.returncode not in {64, 126}} == {}
    assert {flag for flag, one in ended.items() if one.stdout or not one.stderr.startswith(b"tipstaff: ")} == set()
    assert {flag for flag, one in ended.items() if b"malformed" in one.stderr} == set()


OTHERWISE = """
import socket, sys
gate = socket.create_connection(("127.0.0.1", 3128), 20)
gate.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\n\\r\\n".encode())
assert b" 200 " in gate.recv(999)
gate.sendall(b"SSH-2.0-client\\r\\n")
print(gate.recv(999))
"""


@pytest.mark.parametrize(("more", "depth"), [(("opaque",), "opaque"), ((), "")])
def test_what_is_not_tls_needs_an_opaque_rule(outing, web, more, depth):
    """Another protocol inside CONNECT passes where the rule says `opaque`, and the event says that nobody looked."""
    heard: list[bytes] = []

    def answer(sock: socket.socket) -> None:
        heard.append(sock.recv(999))
        sock.sendall(b"SSH-2.0-server\r\n")
        sock.shutdown(socket.SHUT_RDWR)

    with talking(answer) as port:
        flag = web.flag(*more, port=port)
        went = outing.go("--allow-host", flag, "--", "python3", "-c", OTHERWISE, f"{HOST}:{port}")

    assert ("SSH-2.0-server" in went.text, b"".join(heard)) == (bool(more), b"SSH-2.0-client\r\n" if more else b"")
    assert [tried.get("depth", "") for tried in went.attempts] == [depth]
    assert more or "what the client sends is not TLS" in went.said
    assert more or "opaque" in went.said


@pytest.mark.parametrize("name", [HOST, "other.example"])
def test_plain_http_in_a_tunnel_is_read(outing, web, name):
    """A client that tunnels a request without TLS has it judged like any other: Host is the host, or it is refused."""
    command = ["curl", "-sS", "--proxytunnel", "-H", f"Host: {name}:{web.http}", web.plain_url()]
    went = outing.go("--allow-host", web.flag(port=web.http), "--", *command)

    assert (went.text == HELLO) is (name == HOST)
    assert [tried["decision"] for tried in went.attempts] == ["allowed" if name == HOST else "blocked"]
    assert len(web.asked) == (name == HOST)


@pytest.mark.parametrize("asked", ["localhost", "denied.example"])
async def test_an_open_network_is_still_watched(tmp_path, asked):
    """Where policy opens the network every name passes but the denied, and this host's own addresses never do."""
    policy = load_policy(json.dumps(BASE | {"network": {"default_deny": False, "deny": ["denied.example"]}}))
    command = asking("curl", "-s", "--noproxy", "", f"http://{asked}:9/", network={"defaultDeny": False})
    async with open_local(Home(tmp_path / "home"), policy) as local:
        outcome = await local.run(command)

    wanted = "denied.example is denied" if asked == "denied.example" else "this host itself"
    assert wanted in outcome.stdout.decode()
    assert outcome.refusals[0].startswith(f"{asked}:9: ")
    assert outcome.receipt is not None
    assert outcome.receipt["networkAccessed"] == [{"host": asked, "decision": "blocked"}]


def limited(outing: Outing, web: Web, **bounds: object) -> str:
    """Write a policy whose only host has bounds."""
    grant = {"host": HOST, "ports": [web.https], "addresses": ["127.0.0.1"], "inspect": True, "id": "box"}
    return outing.policy(network={"hosts": [grant | bounds]})


def test_bytes_are_counted_over_the_run(outing, web):
    """What fits passes; what does not is cut off, and after that nothing more passes."""
    script = "curl -s {0}; curl -s {1} | wc -c; curl -s {0} || true".format(web.url(), web.url("/big/500000"))
    policy = limited(outing, web, max_bytes="64KiB")
    went = outing.go("--policy", policy, "--allow-host", web.flag(), "--", "sh", "-c", script)

    first, cut, *last = went.text.splitlines()
    assert first == HELLO
    assert int(cut) < 100_000
    assert "used up" in "\n".join(last)
    assert [tried["rule"] for tried in went.attempts if tried["decision"] == "allowed"] == ["box", "box"]


HOLD = """
import socket, subprocess, sys
host, port = sys.argv[1].split(":")
def get():
    return subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} ", f"https://{host}:{port}/hello"],
                          stdout=-1).stdout.decode()
held = socket.create_connection(("127.0.0.1", 3128))
held.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
assert b" 200 " in held.recv(999)
print(get())
held.close()
for _ in range(100):
    if (code := get()) != "000 ":
        break
print(code)
"""


def test_connections_are_counted_at_once(outing, web):
    """A rule for one connection at a time refuses the second while the first is open, and lets it when that ended."""
    grant = {"host": HOST, "ports": [web.https], "addresses": ["127.0.0.1"], "max_connections": 1}
    policy = outing.policy(network={"hosts": [grant]})
    went = outing.go(
        "--policy", policy, "--allow-host", web.flag(), *outing.trusting("python3", "-c", HOLD, f"{HOST}:{web.https}")
    )

    assert went.text.split() == ["000", "200"], went.said
    assert "its rule allows 1 connections at once" in went.said


def test_what_must_be_asked_for_does_not_pass_unasked(outing, web):
    """Where a rule says `ask` and nobody answers, nothing gets out before the run ends."""
    policy = limited(outing, web, ask=True)
    went = outing.go("--policy", policy, "--timeout", "3", "--allow-host", web.flag(), "--", "curl", "-sf", web.url())

    assert went.code != 0
    assert web.asked == []
    assert outing.go("--policy", limited(outing, web), "--allow-host", web.flag(), "--", "curl", web.url()).code == 0


PROCESS = {"default": "process", "minimum": "process"}
LESS = dict.fromkeys(
    ("memory", "cpu", "pids", "disk", "files", "secrets", "time", "output", "restricted"), "unenforceable"
)


@pytest.mark.parametrize("inspected", [True, False])
def test_the_process_tier_can_inspect(outing, web, inspected):
    """Also there a program trusts the session's authority, whose file leaves nothing behind on the host."""
    network = {"hosts": [{"host": HOST, "addresses": ["127.0.0.1"], "inspect": inspected}]}
    tolerated = LESS | {"network": "unenforceable", "hosts": "unenforceable"}
    policy = outing.policy(network=network, tiers=PROCESS | {"tolerate": tolerated})
    went = outing.go("--policy", policy, "--allow-host", web.flag(), "--", "curl", "-sS", web.url())

    assert (went.text == HELLO) is inspected, went.said
    assert not Path(BUNDLE).exists()


@pytest.mark.parametrize("tolerated", [True, False])
def test_the_process_tier_leads_out_on_trust(outing, web, tolerated):
    """Without a network of its own a run is led by its variables, says so, and is refused unless policy takes that."""
    network = {"hosts": [{"host": HOST, "addresses": ["127.0.0.1"]}]}
    more = {"network": "unenforceable", "hosts": "unenforceable"} if tolerated else {}
    policy = outing.policy(network=network, tiers=PROCESS | {"tolerate": LESS | more})
    command = ["curl", "-sS", web.url(), "--cacert", web.authority]
    words = ["--policy", policy, "--json", "--read", web.authority, "--allow-host", web.flag(), "--", *command]
    ended = outing.run("run", *words)

    told = json.loads(ended.stdout)
    assert (told["decision"], ended.returncode) == (("allow", 0) if tolerated else ("deny", 126)), told
    if tolerated:
        weak = {verdict["clause"] for verdict in told["enforcement"] if verdict["strength"] == "unenforceable"}
        assert {"network", "hosts"} <= weak
        assert told["stdout"].strip() == HELLO
        assert told["receipt"]["networkAccessed"] == [{"host": HOST, "decision": "allowed"}]
    else:
        assert any("hosts" in reason or "network" in reason for reason in told["reasons"])


@pytest.mark.parametrize("path", ["/nowhere/authorities.pem", "/dev/null"])
def test_without_authorities_nothing_is_inspected(outing, web, path):
    """A host whose file of authorities is missing or empty cannot inspect, and says what to do; others are served."""
    flags = {"inspect": ["--", "true"], "": ["--", "true"]}
    ended = {
        more: outing.run("run", "--allow-host", web.flag(*filter(None, [more])), *command, SSL_CERT_FILE=path)
        for more, command in flags.items()
    }

    assert (ended["inspect"].returncode, ended[""].returncode) == (125, 0)
    assert path.encode() in ended["inspect"].stderr
    assert b"SSL_CERT_FILE" in ended["inspect"].stderr


@pytest.mark.parametrize("named", [True, False])
def test_the_hosts_own_proxy_is_used_and_not_shown(outing, web, named):
    """Where the host has a proxy it is asked for allowed names alone; its password stays with us."""
    asked: list[bytes] = []

    def tunnel(near: socket.socket) -> None:
        asked.append(near.recv(4096))
        with socket.create_connection(("127.0.0.1", web.https)) as far:
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=pass_on, args=(far, near))
            back.start()
            pass_on(near, far)
            back.join(20)

    with talking(tunnel) as port:
        flags = ["--allow-host", f"{HOST}:{web.https}"] if named else []
        command = outing.trusting("sh", "-c", 'env; curl -s "$1"', "sh", web.url())
        went = outing.go(*flags, *command, https_proxy=f"http://person:pass-word-77@127.0.0.1:{port}")

    assert (HELLO in went.text) is named
    wanted = [f"CONNECT {HOST}:{web.https} HTTP/1.1\r\n".encode()] if named else []
    assert [one.partition(b"Host:")[0] for one in asked] == wanted
    assert all(b"Proxy-Authorization: Basic cGVyc29uOnBhc3Mtd29yZC03Nw==\r\n" in one for one in asked)
    assert "pass-word-77" not in went.text + went.said + json.dumps(went.bundle)
    assert [tried.get("address") for tried in went.attempts] == [f"via 127.0.0.1:{port}" if named else None]


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until there are no more."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
