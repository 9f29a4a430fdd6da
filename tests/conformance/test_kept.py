"""What a run wrote in its workspace is handed over when the run is over, and removed when that was looked at."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import TIERS, Outcome, plan
from tests.conformance.test_nothing_is_left import emptied, mounts
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.places import state_folder
from tipstaff.isolation.tier import Leaving, Passage, Tier

# Says where what its run wrote lies, and looks at it for ever.
PARENT = """
import asyncio, sys
from pathlib import Path
from tipstaff.isolation.tier import Passage
from tests.conformance.conftest import TIERS, plan

async def left(leaving):
    print(leaving.upper or leaving.copy, flush=True)
    await asyncio.sleep(60)

async def main():
    async with TIERS[sys.argv[3]](Path(sys.argv[1])) as tier:
        wanted = plan("sh", "-c", "echo x > new", workspace=Path(sys.argv[2]), keep=True)
        await tier.run(wanted, Passage(left=left))

asyncio.run(main())
"""


class Looked:
    """What was found when a run handed over what it wrote."""

    def __init__(self) -> None:
        self.leavings: list[Leaving] = []
        self.names: list[str] = []
        self.contents: dict[str, bytes] = {}

    async def __call__(self, leaving: Leaving) -> None:
        """Take note of everything that was written."""
        self.leavings.append(leaving)
        top = written(leaving)
        self.names = sorted(str(path.relative_to(top)) for path in top.rglob("*"))
        self.contents = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def written(leaving: Leaving) -> Path:
    """Where what the command wrote lies."""
    place = leaving.upper or leaving.copy
    assert place is not None
    return place


async def kept(tier: Tier, left: Any, *argv: str, **options: Any) -> Outcome:
    """Run a command whose writing is kept for `left`."""
    stdout, stderr = bytearray(), bytearray()
    cancel = options.pop("cancel", asyncio.Event())
    passage = Passage(stdout=stdout.extend, stderr=stderr.extend, left=left, cancel=cancel)
    ended = await tier.run(plan(*argv, **{"keep": True, **options}), passage)
    return Outcome(ended, bytes(stdout), bytes(stderr))


async def test_what_was_written_is_handed_over(tier, workspace, tmp_path):
    """Whoever asked sees each file that the command wrote, and the base; afterwards it is gone."""
    looked = Looked()

    outcome = await kept(
        tier, looked, "sh", "-c", "echo new > made; echo after > inner/deep; exit 3", workspace=workspace
    )

    assert outcome.told == ("exited", 3)
    assert [leaving.base for leaving in looked.leavings] == [workspace]
    assert (looked.contents["made"], looked.contents["inner/deep"]) == (b"new\n", b"after\n")
    assert emptied(tmp_path / "scratch")


async def test_a_removal_is_a_mark_in_the_upper_layer(tier, workspace):
    """A removed file is a device of the number nought, a replaced folder has the overlay's own mark."""
    found: dict[str, int | bytes] = {}

    async def left(leaving: Leaving) -> None:
        assert leaving.upper is not None
        found["file"] = (leaving.upper / "file").lstat().st_rdev
        found["mark"] = os.getxattr(leaving.upper / "inner", f"{leaving.marks}opaque")

    await kept(tier, left, "sh", "-c", "rm file; rm -r inner; mkdir inner", workspace=workspace)

    assert found == {"file": 0, "mark": b"y"}


@pytest.mark.parametrize(
    ("ending", "options"),
    [
        ("timed-out", {"time_ms": 1000}),
        ("out-of-memory", {"memory_bytes": 1 << 26}),
        ("disk-limit", {"disk_bytes": 1 << 24}),
        ("cancelled", {}),
    ],
)
async def test_a_run_that_was_stopped_is_handed_over_too(tier, workspace, ending, options):
    """However a command was stopped, what it wrote until then can be seen."""
    looked, cancel = Looked(), asyncio.Event()
    script = {
        "out-of-memory": "python3 -c \"x = b'a' * 10**9\"",
        "disk-limit": "for i in 1 2 3 4 5 6; do head -c 8M /dev/urandom > f$i; done",
        "cancelled": "echo ready; sleep 60",
    }.get(ending, "sleep 60")
    asyncio.get_running_loop().call_later(1.5, cancel.set if ending == "cancelled" else asyncio.Event().set)

    outcome = await kept(
        tier, looked, "sh", "-c", f"echo x > new; {script}; sleep 60", workspace=workspace, cancel=cancel, **options
    )

    assert outcome.ended.ending == ending
    assert looked.contents["new"] == b"x\n"


async def test_every_process_is_gone_before(tier, workspace):
    """Nothing writes any more while what was written is looked at."""
    sizes = []

    async def left(leaving: Leaving) -> None:
        for _ in range(2):
            sizes.append((written(leaving) / "alive").stat().st_size)
            await asyncio.sleep(0.3)

    script = "setsid sh -c 'while :; do echo x >> alive; sleep 0.01; done' >/dev/null 2>&1 & sleep 0.3"
    await kept(tier, left, "sh", "-c", script, workspace=workspace)

    assert sizes[0] == sizes[1] > 0


@pytest.mark.parametrize(
    "options", [{"keep": False}, {"mode": "in-place"}, {"workspace": None}, {"cwd": "inner/deep/nowhere"}, {}]
)
async def test_only_a_kept_view_is_handed_over(tier, workspace, options):
    """Nothing is handed over that nobody wants kept, that lies in place, or that has no base; a kept view is."""
    looked = Looked()

    await kept(tier, looked, "true", **{"workspace": workspace, **options})

    assert len(looked.leavings) == (1 if set(options) <= {"cwd"} else 0)


async def test_a_command_that_never_ran_leaves_nothing(tier, workspace, tmp_path):
    """Where the gate says no, nothing is handed over, and nothing is left."""
    looked = Looked()

    async def gate(_: object) -> str:
        return "not today"

    ended = await tier.run(plan("true", workspace=workspace, keep=True), Passage(left=looked, gate=gate))

    assert (ended.ending, looked.leavings) == ("setup-failed", [])
    assert emptied(tmp_path / "scratch")


async def test_what_nobody_takes_is_removed(tier, workspace, tmp_path):
    """A kept run without a taker ends like any other."""
    outcome = await kept(tier, None, "sh", "-c", "echo x > new", workspace=workspace)

    assert outcome.told == ("exited", 0)
    assert emptied(tmp_path / "scratch")


async def test_a_taker_that_fails_is_heard_and_all_is_removed(tier, workspace, tmp_path):
    """An error while looking goes on to whoever asked, and what was kept is gone; the next run works."""

    async def left(_: Leaving) -> None:
        raise ValueError("cannot look")

    with pytest.raises(ValueError, match="cannot look"):
        await kept(tier, left, "sh", "-c", "echo x > new", workspace=workspace)

    assert emptied(tmp_path / "scratch")
    assert (await kept(tier, Looked(), "true", workspace=workspace)).told == ("exited", 0)


@pytest.mark.parametrize("moment", ["while it runs", "while it is looked at"])
async def test_a_cancelled_task_leaves_nothing(tier, workspace, tmp_path, moment):
    """Cancelling the task that waits removes what was kept, whenever it comes, also twice."""
    reached = asyncio.Event()

    async def left(_: Leaving) -> None:
        reached.set()
        await asyncio.sleep(60)

    script = "echo x > new; sleep 60" if moment == "while it runs" else "echo x > new"
    task = asyncio.create_task(kept(tier, left, "sh", "-c", script, workspace=workspace))
    await (asyncio.sleep(1) if moment == "while it runs" else reached.wait())
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert emptied(tmp_path / "scratch")


async def test_an_end_that_comes_too_late_removes_nothing(tier, workspace):
    """A time-out that is told when the command has just ended does not take away what is being looked at."""
    found = []

    async def left(leaving: Leaving) -> None:
        for number in range(9):
            tier.workshop._link.ask({"verb": "end", "number": number, "cause": "timed-out"})
        await asyncio.sleep(0.2)
        found.append((written(leaving) / "new").read_text())

    await kept(tier, left, "sh", "-c", "echo x > new", workspace=workspace)

    assert found == ["x\n"]


async def test_a_kept_uid_is_nobody_elses(tier, workspace):
    """While what a sandbox wrote lies there, its uid is not leased again; runs at the same time are told apart."""
    owners = []

    async def left(leaving: Leaving) -> None:
        assert (await tier.run(plan("true"), Passage())).exit_code == 0
        if leaving.upper is not None:
            owners.append((leaving.upper / "new").stat().st_uid)
        await asyncio.sleep(0.3)

    await asyncio.gather(*[kept(tier, left, "sh", "-c", "echo x > new", workspace=workspace) for _ in range(3)])

    assert len(set(owners)) == (3 if os.geteuid() == 0 else 1)


@pytest.mark.parametrize("name", sorted(TIERS))
def test_a_parent_that_is_killed_while_it_looks_leaves_nothing(root, tmp_path, workspace, name):
    """SIGKILL for whoever looks at what was kept leaves no folder, mount or lock behind."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{root / 'src'}:{root}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "scratch"), str(workspace), name]
    before, owners = mounts(), Path(state_folder(os.environ)) / "owners"
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        place = Path(parent.stdout.readline().strip())
        assert (place / "new").read_text() == "x\n"
        parent.send_signal(signal.SIGKILL)

    left: list[str] = [str(place)]
    for _ in range(100):
        left = [str(path) for path in (tmp_path / "scratch").glob("*")]
        left += [line for name in owners.glob("*") if str(tmp_path) in (line := name.read_text())]
        if not left:
            break
        time.sleep(0.05)
    assert left == []
    assert mounts() == before


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Bubblewrap]:
    """The tier, as if we could not mount."""
    async with Bubblewrap(scratch=tmp_path / "scratch", mounts=False) as tier:
        yield tier


@pytest.mark.only_if(os.geteuid() != 0, "root can always mount; the suite runs again as a user")
async def test_without_mounts_a_whole_copy_is_handed_over(plain, workspace, tmp_path):
    """On a host that lets nobody mount, what is handed over is the copy that the command worked in."""
    looked = Looked()

    await kept(plain, looked, "sh", "-c", "rm file; echo x > new", workspace=workspace)

    assert (looked.leavings[0].upper, looked.leavings[0].copy is None) == (None, False)
    assert looked.names == ["inner", "inner/deep", "link", "new"]
    assert emptied(tmp_path / "scratch")
