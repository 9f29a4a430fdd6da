"""Programs that run inside a sandbox and try to get out of it: by every socket there is, and by bytes at the gate."""

import base64
import json
import subprocess
from typing import Any

from tests.acceptance.outing import TIPSTAFF, Outing

# Tries each line of a table on its own, and prints what came of it: "ok", or the name of the error.
TABLE = """
import ctypes, errno, json, os, socket, struct, subprocess, sys
def outcome(line):
    try:
        exec(line, globals())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    return "ok"
socket.setdefaulttimeout(3)
print(json.dumps({name: outcome(line) for name, line in json.load(sys.stdin).items()}))
"""
# Sends pieces to the gate on a connection each, waits for an answer after each piece, and prints all answers.
SPEAK = """
import base64, concurrent.futures, json, socket, sys
def speak(pieces):
    heard = []
    try:
        with socket.create_connection(("127.0.0.1", 3128), 10) as gate:
            for piece in pieces:
                gate.sendall(base64.b64decode(piece))
                heard.append(gate.recv(4096))
            gate.shutdown(socket.SHUT_WR)
            while data := gate.recv(65536):
                heard[-1] += data
    except OSError as fault:
        heard.append(b"" if isinstance(fault, ConnectionError) else repr(fault).encode())
    return [base64.b64encode(one[:4096]).decode() for one in heard]
said = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(16) as crowd:
    print(json.dumps(dict(zip(said, crowd.map(speak, said.values())))))
"""


def spoken(said: dict[str, list[bytes]]) -> bytes:
    """Spell what is to be said, for SPEAK."""
    return json.dumps(
        {name: [base64.b64encode(piece).decode() for piece in pieces] for name, pieces in said.items()}
    ).encode()


def heard(output: bytes) -> dict[str, list[bytes]]:
    """Read what SPEAK heard."""
    found: dict[str, list[Any]] = json.loads(output)
    return {name: [base64.b64decode(piece) for piece in pieces] for name, pieces in found.items()}


def status(answer: list[bytes]) -> int:
    """Give the number of an answer's status line, or 0."""
    words = answer[0].split(b" ") if answer else []
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") else 0


def connect(place: str) -> bytes:
    """Spell a CONNECT."""
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()


def lines(*said: str | bytes, body: bytes = b"") -> bytes:
    """Spell a head, and what comes after it."""
    return b"\r\n".join([*(one.encode() if isinstance(one, str) else one for one in said), b"", b""]) + body


def held(outing: Outing, *words: object) -> "subprocess.Popen[bytes]":
    """Start a run whose command waits for its input's end; read a line of its output to know that it has begun."""
    return subprocess.Popen(
        [TIPSTAFF, "run", "--quiet", *map(str, words)],
        env=outing.environ,
        cwd=outing.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
