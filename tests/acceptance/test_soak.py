"""A thousand runs, with whoever takes part killed at random: nothing is left behind, and every run has its ending.

Slow by intention, and bounded: the rounds stop by themselves. What is looked for on the host is what belongs to owners
that no longer live, so that other tests may run beside this one.
"""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.isolation.places import scratch_folder, state_folder
from tipstaff.keys.known import read_known_keys
from tipstaff.local.opening import open_plane

RUNS = 1000
A_ROUND = 60
SECONDS = 900
VERIFIED = 200  # bundles that are checked whole; all are counted
MARK = b"sleep\x00777.25"


@pytest.fixture(scope="module")
def soaked(tmp_path_factory):
    """A home in which a thousand runs were asked for, by workers of which most did not live to their end."""
    home = Home(tmp_path_factory.mktemp("soak") / "home")
    chance = random.Random(20)  # noqa: S311 - a soak that can be repeated
    end = time.monotonic() + SECONDS
    for seed in range(200):
        with open_plane(home) as plane:
            counted = len(plane.history(count=2 * RUNS))
        if counted >= RUNS or time.monotonic() > end:
            break
        disturb(home, min(A_ROUND, RUNS - counted), seed, chance)
    with open_plane(home):  # the next start closes what the last one left
        sweep(home)
    return home


def disturb(home, count, seed, chance):
    """Let one worker work, and kill somebody in the middle of it."""
    command = [sys.executable, "-m", "tests.acceptance.soaking", str(home.root), str(count), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        victim = chance.choice(("worker", "spawner", "command", "spawner and worker", "nobody"))
        delay = chance.uniform(0.0, 1.5)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(delay)
        if worker.poll() is None:
            kill(victim, worker.pid)
        with suppress(subprocess.TimeoutExpired):
            worker.wait(120)
        worker.kill()


def kill(victim, worker):
    """Kill whom the dice chose: the runner, its spawner, both, or a command in a sandbox."""
    spawners = children(worker)
    chosen = {
        "worker": [worker],
        "spawner": spawners[:1],
        "spawner and worker": [*spawners[:1], worker],
        "command": [process for process in descendants(worker) if MARK in cmdline(process)][:1],
        "nobody": [],
    }[victim]
    for process in chosen:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def sweep(home):
    """Start a spawner once more, as any next run does: it sweeps what dead ones left."""
    subprocess.run(
        [sys.executable, "-m", "tests.acceptance.soaking", str(home.root), "1", "1"],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )


def children(process):
    """List the children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def descendants(process):
    """List everything below a process."""
    found = children(process)
    return found + [one for child in found for one in descendants(child)]


def cmdline(process):
    """Give the command line of a process, or nothing."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def living(state):
    """List the owners that live: those whose lock cannot be had."""
    found = set()
    for path in (state / "owners").iterdir():
        with suppress(OSError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.add(path.name)
    return found


def test_every_run_has_exactly_one_ending(soaked):
    """Each of the thousand runs has a receipt or a refusal, never both and never neither."""
    with open_plane(soaked) as plane:
        lines = plane.history(count=2 * RUNS)
        endings = [(plane.run(line["runId"]).get("refusal") is not None, has_receipt(plane, line)) for line in lines]

    assert len(lines) >= RUNS
    assert {refused + received for refused, received in endings} == {1}


def has_receipt(plane, line):
    """Say whether a run has its receipt."""
    return line["status"] in {"completed", "failed", "cancelled"} and "refusal" not in plane.run(line["runId"])


def test_what_they_left_verifies(soaked):
    """The bundles and refusals of killed and of undisturbed runs are all valid, and so is the journal over them."""
    known = read_known_keys(soaked.known_keys)
    with open_plane(soaked) as plane:
        lines = plane.history(count=2 * RUNS)
        chosen = random.Random(7).sample(lines, VERIFIED)  # noqa: S311 - a sample that can be repeated
        for line in chosen:
            told = plane.run(line["runId"])
            document = told.get("refusal") or plane.bundle(line["runId"])
            assert verify(document, known=known).verdict == "valid", line
        assert verify(plane.journal() or {}, known=known).verdict == "valid"


def test_no_process_is_left(soaked):
    """No command that any of them started lives on, however it tried to get away."""
    assert soaked
    assert [path for path in Path("/proc").glob("[0-9]*") if MARK in cmdline(path.name)] == []


def test_nothing_is_left_of_owners_that_died(soaked):
    """No group, folder, uid lease or mount on the host belongs to a spawner that no longer lives."""
    assert soaked
    state, scratch = Path(state_folder(os.environ)), Path(scratch_folder())
    alive = living(state)
    groups = [path for path in Path("/sys/fs/cgroup").rglob("tipstaff-*-*") if path.name.split("-")[1] not in alive]
    folders = [path for path in scratch.iterdir() if path.name not in alive]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "tipstaff" in line]

    assert (groups, folders, mounts) == ([], [], [])
