"""How a run ends: the command's own codes, signals, and what could not be started."""

import asyncio
import os

import pytest


@pytest.mark.parametrize("code", [0, 1, 7, 124, 125, 126, 127, 130, 255])
async def test_the_commands_own_code_is_passed_on(run, code):
    """A command that exits is `exited` with its own code, whatever the number means elsewhere."""
    outcome = await run("sh", "-c", f"exit {code}")

    assert outcome.told == ("exited", code)


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15])
async def test_a_signal_is_told_by_its_number(run, number):
    """A command that dies of a signal is `signalled` with 128 and the number."""
    outcome = await run("sh", "-c", f"kill -{number} $$")

    assert outcome.told == ("signalled", 128 + number)


async def test_exiting_with_137_is_not_a_signal(run):
    """Where the kernel tells how a process ended (Linux 6.15), exit 137 and SIGKILL are different endings."""
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])

    outcome = await run("sh", "-c", "exit 137")

    assert outcome.told == ("exited" if (major, minor) >= (6, 15) else "signalled", 137)


async def test_a_missing_program_is_127(run):
    """A program that does not exist ends as in a shell, and its message is on standard error."""
    outcome = await run("no-such-program")

    assert outcome.told == ("exited", 127)
    assert b"no-such-program" in outcome.stderr


async def test_a_file_that_is_no_program_is_126(run, workspace):
    """A file that cannot be executed ends as in a shell; one that can is run."""
    (workspace / "program").write_text("#!/bin/sh\necho ran\n")
    (workspace / "file").chmod(0o644)
    (workspace / "program").chmod(0o755)

    refused = await run("./file", workspace=workspace)
    permitted = await run("./program", workspace=workspace)

    assert refused.told == ("exited", 126)
    assert (permitted.told, permitted.text) == (("exited", 0), "ran")


@pytest.mark.parametrize("argv", [(), ("",), ("echo", "a\0b")])
async def test_what_is_no_command_is_not_started(run, argv):
    """No arguments, an empty name or a NUL byte end as `setup-failed` with a reason; nothing runs."""
    outcome = await run(*argv)

    assert outcome.told == ("setup-failed", 125)
    assert outcome.ended.reason


async def test_a_missing_folder_is_a_failed_setup(run, workspace):
    """A working folder that is not there ends as `setup-failed`, with the reason and without any output."""
    outcome = await run("true", workspace=workspace, cwd="nowhere")
    inside = await run("pwd", workspace=workspace, cwd="inner")

    assert outcome.told == ("setup-failed", 125)
    assert "nowhere" in outcome.ended.reason
    assert (outcome.stdout, outcome.stderr) == (b"", b"")
    assert inside.text.endswith("/workspace/inner")


@pytest.mark.parametrize("cwd", ["..", "inner/../..", "/etc"])
async def test_a_folder_outside_the_workspace_is_refused(run, workspace, cwd):
    """A working folder that leaves the workspace by its name is refused before anything is started."""
    outcome = await run("pwd", workspace=workspace, cwd=cwd)

    assert outcome.told == ("setup-failed", 125)


async def test_a_workspace_that_is_missing_is_a_failed_setup(run, tmp_path):
    """A workspace that does not exist, is a file, or is a link is refused with its name."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)

    for name in ("missing", "file", "link"):
        outcome = await run("true", workspace=tmp_path / name)
        assert outcome.told == ("setup-failed", 125)
        assert name in outcome.ended.reason


async def test_time_is_a_limit(run):
    """A command that takes too long is `timed-out` with 124, soon after; one that does not is left alone."""
    late = await run("sleep", "20", time_ms=300)
    early = await run("sleep", "0.1", time_ms=20_000)

    assert late.told == ("timed-out", 124)
    assert 300 <= late.ended.usage.wall_ms < 2000
    assert early.told == ("exited", 0)


async def test_cancelling_ends_the_run(run):
    """A run that is cancelled ends with 130; an event that is set when all is over changes nothing."""
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, cancel.set)

    assert (await run("sleep", "20", cancel=cancel)).told == ("cancelled", 130)
    assert (await run("sh", "-c", "exit 3", cancel=asyncio.Event())).told == ("exited", 3)


async def test_a_run_that_is_cancelled_before_it_starts_never_runs(run, workspace):
    """With its event already set, a run ends as `cancelled`; its command has changed nothing."""
    cancel = asyncio.Event()
    cancel.set()

    outcome = await run("sh", "-c", "sleep 5; touch late", workspace=workspace, mode="in-place", cancel=cancel)

    assert outcome.told == ("cancelled", 130)
    assert not (workspace / "late").exists()


async def test_usage_is_counted(run):
    """Time on the clock and on the processor, also of a child, and the memory at most are told."""
    busy = "import time, os; x = b'a' * 50_000_000; e = time.time() + .4\nwhile time.time() < e: pass"

    outcome = await run("sh", "-c", 'python3 -c "$0"; true', busy)

    assert outcome.told == ("exited", 0)
    assert outcome.ended.usage.wall_ms >= 400
    assert outcome.ended.usage.cpu_ms >= 200
    assert outcome.ended.usage.peak_memory_bytes >= 50_000_000
