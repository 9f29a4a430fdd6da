"""What a review found in the gate, the mask and the evidence, each beside its twin."""

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec
import pytest

from tests.unit.egress.world import world
from tests.unit.evidence.test_reached import problems, report
from tipstaff.egress.attempt import Attempt
from tipstaff.egress.paths import normal_path
from tipstaff.model.decision import SecretLease
from tipstaff.model.network import EgressRule
from tipstaff.secrets.inject import Injector
from tipstaff.secrets.placeholders import placeholders_for
from tipstaff.session.held import Held
from tipstaff.session.reach import Reach

HOST = "api.example"
VALUE = "sk-ant-api03-Real0Value1Real2Value3Real4Value5Re"
OPEN = EgressRule(host=HOST, rule="r")


def injecting() -> dict[str, Any]:
    """The options of a gate that holds a secret for HOST."""
    lease = SecretLease(name="T", scope="session", way="inject", header="Authorization", hosts=(HOST,))
    placeholders = placeholders_for({"T": VALUE}, os.urandom)
    made = Injector([lease], {"T": VALUE}, placeholders, time.monotonic, normal_path)
    return {"inject": made.apply, "mask": made.mask, "scan": made.scanner, "knows": made.reaches}


def get(host: str = HOST, *headers: str) -> bytes:
    """Spell a request."""
    return "\r\n".join([f"GET http://{host}/ HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


@contextlib.contextmanager
def flooding(piece: bytes, seconds: float) -> Iterator[Callable[[str, int], Coroutine[Any, Any, socket.socket]]]:
    """Give a way to dial a server, on a thread of its own, that answers as fast as it can for some time."""
    near = []

    def serve(sock: socket.socket) -> None:
        end = time.monotonic() + seconds
        with sock, contextlib.suppress(OSError):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while time.monotonic() < end:
                sock.sendall(piece)

    async def dial(_address: str, _port: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=serve, args=(theirs,), daemon=True)
        thread.start()
        near.append(thread)
        return ours

    yield dial
    for thread in near:
        thread.join(10)


def drain(port: int, request: bytes) -> threading.Thread:
    """Be a client, on a thread of its own, that reads as fast as it can."""

    def read() -> None:
        with socket.create_connection(("127.0.0.1", port)) as sock, contextlib.suppress(OSError):
            sock.sendall(request)
            while sock.recv(1 << 20):
                pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("piece", [b"x" * (1 << 16), VALUE[:6].encode() * 10_000])
async def test_one_connection_does_not_stop_the_loop(piece):
    """While an answer is masked that comes faster than it can be, the run's own time still passes on the loop."""
    with flooding(piece, 2.5) as dial:
        async with world([OPEN], dial=dial, **injecting()) as around:
            thread = drain(around.port, get())
            late = 0.0
            for _ in range(10):
                before = time.monotonic()
                await asyncio.sleep(0.05)
                late = max(late, time.monotonic() - before)
        await asyncio.to_thread(thread.join)

    assert late < 1


async def sizes(guess: str) -> list[int]:
    """Fetch a stored text that ends with a guess where a piece ends: the sizes of the chunks that came."""
    first, second = ("." * (1000 - len(guess)) + guess).encode(), b"." * 1000

    async def stored(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (first, second):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(b"0\r\n\r\n")

    async with world([OPEN], stored, **injecting()) as around:
        head, _, rest = (await around.talk(get())).partition(b"\r\n\r\n")
    assert b"chunked" in head
    found = []
    while size := int(rest.partition(b"\r\n")[0], 16):
        found.append(size)
        rest = rest[rest.index(b"\r\n") + size + 4 :]
    return found


@pytest.mark.parametrize("guess", ["sk-ant-api03-Q", "sk-ant-api03-R"])
async def test_the_mask_does_not_say_whether_a_guess_is_right(guess):
    """A text that the command stored comes back in the same pieces, whether it begins like the secret or not."""
    assert await sizes(guess) == await sizes("." * len(guess))


@pytest.mark.parametrize("name", ["Range", "Request-Range"])
async def test_no_part_of_an_answer_is_given_that_the_mask_cannot_judge(name):
    """A server that gives ranges is not asked for them, in neither spelling that servers know."""

    async def ranging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found = re.search(r"(?im)^(request-)?range: bytes=0-6", head)
        body = VALUE[:7].encode() if found else VALUE.encode()
        writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n" % (206 if found else 200, len(body)) + body)

    async with world([OPEN], ranging, **injecting()) as around:
        heard = await around.talk(get(HOST, f"{name}: bytes=0-6"))

    assert VALUE[:7].encode() not in heard


@pytest.mark.parametrize("more", [b"", b"!"])
async def test_what_went_out_was_not_blocked(more):
    """A request that arrived whole and was answered is recorded as allowed, whatever the client sends afterwards."""
    arrived = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(1000)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nheard")
        await writer.drain()
        arrived.set()
        await asyncio.sleep(0.1)
        writer.write(b" you")

    async with world([OPEN], take) as around:
        reader, writer = await around.client()
        writer.write(f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000\r\n\r\n".encode())
        writer.write(b"x" * 1000)
        await arrived.wait()
        await reader.readuntil(b"heard")
        writer.write(more)
        (attempt,) = await around.told()

    assert attempt.bytes_out > 1000
    assert attempt.decision == "allowed"


@pytest.mark.parametrize("hosts", [["*.box.example"], ["a.box.example", "b.box.example"]])
async def test_the_bytes_of_a_grant_are_not_multiplied(hosts):
    """What one grant of the policy allows in all is not allowed again for each host that is asked for below it."""

    async def much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b"x" * 900)

    rules = [EgressRule(host=host, max_bytes=1500, rule="packages") for host in hosts]
    async with world(rules, much) as around:
        for host in ("a.box.example", "b.box.example"):
            await around.talk(get(host))
        attempts = await around.told(2)

    assert sum(attempt.bytes_in for attempt in attempts) < 1500


def reach(told: list[dict[str, object]], secrets: dict[str, str] | None = None) -> Reach:
    """Make what writes attempts down."""
    held = Held({"secrets": [{"name": name, "scope": "session"} for name in secrets or ()]}, secrets or {}, os.urandom)
    contract = {"tier": "bwrap", "network": {"allowHosts": []}, "egress": {"rules": []}, "limits": {"timeMs": 1000}}
    return Reach(contract, held, {}, told.append)


@pytest.mark.parametrize("others", [10, 1000])
async def test_every_host_that_was_reached_is_named(others):
    """However many names were refused before, each host that was reached has an event of its own name."""
    told: list[dict[str, object]] = []
    made = reach(told)
    blocked = Attempt(host="no.example", port=80)
    for _ in range(1000):
        made._ended(blocked)
    for number in range(others):
        made._ended(msgspec.structs.replace(blocked, host=f"n{number}.example"))
    for host in ("a.box.example", "b.box.example"):
        made._ended(Attempt(host=host, port=80, decision="allowed", rule="r"))
    await made.close()

    assert {said["host"] for said in told if said["decision"] == "allowed"} == {"a.box.example", "b.box.example"}


@pytest.mark.parametrize("before", [10, 90])
async def test_a_reason_that_was_cut_tells_no_part_of_a_secret(before):
    """A path is refused in words that hold nothing of a secret in it, also where the path is too long to be shown."""
    held = Held({"secrets": [{"name": "T", "scope": "session"}]}, {"T": VALUE}, os.urandom)
    async with world([EgressRule(host=HOST, paths=("/ok",))]) as around:
        await around.talk(f"GET http://{HOST}/{'a' * before}/{VALUE} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        (attempt,) = await around.told()

    assert attempt.decision == "blocked"
    assert VALUE[:10] not in held.redacted("events", attempt.reason)


@pytest.mark.parametrize("known", [True, False])
async def test_only_who_has_the_password_writes_into_the_record(known):
    """Another user of the machine, who finds a gate on the loopback, adds no name to the evidence of the run."""
    word = ["Proxy-Authorization: Basic dTpw"] if known else []
    async with world([OPEN], credentials="u:p") as around:
        heard = await around.talk(get("evil.example", *word))
        await asyncio.sleep(0.05)

    assert heard.startswith(b"HTTP/1.1 403 " if known else b"HTTP/1.1 407 ")
    assert [attempt.host for attempt in around.attempts] == (["evil.example"] if known else [])


RULE = {"host": "*.example.com", "ports": [443], "rule": "r"}


@pytest.mark.parametrize("port", [443, 22])
@pytest.mark.parametrize("ask", [False, True])
def test_a_port_that_no_rule_has_does_not_verify(port, ask):
    """A receipt whose events say that a port was reached which no rule has contradicts its contract, asked or not."""
    event = {"type": "network.connected", "host": "api.example.com", "decision": "allowed", "port": port, "rule": "r"}
    found = report(event, rules=({**RULE, "ask": ask},))

    assert (problems(found) == []) is (port == 443 and not ask)
