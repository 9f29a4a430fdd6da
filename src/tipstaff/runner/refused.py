"""A list of contracts that were dropped because they are nobody's: for the operator, bounded, on the runner's disk."""

import time
from pathlib import Path
from typing import Final

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.model.times import timestamp
from tipstaff.runner.client import Claim
from tipstaff.runner.identity import write_whole

FILE: Final = "refused.jsonl"
MOST_BYTES: Final = 256 * 1024
SHOWN: Final = 200  # characters


def note(data: Path, claim: Claim, error: PlaneError) -> None:
    """Write down that a claim was dropped, and why; the oldest lines give way."""
    path = data / FILE
    kept = path.read_bytes()[-MOST_BYTES:] if path.exists() else b""
    if len(kept) == MOST_BYTES:
        kept = kept[kept.find(b"\n") + 1 :]
    said = {
        "ts": timestamp(time.time_ns() // 1_000_000),
        "runId": claim.run_id[:SHOWN],
        "code": error.code,
        "reason": error.message[:SHOWN],
    }
    write_whole(path, kept + msgspec.json.encode(said) + b"\n", durable=False)
