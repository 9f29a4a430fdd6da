"""Fuzzes what reads a hostile client's bytes: heads, targets, chunks and ClientHellos. Not part of any test run.

    python -m tests.fuzz.egress_heads MINUTES [SEED]

Inputs are changed at random and kept when they reach lines of the parsers that no input reached before; the corpus in
tests/fuzz/corpus/egress_heads grows by them. Every input must parse or be refused, quickly, and in any pieces alike;
what parses must be read the same when it is written anew. A broken promise is kept as a `broken-…` file.
"""

import hashlib
import random
import sys
from pathlib import Path
from time import monotonic, process_time
from types import FrameType
from typing import Any

from tests.unit.egress.world import connect, get, hello
from tipstaff.egress import bodies, heads, targets
from tipstaff.egress import hello as hellos
from tipstaff.egress.refusal import RefusalError

CORPUS = Path(__file__).parent / "corpus" / "egress_heads"
MAX_BYTES = 4096
SLOW_SECONDS = 0.5
PARSERS = tuple(module.__file__ for module in (heads, targets, bodies, hellos))
WORDS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"\t",
        b":",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"GET",
        b"CONNECT",
        b"TRACE",
        b"http://",
    ),
    *(b"Host", b"Content-Length", b"Transfer-Encoding", b"chunked", b"Connection", b"close", b"a.test", b"[::1]:443"),
    *(b"@", b"%00", b"%2f", b"..", b"0x7f.1", b"0\r\n\r\n", b"5\r\nhello\r\n", b"\x16\x03\x01", b"\xfe\x0d", b"\xff"),
)


def check(data: bytes) -> None:
    """Hold one input against everything that is promised; AssertionError when a promise is broken."""
    started = process_time()
    _check_head(data)
    _check_chunks(data)
    _check_hello(data)
    assert process_time() - started < SLOW_SECONDS, "it took too long"


def _check_head(data: bytes) -> None:
    try:
        head = heads.parse_request(data)
    except RefusalError as refusal:
        assert 400 <= refusal.status < 600  # noqa: PT017 - this is no test
        return
    spelled = heads.spell(f"{head.method} {head.target} HTTP/1.{head.minor}", head.headers)
    assert heads.parse_request(spelled[:-4]) == head
    _check_framing(head)
    for read in (targets.connect_target, targets.forward_target):
        try:
            target = read(head)
        except RefusalError:
            continue
        assert 0 < target.port < 65536
        assert not set(target.host) & set("\r\n\0 @/\\")


def _check_framing(head: heads.Head) -> None:
    try:
        length = heads.body_length(head.headers, head.minor)
        kept = heads.end_to_end(head.headers)
    except RefusalError:
        return
    named = {name.lower() for name, _ in head.headers}
    assert length is not None or not named & {b"content-length", b"transfer-encoding"}
    assert not {name.lower() for name, _ in kept} & {b"connection", b"transfer-encoding", b"upgrade", b"proxy"}


def _check_chunks(data: bytes) -> None:
    outcomes: list[Any] = []
    for size in (1, 7, len(data) + 1):
        body, content = bodies.body_of(heads.CHUNKED), b""
        try:
            for place in range(0, len(data), size):
                content += body.feed(data[place : place + size])
            outcomes.append((content, body.done, body.rest))
        except RefusalError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1] == outcomes[2]


def _check_hello(data: bytes) -> None:
    outcomes: list[Any] = []
    for size in (1, 7, len(data) + 1):
        reader, found = hellos.HelloReader(), None
        try:
            for place in range(0, len(data), size):
                found = reader.feed(data[place : place + size])
                if found is not None:
                    break
            outcomes.append(found)
        except RefusalError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1] == outcomes[2]


def seeds() -> list[bytes]:
    """Give what the corpus starts from."""
    return [
        get("a.test", "/x?y", "Content-Length: 5")[:-4],
        get("a.test:8080", "/", "Transfer-Encoding: chunked", "Connection: close, x")[:-4],
        connect("[::1]:443")[:-4],
        b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
        hello("a.test"),
        hello("a.test", (0xFE0D, b"x"), (16, b"\0\x03\x02h2"), record=20),
    ]


def changed(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """Change an input a little, a few times."""
    for _ in range(dice.randint(1, 4)):
        place, end = sorted((dice.randint(0, len(data)), dice.randint(0, len(data))))
        match dice.randint(0, 5):
            case 0:
                data = data[:place] + dice.choice(WORDS) + data[place:]
            case 1:
                data = data[:place] + data[min(end, place + 8) :]
            case 2:
                data = data[:place] + bytes((dice.randrange(256),)) + data[place + 1 :]
            case 3:
                data = data[:place] + data[place:end] * 2 + data[end:]
            case 4:
                data = data[:place] + other[dice.randint(0, len(other)) :]
            case _:
                data = data[:place] + dice.choice(WORDS) + data[end:]
    return data[:MAX_BYTES]


def lines_of(data: bytes) -> set[tuple[str, int]]:
    """Check one input, and give the lines of the parsers that it reached."""
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in PARSERS:
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        check(data)
    finally:
        sys.settrace(None)
    return reached


def main(minutes: float, seed: int) -> int:
    """Fuzz for a while; 1 when a promise was broken."""
    dice, corpus, reached = random.Random(seed), [], set()  # noqa: S311 - chance, not secrets
    for data in (*seeds(), *(path.read_bytes() for path in sorted(CORPUS.iterdir()))):
        corpus.append(data)
        reached |= lines_of(data)
    tried, end = 0, monotonic() + minutes * 60
    while monotonic() < end:
        data = changed(dice.choice(corpus), dice.choice(corpus), dice)
        tried += 1
        try:
            found = lines_of(data)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is a find
            name = f"broken-{hashlib.sha256(data).hexdigest()[:16]}"
            (CORPUS / name).write_bytes(data)
            sys.stderr.write(f"{name}: {type(fault).__name__}: {fault}\n")
            return 1
        if not found <= reached:
            reached |= found
            corpus.append(data)
            (CORPUS / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    sys.stderr.write(f"{tried} inputs, {len(reached)} lines reached, {len(corpus)} kept\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
