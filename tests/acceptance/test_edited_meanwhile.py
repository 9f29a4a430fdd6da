"""A person works on in the folder while a run goes on in a copy of it: what they saved is never written over."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import TIPSTAFF

WAITS = "echo ready; read line; echo run >> file; echo run > new"


@pytest.mark.parametrize("saved", [True, False])
def test_what_a_person_saved_meanwhile_stays(tipstaff, environ, workspace, saved):
    """The run, the diff and the apply name a file that was saved while the run went on; without that it is brought."""
    told = run_meanwhile(environ, workspace, "content\nmine\n" if saved else "")

    shown, applied = tipstaff("diff", "last"), tipstaff("apply", "last")

    assert ("edited here while it ran, so apply will refuse to write over it: file\n" in told) is saved
    assert (b"apply will refuse: file: it was edited here while the run went on" in shown.stderr) is saved
    assert (applied.returncode, b"before the run: not known" in applied.stderr) == ((1, True) if saved else (0, False))
    assert (workspace / "file").read_text() == ("content\nmine\n" if saved else "content\nrun\n")
    assert (workspace / "new").exists() is not saved
    assert tipstaff("apply", "last", "--only", "new").returncode == 0


def run_meanwhile(environ: dict[str, str], workspace: Path, text: str) -> str:
    """Run a command that waits for us, and save a file while it does; gives what was told."""
    words = [TIPSTAFF, "run", "--workspace", str(workspace), "--", "sh", "-c", WAITS]
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        if text:
            (workspace / "file").write_text(text)
        _, told = started.communicate(b"go on\n", timeout=60)
    assert started.returncode == 0, told
    return told.decode()
