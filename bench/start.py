"""How long a person waits for the program to start, against Python doing nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, interleaved

ROUNDS = 40


def figures() -> Iterator[Figure]:
    """Time `tipstaff --help` and `python -c pass` in turn."""
    tipstaff = str(Path(sys.executable).with_name("tipstaff"))
    bare, usage = interleaved(ROUNDS, lambda: _run([sys.executable, "-c", "pass"]), lambda: _run([tipstaff, "--help"]))
    detail = {"python_ms": round(bare * 1000, 1), "help_ms": round(usage * 1000, 1)}
    yield Figure("help_ratio", usage / bare, "of python -c pass", at_most=5, detail=detail)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own program
