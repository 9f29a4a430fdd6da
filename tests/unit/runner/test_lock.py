"""One process works in a runner's directory, the others find it; waits grow and differ; refusals are noted, bounded."""

import json
import os
import subprocess
import sys

import pytest

from tipstaff.errors import PlaneError, UsageError
from tipstaff.runner import refused
from tipstaff.runner.client import Claim
from tipstaff.runner.lock import holder, only_one
from tipstaff.runner.waiting import Backoff

HOLD = """
import sys
from pathlib import Path
from tipstaff.runner.lock import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_is_there(tmp_path):
    """While one process holds the directory no other can; when it is gone, even by a kill, the next can."""
    assert holder(tmp_path) is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert holder(tmp_path) == other.pid
        with pytest.raises(UsageError, match=str(other.pid)), only_one(tmp_path):
            pass
        other.kill()
    assert holder(tmp_path) is None
    with only_one(tmp_path):
        assert (tmp_path / "runner.lock").read_text() == f"{os.getpid()}\n"


def test_waits_double_up_to_a_bound_and_begin_anew():
    """Each wait is in the upper half of its step; no wait is longer than the longest, nor shorter than was asked."""
    low, high = Backoff(lambda: 0.0), Backoff(lambda: 1.0)
    assert [high.next_seconds() for _ in range(9)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert [low.next_seconds() for _ in range(3)] == [0.125, 0.25, 0.5]
    assert low.next_seconds(at_least=7) == 7
    for _ in range(5000):
        low.next_seconds()
    low.reset()
    assert low.next_seconds() == 0.125


def test_dropped_claims_are_noted_and_the_oldest_give_way(tmp_path, monkeypatch):
    """The list says which and why, holds no contract, and does not grow without end."""
    monkeypatch.setattr(refused, "MOST_BYTES", 2000)
    claim = Claim("run_" + "x" * 500, {"task": "hunter2"}, "token", 1, [], {"A": "hunter2"}, 1)
    for index in range(100):
        refused.note(tmp_path, claim, PlaneError(f"number {index}", status=403, code="contract_forged"))

    content = (tmp_path / "refused.jsonl").read_text()
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines[-1]["reason"] == "number 99"
    assert len(content) < 2500
    assert "hunter2" not in content
    assert "token" not in content
