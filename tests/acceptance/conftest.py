"""The real program, with a home of its own, for the tests of `tipstaff run`."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.outing import outing, web
from tests.processes import running

__all__ = ["outing", "web"]
TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def environ(tmp_path) -> dict[str, str]:
    """The variables of a person whose home folder is empty."""
    (tmp_path / "person").mkdir()
    return {"TIPSTAFF_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "person"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def tipstaff(environ, tmp_path) -> Run:
    """Run the program to its end."""

    def run(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        words = [one if isinstance(one, bytes) else str(one) for one in arguments]
        return subprocess.run(
            [TIPSTAFF, *words],
            input=stdin,
            env=environ,
            cwd=cwd or tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def workspace(tmp_path) -> Path:
    """A folder of the person's with a file and a folder in it."""
    folder: Path = tmp_path / "work"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("content\n")
    (folder / "inner" / "deep").write_text("deep\n")
    return folder


@pytest.fixture
def marker() -> str:
    """A number that no other test sleeps for."""
    return f"87.{os.getpid()}{time.monotonic_ns()}"


@pytest.fixture
def processes() -> Callable[[str], list[int]]:
    """Find the processes whose command line holds a text."""
    return running
