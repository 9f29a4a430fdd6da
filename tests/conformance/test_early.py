"""A spawner that is forked before everything else: it serves like any other, and never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conformance.conftest import plan
from tipstaff.isolation import early
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.places import scratch_folder, state_folder
from tipstaff.isolation.tier import Passage

# Forks a spawner, names it, and then does what the test says.
PROGRAM = """
import os, sys
heavy = set(sys.modules)
from tipstaff.isolation import early
print(sorted(set(sys.modules) - heavy - {"tipstaff", "tipstaff.isolation", "tipstaff.isolation.early", "_socket"}))
print("unflushed", end="")
near, child = early.fork(sys.argv[1], sys.argv[2])
sys.stdout.flush()
print(f" {child}", flush=True)
"""
ENDINGS = {
    "killed at once": "os.kill(os.getpid(), 9)",
    "killed later": "import time; time.sleep(0.3); os.kill(os.getpid(), 9)",
    "exits": "os._exit(0)",
    "forgets it": "import time; near.close(); time.sleep(0.5)",
    "raises": "raise SystemExit(3)",
}


def forked(root: Path, scratch: Path, ending: str) -> tuple[str, str]:
    """What a program imported, and which child it had."""
    command = [sys.executable, "-c", f"{PROGRAM}\n{ending}", state_folder(os.environ), str(scratch)]
    environ = {"PATH": "/usr/bin", "PYTHONPATH": str(root / "src")}
    ended = subprocess.run(command, env=environ, stdout=subprocess.PIPE, timeout=30, check=False)
    imported, child = ended.stdout.decode().splitlines()
    return imported, child


async def test_it_serves_like_any_other(tmp_path):
    """A tier that is given a forked spawner runs in it, and a second one is started only when that one is gone."""
    near, child = early.fork(state_folder(os.environ), str(tmp_path / "scratch"))
    async with Bubblewrap(scratch=tmp_path / "scratch", spawner=(near, child)) as tier:
        assert (await tier.run(plan("true"), Passage())).exit_code == 0
        assert tier.workshop._link is not None
        assert tier.workshop._link.process == child

        os.kill(child, signal.SIGKILL)
        again = [await tier.run(plan("true"), Passage()) for _ in range(2)]

    assert again[-1].ending == "exited"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_one_that_is_never_used_is_ended(tmp_path):
    """Closing a tier that never ran anything ends its spawner and waits for it."""
    near, child = early.fork(state_folder(os.environ), scratch_folder())

    async with Bubblewrap(scratch=tmp_path / "scratch", spawner=(near, child)):
        pass

    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_it_never_outlives_its_parent(root, tmp_path, ending):
    """However its parent ends, the spawner is gone soon after, with its folder; nothing is printed twice."""
    _, said = forked(root, tmp_path / "scratch", ENDINGS[ending])
    word, child = said.split()

    for _ in range(100):
        if not Path(f"/proc/{child}").exists():
            break
        time.sleep(0.05)
    assert word == "unflushed"
    assert not Path(f"/proc/{child}").exists()
    assert not list((tmp_path / "scratch").glob("*"))


def test_it_costs_its_parent_nothing(root, tmp_path):
    """Forking a spawner imports no module that an interpreter does not have anyway, but the bare sockets."""
    imported, _ = forked(root, tmp_path / "scratch", ENDINGS["exits"])

    assert imported == "[]"
