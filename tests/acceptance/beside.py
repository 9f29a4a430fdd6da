"""Runs that go on in a process of their own while a test does something else."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


@contextmanager
def started(words: Sequence[str], environ: dict[str, str], folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """Start a program; it is killed at the end, if it has not ended by itself."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        cwd=folder,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(look: Callable[[], Found], seconds: float = 40) -> Found:
    """Look until there is something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.1)
    return found
