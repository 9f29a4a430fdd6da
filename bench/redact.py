"""How fast output is redacted: two hundred secrets in all their forms, looked for in text and in bytes.

Nothing is found in it, as in nearly all output: what is measured is looking. What finding and tiny chunks cost is told
beside it.
"""

import base64
import random
from collections.abc import Iterator
from functools import partial

from bench.figure import Figure, seconds
from tipstaff.secrets.forms import forms
from tipstaff.secrets.redact import Redactor

SECRETS = 200
SECRET_BYTES = 40
INPUT_BYTES = 16 << 20
CHUNK_BYTES = 64 << 10
ROUNDS = 5
LINE = "2026-01-01T00:00:{second:02}.{millis:03}Z INFO worker[{worker}]: GET /api/v1/items/{item}?q=a%20b id={id} 200\n"


def figures() -> Iterator[Figure]:
    """Measure; the slower kind of output is the one that counts."""
    chance = random.Random(7)  # noqa: S311 - the same input every time; nobody's secret
    values = [base64.urlsafe_b64encode(chance.randbytes(SECRET_BYTES)).decode() for _ in range(SECRETS)]
    secrets = {f"SECRET_{number}": value for number, value in enumerate(values)}
    redactor = Redactor(secrets)
    inputs = {"text": _text(chance), "bytes": chance.randbytes(INPUT_BYTES)}
    rates = {kind: _rate(redactor, data, CHUNK_BYTES) for kind, data in inputs.items()}
    if redactor.leaks():
        raise AssertionError("a secret was found where none is")
    leaking = b" ".join(value.encode() for value in values) * 100
    detail = {
        **{f"{kind}_mb_per_second": round(rate) for kind, rate in rates.items()},
        "leaking_mb_per_second": round(_rate(redactor, leaking, CHUNK_BYTES), 1),
        "byte_by_byte_mb_per_second": round(_rate(redactor, inputs["text"][: 1 << 18], 1), 2),
        "setup_ms": round(seconds(_ready, secrets) * 1000, 1),
        "forms": sum(len(forms(value.encode())) for value in values),
    }
    yield Figure("redact_mb_per_second", min(rates.values()), "MB/s", at_least=100, is_gate=False, detail=detail)


def _rate(redactor: Redactor, data: bytes, chunk_bytes: int) -> float:
    chunks = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    return len(data) / 1e6 / min(seconds(_pass, redactor, chunks) for _ in range(ROUNDS))


def _pass(redactor: Redactor, chunks: list[bytes]) -> None:
    stream = redactor.stream("bench")
    for chunk in chunks:
        stream.feed(chunk)
    stream.end()


def _ready(secrets: dict[str, str]) -> None:
    """Make a redactor that has everything it ever makes."""
    Redactor(secrets).data("bench", bytes(CHUNK_BYTES))


def _text(chance: random.Random) -> bytes:
    """Make lines as servers log them."""
    number = partial(chance.randrange, 100_000)
    lines = []
    size = 0
    while size < INPUT_BYTES:
        line = LINE.format(
            second=number() % 60, millis=number() % 1000, worker=number(), item=number(), id=chance.randbytes(16).hex()
        )
        size += len(line)
        lines.append(line)
    return "".join(lines).encode()[:INPUT_BYTES]
