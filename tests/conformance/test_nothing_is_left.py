"""Everything that a run started or made is gone when it ends, however it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conformance.conftest import TIERS, plan
from tipstaff.isolation import uids
from tipstaff.isolation.places import state_folder
from tipstaff.isolation.tier import Passage

DAEMON = (
    "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 0.1; echo x >> alive; done' >/dev/null 2>&1 & "
    "python3 -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    'while True: time.sleep(0.1); open("alive", "a").write("y")\' >/dev/null 2>&1 & '
)
# Starts a run in a tier of its own, and says so when its command runs.
PARENT = """
import asyncio, sys
from pathlib import Path
from tipstaff.isolation.tier import Passage
from tests.conformance.conftest import TIERS, plan

async def main():
    async with TIERS[sys.argv[4]](Path(sys.argv[1])) as tier:
        print("tier", flush=True)
        say = lambda chunk: print(chunk.decode(), end="", flush=True)
        wanted = plan("sh", "-c", sys.argv[3] + "echo running; sleep 60", workspace=Path(sys.argv[2]), mode="in-place")
        await tier.run(wanted, Passage(stdout=say, stderr=say))

asyncio.run(main())
"""


def sandbox_processes() -> list[str]:
    """Every process on the host that runs under a leased uid, or is a bubblewrap of ours."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            leased = uids.FIRST <= entry.stat().st_uid < uids.FIRST + uids.COUNT
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except (FileNotFoundError, ProcessLookupError):
            continue
        mine = entry.name.isdigit() and entry.stat().st_uid == os.geteuid() and b"bwrap\0--args" in command
        if leased or mine:
            found.append(f"{entry.name} {command!r}")
    return found


def groups() -> list[str]:
    """Every control group that a spawner made."""
    return [str(path) for path in Path("/sys/fs/cgroup").rglob("tipstaff-*")]


def mounts() -> list[str]:
    """Every mount that shows in our own namespace."""
    return Path("/proc/self/mountinfo").read_text().splitlines()


def quiet(folder: Path, seconds: float = 0.6) -> bool:
    """Whether nobody writes to the file `alive` any more."""
    alive = folder / "alive"
    size = alive.stat().st_size if alive.exists() else 0
    time.sleep(seconds)
    return (alive.stat().st_size if alive.exists() else 0) == size


def emptied(scratch: Path) -> bool:
    """Whether what commands wrote is removed soon after: nobody waits for that."""
    for _ in range(100):
        if [list(owner.iterdir()) for owner in scratch.iterdir() if owner.is_dir()] == [[]]:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("ending", ["exit 0", "kill -9 $$", "sleep 60"])
async def test_daemons_end_with_the_run(run, workspace, ending):
    """Processes that left their session, forked twice and ignore signals are gone when the run ends, in any way."""
    outcome = await run("sh", "-c", f"{DAEMON} sleep 0.5; {ending}", workspace=workspace, mode="in-place", time_ms=1500)

    assert outcome.ended.ending in {"exited", "signalled", "timed-out"}
    assert (workspace / "alive").exists()
    assert quiet(workspace)


async def test_a_run_leaves_nothing(run, workspace, tmp_path):
    """No process, group, mount or folder of a run is there after it, and its uid can be leased again."""
    before = mounts()

    await run("sh", "-c", f"{DAEMON} mkdir -p a/b; chmod 0 a; exit 3", workspace=workspace)
    await run("sh", "-c", "mkdir d; cd d; i=0; while [ $i -lt 300 ]; do : > $i; i=$((i+1)); done", workspace=workspace)

    assert not [process for process in sandbox_processes() if str(os.getpid()) in process]
    assert mounts() == before
    assert emptied(tmp_path / "scratch")


async def test_a_very_deep_tree_is_removed(run, tmp_path):
    """Folders nested deeper than any path may be long are gone with the run."""
    deep = "import os\nfor _ in range(3000):\n    os.mkdir('deeper'); os.chdir('deeper')\nprint('deep')"

    outcome = await run("python3", "-c", deep)

    assert outcome.text == "deep"
    assert emptied(tmp_path / "scratch")


async def test_a_cancelled_task_ends_its_run(tier, workspace):
    """Cancelling the task that waits ends the command before the cancellation goes on."""
    wanted = plan("sh", "-c", f"{DAEMON} sleep 60", workspace=workspace, mode="in-place")
    task = asyncio.create_task(tier.run(wanted, Passage()))
    await asyncio.sleep(1)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert (workspace / "alive").exists()
    assert quiet(workspace)


async def test_a_killed_spawner_takes_its_sandboxes_along(tier, run, workspace):
    """When the spawner is killed, the run says so, its processes are gone, and the next run gets a new spawner."""
    wanted = plan("sh", "-c", f"{DAEMON} sleep 60", workspace=workspace, mode="in-place")
    task = asyncio.create_task(tier.run(wanted, Passage()))
    await asyncio.sleep(1)
    os.kill(tier.workshop._link.process, signal.SIGKILL)

    ended = await task

    assert (ended.ending, ended.exit_code) == ("signalled", 137)
    assert "ended" in ended.reason
    assert quiet(workspace)
    assert (await run("echo", "again")).text == "again"


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4])
@pytest.mark.parametrize("name", sorted(TIERS))
def test_a_killed_parent_takes_everything_along(root, tmp_path, workspace, delay, name):
    """SIGKILL for whoever asked, at any moment, leaves no process, group, mount, folder or lock behind."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{root / 'src'}:{root}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "scratch"), str(workspace), DAEMON, name]
    before, owners = mounts(), Path(state_folder(os.environ)) / "owners"
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"tier\n"
        time.sleep(delay)
        parent.send_signal(signal.SIGKILL)

    left = None
    for _ in range(100):  # the spawner notices, kills and cleans by itself
        left = [str(path) for path in (tmp_path / "scratch").glob("*")]
        left += [line for name in owners.glob("*") if str(tmp_path) in (line := name.read_text())]
        if not left:
            break
        time.sleep(0.05)
    assert left == []
    assert quiet(workspace)
    assert mounts() == before


@pytest.mark.parametrize("name", sorted(TIERS))
def test_what_a_killed_spawner_left_is_swept(root, tmp_path, workspace, name):
    """Spawner and parent killed at once leave folders and groups; the next spawner removes exactly those."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{root / 'src'}:{root}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "scratch"), str(workspace), DAEMON, name]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == [b"tier\n", b"running\n"]
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.send_signal(signal.SIGSTOP)
        os.kill(int(children[0]), signal.SIGKILL)
        parent.send_signal(signal.SIGKILL)
    (left,) = (tmp_path / "scratch").iterdir()

    async def next_one() -> str:
        async with TIERS[name](tmp_path / "scratch") as tier:
            return str((await tier.report()).available)

    assert asyncio.run(next_one()) == "True"
    assert not left.exists()
    assert not [group for group in groups() if left.name in group]
    assert quiet(workspace)


async def test_many_runs_at_once(run):
    """A hundred runs at once all end as they should."""
    outcomes = await asyncio.gather(*[run("sh", "-c", f"echo {number}; exit {number}") for number in range(100)])

    assert [(outcome.told, outcome.text) for outcome in outcomes] == [
        (("exited", number), str(number)) for number in range(100)
    ]


async def test_no_descriptor_is_lost(run):
    """After many runs of every kind as many descriptors are open as after the first."""
    await run("true")
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a folder of the kernel's

    for _ in range(5):
        await run("true")
        await run("no-such-program", stdin=b"x" * 100_000)
        await run("true", cwd="nowhere")
        await run("sleep", "9", time_ms=50)

    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - a folder of the kernel's
