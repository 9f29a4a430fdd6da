"""A process is alive while the kernel holds its lock, and not a moment longer."""

import signal
import subprocess
import sys

import pytest

from tipstaff.store import Owners

HOLD = """
import sys
from pathlib import Path
from tipstaff.store import Owners
mark = Owners(Path(sys.argv[1])).take("other")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owners(tmp_path):
    return Owners(tmp_path / "owners")


@pytest.fixture
def other(tmp_path):
    """A living process that holds the mark `other`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "owners")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def test_who_never_was_is_not_alive(owners):
    """A name without a mark is nobody's."""
    assert not owners.alive("nobody")


def test_a_mark_holds_until_it_is_released(owners):
    """A process is alive from `take` to `release`, seen from another descriptor too."""
    mark = owners.take("me")
    assert owners.alive("me")
    mark.release()
    assert not owners.alive("me")


def test_a_killed_process_is_not_alive(owners, other):
    """SIGKILL lets go of the mark; before it, the process is alive, and no sweep touches it."""
    owners.sweep()
    assert owners.alive("other")
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert not owners.alive("other")


def test_a_sweep_removes_only_the_dead(owners, other, tmp_path):
    """The mark of a dead process goes, that of a living one stays."""
    mine = owners.take("mine")
    other.kill()
    other.wait()
    owners.sweep()

    assert [path.name for path in (tmp_path / "owners").iterdir()] == ["mine.owner"]
    assert owners.alive("mine")
    mine.release()


def test_a_started_program_does_not_inherit_the_mark(owners):
    """A program that outlives its owner does not keep the owner alive."""
    mark = owners.take("me")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        mark.release()
        assert not owners.alive("me")
        child.kill()
