"""How much a command may use, and what the verdicts say about it."""

import pytest

from tipstaff.model.tiers import CLAUSES

HOG = "x = b'a' * 10**9; print(len(x))"
FORKS = (
    "import os, time\nmade = 0\n"
    "for _ in range(200):\n"
    "    try:\n        child = os.fork()\n"
    "    except OSError:\n        break\n"
    "    if child == 0:\n        time.sleep(30); os._exit(0)\n"
    "    made += 1\n"
    "print(made, flush=True)\nos._exit(0)\n"
)


async def test_memory_is_a_limit(run):
    """A command that takes more than it may is `out-of-memory` with 137; one that takes less is left alone."""
    greedy = await run("python3", "-c", HOG, memory_bytes=1 << 26)
    modest = await run("python3", "-c", "x = b'a' * 10**7; print(len(x))", memory_bytes=1 << 26)

    assert greedy.told == ("out-of-memory", 137)
    assert (modest.told, modest.text) == (("exited", 0), "10000000")


async def test_memory_is_counted_for_all_processes(run):
    """Ten processes of ten megabytes are a hundred, whoever started them."""
    hold = "import time; x = b'a' * 10**7; time.sleep(20)"
    script = 'for i in 1 2 3 4 5 6 7 8 9 10; do setsid python3 -c "$0" & done; wait'

    outcome = await run("sh", "-c", script, hold, memory_bytes=1 << 26)

    assert outcome.told == ("out-of-memory", 137)


@pytest.mark.parametrize("folder", ["/tmp", "/home", "/dev/shm"])  # noqa: S108 - inside the sandbox
async def test_scratch_folders_are_bounded(run, folder):
    """Filling a scratch folder stops at a size or at the limit on memory; a small file fits."""
    script = f"head -c 200M /dev/zero > {folder}/large; wc -c < {folder}/large"

    full = await run("sh", "-c", script, memory_bytes=1 << 26, disk_bytes=1 << 24)
    fits = await run("sh", "-c", f"head -c 1M /dev/zero > {folder}/small; wc -c < {folder}/small", disk_bytes=1 << 24)

    assert full.told[0] in {"out-of-memory", "disk-limit"} or int(full.text) <= 1 << 26
    assert fits.text == str(1 << 20)


async def test_one_large_file_is_a_limit(run):
    """A command that writes a file beyond the limit on disk dies of it: `disk-limit` with 153."""
    large = await run("head", "-c", "64M", "/dev/zero", disk_bytes=1 << 24)
    assert large.told == ("exited", 0), "a pipe is no file"

    filled = await run("python3", "-c", "open('f', 'wb').truncate(1 << 30)", disk_bytes=1 << 24)
    fits = await run("python3", "-c", "open('f', 'wb').truncate(1 << 20)", disk_bytes=1 << 24)

    assert filled.told[0] in {"disk-limit", "exited"}
    assert filled.told != ("exited", 0)
    assert fits.told == ("exited", 0)


async def test_a_signal_for_size_is_the_disk_limit(run):
    """Where the kernel stops a program with SIGXFSZ, the ending is `disk-limit`."""
    outcome = await run("sh", "-c", "exec dd if=/dev/zero of=f bs=1M count=64 status=none", disk_bytes=1 << 24)

    assert outcome.told == ("disk-limit", 153)


async def test_many_small_files_are_a_limit(run, workspace):
    """Files that are small one by one and too much together end the run as `disk-limit`, in any workspace view."""
    script = "i=0; while [ $i -lt 200 ]; do head -c 1M /dev/urandom > f$i; i=$((i+1)); done; sleep 20"

    empty = await run("sh", "-c", script, disk_bytes=1 << 25)
    viewed = await run("sh", "-c", script, workspace=workspace, disk_bytes=1 << 25)

    assert empty.told == ("disk-limit", 153)
    assert viewed.told == ("disk-limit", 153)


async def test_files_in_closed_folders_count_too(run):
    """Taking the rights from a folder does not hide what lies in it."""
    script = (
        "mkdir d; i=0; while [ $i -lt 64 ]; do head -c 1M /dev/urandom > d/f$i; i=$((i+1)); done; chmod 0 d; sleep 20"
    )

    assert (await run("sh", "-c", script, disk_bytes=1 << 25)).told == ("disk-limit", 153)


@pytest.mark.promise("pids")
async def test_processes_are_a_limit(run):
    """No more processes than permitted can be made, and enough to work are."""
    bounded = await run("python3", "-c", FORKS, pids=20)
    roomy = await run("python3", "-c", FORKS, pids=250)

    assert 10 <= int(bounded.text) < 20
    assert int(roomy.text) == 200


async def test_a_fork_bomb_is_held(run):
    """A fork bomb ends with its time, and takes nothing with it."""
    outcome = await run("sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 20", pids=40, time_ms=1000)

    assert outcome.told == ("timed-out", 124)


async def test_the_processor_is_shared(run):
    """With a tenth of a processor, work of 0.2 seconds takes more than a second, where the verdict is `enforced`."""
    work = "import time\nwhile time.process_time() < 0.2: pass"

    outcome = await run("python3", "-c", work, cpu_millis=100)

    verdict = next(verdict for verdict in outcome.ended.verdicts if verdict.clause == "cpu")
    assert outcome.ended.exit_code == 0
    assert (outcome.ended.usage.wall_ms > 1000) is (verdict.strength == "enforced")


async def test_every_clause_has_a_verdict(run):
    """A run that took place says of every clause whether it held, and by what."""
    outcome = await run("true")

    assert sorted(verdict.clause for verdict in outcome.ended.verdicts) == sorted(CLAUSES)
    assert all(verdict.by for verdict in outcome.ended.verdicts)


async def test_verdicts_are_read_back(run, as_root):
    """With control groups memory and cpu are `enforced`; without, the verdict says less, and never the same."""
    found = {verdict.clause: verdict for verdict in (await run("true")).ended.verdicts}

    grouped = "control group" in found["memory"].by and found["memory"].strength == "enforced"
    assert found["pids"].strength == "enforced" or not as_root
    assert (found["cpu"].strength == "enforced") is grouped
    assert found["memory"].strength == ("enforced" if grouped else "weaker")
    assert grouped or not as_root


async def test_masking_is_a_verdict(run):
    """Names that are masked are `enforced`; without a mask, a name is only a name."""
    plain = await run("true")
    masked = await run("true", masked=("curl",))

    strengths = [{v.clause: v.strength for v in outcome.ended.verdicts}["restricted"] for outcome in (plain, masked)]
    assert strengths == ["weaker", "enforced"]


async def test_a_limit_that_is_missing_is_refused(run):
    """A plan that leaves a limit open is not run: none never means unbounded."""
    outcome = await run("true", memory_bytes=None)

    assert outcome.told == ("setup-failed", 125)
    assert "memory_bytes" in outcome.ended.reason


async def test_too_little_memory_to_start_is_said(run):
    """A limit that not even the sandbox fits in ends as `setup-failed` or `out-of-memory`, and never hangs."""
    outcome = await run("true", memory_bytes=1 << 16)

    assert outcome.told in {("setup-failed", 125), ("out-of-memory", 137), ("exited", 0)}
