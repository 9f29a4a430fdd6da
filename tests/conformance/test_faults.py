"""What happens when the machinery itself is hit: spawners and supervisors killed at any moment, many runs at once."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.conftest import TIERS, plan
from tests.conformance.test_nothing_is_left import DAEMON, emptied, groups, quiet
from tipstaff.isolation import watch
from tipstaff.isolation.places import state_folder
from tipstaff.isolation.tier import Ended, Passage


def owners(scratch: Path) -> list[Path]:
    """The words of spawners that keep what commands write below `scratch`."""
    return [word for word in (Path(state_folder(os.environ)) / "owners").glob("*") if str(scratch) in word.read_text()]


@pytest.mark.timeout(240)
async def test_three_hundred_runs_at_once(run):
    """Three hundred runs that are asked for at once all end as they should: those beyond the limit wait."""
    outcomes = await asyncio.gather(
        *[run("sh", "-c", f"exit {number % 100}", time_ms=120_000) for number in range(300)]
    )

    assert [outcome.told for outcome in outcomes] == [("exited", number % 100) for number in range(300)]


@pytest.mark.parametrize("name", sorted(TIERS))
@pytest.mark.timeout(240)
async def test_a_spawner_that_is_killed_at_any_moment(tmp_path, workspace, name):
    """However often a spawner is killed, each run has a named ending, and a last one finds everything in order."""
    chance = random.Random(8731)  # noqa: S311 - moments, not secrets
    scratch = tmp_path / "scratch"
    endings: Counter[str] = Counter()
    async with TIERS[name](scratch) as tier:
        for _ in range(12):
            wanted = plan("sh", "-c", f"{DAEMON} sleep 60", workspace=workspace, mode="in-place")
            running = [asyncio.create_task(tier.run(wanted, Passage())) for _ in range(3)]
            while not all(task.done() for task in running):  # those that were to be built get a new spawner each
                await asyncio.sleep(chance.choice([0.01, 0.03, 0.06, 0.1, 0.2, 0.4]))
                if (link := tier.workshop._link) is not None and link.alive:
                    os.kill(link.process, signal.SIGKILL)
            endings.update(task.result().ending for task in running)
        assert (await tier.run(plan("true"), Passage())).exit_code == 0
        assert await asyncio.to_thread(quiet, workspace)
        assert len(owners(scratch)) == 1
        assert emptied(scratch)
        swept = [path.name for path in scratch.iterdir()]
        assert [group for group in groups() if any(one in group for one in swept)] == []
    assert set(endings) <= {"signalled", "setup-failed"}
    assert owners(scratch) == []


async def test_two_spawners_do_not_meet(tmp_path, workspace):
    """While one spawner's run goes on, another one starts, sweeps, runs, and ends, and the first notices nothing."""
    said = asyncio.get_running_loop().create_future()
    go_on = f"echo ready; while [ ! -e {workspace}/../stop ] && [ ! -e stop ]; do sleep 0.05; done; echo done"
    async with TIERS["bwrap"](tmp_path / "one") as one:
        output = bytearray()

        def taken(chunk: bytes) -> None:
            output.extend(chunk)
            if not said.done():
                said.set_result(None)

        first = asyncio.create_task(
            one.run(plan("sh", "-c", go_on, workspace=workspace, mode="in-place"), Passage(stdout=taken))
        )
        await said
        for name in sorted(TIERS):
            async with TIERS[name](tmp_path / name) as other:
                assert (await other.run(plan("true"), Passage())).exit_code == 0
        (workspace / "stop").touch()
        assert (await first).exit_code == 0
    assert output == b"ready\ndone\n"


@pytest.mark.parametrize("kind", ["supervisor", "command"])
async def test_a_supervisor_that_is_killed_leaves_nothing(tmp_path, workspace, kind):
    """When the process that stays with a command is killed, the spawner ends all that the command has started."""
    async with TIERS["process"](tmp_path / "scratch") as tier:
        wanted = plan("sh", "-c", f"{DAEMON} sleep 60", workspace=workspace, mode="in-place")
        running = asyncio.create_task(tier.run(wanted, Passage()))
        await asyncio.sleep(1)
        assert tier.workshop._link is not None
        (supervisor,) = watch.children(tier.workshop._link.process)
        command = min(watch.children(supervisor))
        os.kill(supervisor if kind == "supervisor" else command, signal.SIGKILL)

        ended = await asyncio.wait_for(running, 20)

        assert (ended.ending, ended.exit_code) == ("signalled", 137)
        assert (workspace / "alive").exists()
        assert await asyncio.to_thread(quiet, workspace)
        assert watch.children(tier.workshop._link.process) == []
        assert (await tier.run(plan("true"), Passage())).exit_code == 0


async def test_a_fork_that_never_rests_is_ended(tmp_path):
    """A process that forks and goes on in its child for ever, so that it never has the same number, is caught."""
    runner = "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()"
    async with TIERS["process"](tmp_path / "scratch") as tier:
        ended = await asyncio.wait_for(tier.run(plan("python3", "-c", runner, time_ms=500), Passage()), 30)

        assert ended.ending in {"exited", "timed-out"}
        assert tier.workshop._link is not None
        assert watch.children(tier.workshop._link.process) == []


async def test_cancelling_at_any_moment_of_the_set_up(tier):
    """A run that is cancelled between its order and its command is `cancelled`; the spawner has no child left."""
    await tier.run(plan("true"), Passage())
    spawner = tier.workshop._link.process

    async def cancelled(seconds: float) -> str:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        ended: Ended = await tier.run(plan("sleep", "9"), Passage(cancel=stop))
        return ended.ending

    endings = await asyncio.gather(*[cancelled(moment * 0.0005) for moment in range(60)])

    assert set(endings) == {"cancelled"}
    assert tier.workshop._link.process == spawner
    assert watch.children(spawner) == []
