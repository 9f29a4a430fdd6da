"""Folders that an attacker has prepared, or changes while they are granted: links, pipes, devices, programs, hooks."""

import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conformance.conftest import plan
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.process import Process
from tipstaff.isolation.tier import Passage


@pytest.fixture
def canary() -> str:
    """A text that is nowhere else on this machine."""
    return f"canary-{secrets.token_hex(8)}"


async def test_a_trap_in_the_workspace_is_never_a_mount_point(run, workspace, tmp_path):
    """Links named like folders of a sandbox, to the old root or up and away, change nothing outside, and it runs."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name, target in {
        "proc": "/proc/self/root", "tmp": str(outside), "dev": "/oldroot/dev", "oldroot": "/oldroot", "self": "self",
        "newroot": "/newroot", "workspace": "..", "etc": "/etc", "up": "../../../../../../../../..", ".git": "/root",
    }.items():  # fmt: skip
        (workspace / name).symlink_to(target)

    for mode in ("copy-on-write", "in-place"):
        outcome = await run(
            "sh", "-c", "echo x > tmp/new; cat file etc/shadow up/root/.profile", workspace=workspace, mode=mode
        )
        assert outcome.text == "before"

    assert list(outside.iterdir()) == []


async def test_nothing_in_a_repository_is_run_on_the_host(run, workspace, canary):
    """A repository whose settings, hooks and filters start programs is only a folder to us: none is started."""
    fired = workspace / canary
    git = workspace / ".git"
    (git / "hooks").mkdir(parents=True)
    for name in ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman"):
        (git / "hooks" / name).write_text(f"#!/bin/sh\ntouch '{fired}'\n")
        (git / "hooks" / name).chmod(0o755)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(f"[core]\n\tfsmonitor = touch '{fired}'\n[diff]\n\texternal = touch '{fired}'\n")
    (workspace / "sitecustomize.py").write_text(f"open({str(fired)!r}, 'w')\n")

    for mode in ("copy-on-write", "in-place"):
        assert (await run("cat", "file", workspace=workspace, mode=mode)).text == "before"

    assert not fired.exists()


async def test_a_pipe_in_the_workspace_leads_nowhere(run, workspace, canary):
    """A named pipe that a host's process reads is another one inside: what is written there stays there."""
    os.mkfifo(workspace / "pipe", 0o666)
    reading = os.open(workspace / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write = f"import os; os.write(os.open('pipe', os.O_RDWR | os.O_NONBLOCK), b'{canary}'); print('written')"
        outcome = await run("python3", "-c", write, workspace=workspace)
        with suppress(BlockingIOError):
            assert os.read(reading, 100) == b""
    finally:
        os.close(reading)

    assert canary not in outcome.text


async def test_a_hard_link_is_not_a_way_out(run, workspace, tmp_path):
    """A file of the host that also has a name in the workspace is changed in the view, and not on the host."""
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    (workspace / "hard").hardlink_to(outside)

    outcome = await run("sh", "-c", "echo changed > hard; chmod 0 hard; cat file", workspace=workspace)

    assert outcome.text == "before"
    assert (outside.read_text(), outside.stat().st_mode & 0o777) == (
        "as it was",
        (workspace / "hard").stat().st_mode & 0o777,
    )
    assert outside.stat().st_mode & 0o400


@pytest.mark.only_if(os.geteuid() == 0, "only root makes devices and set-uid programs of root's")
@pytest.mark.parametrize("mode", ["copy-on-write", "in-place"])
async def test_planted_programs_and_devices_give_nothing(run, workspace, mode):
    """A set-uid program of root's gives no rights, a device in a copy cannot be opened, and in place it is refused."""
    shutil.copyfile("/usr/bin/id", workspace / "who")
    (workspace / "who").chmod(0o6755)
    plain = await run("sh", "-c", "./who -u; ./who -ru; id -u", workspace=workspace, mode=mode)
    os.mknod(workspace / "zero", 0o20666, os.makedev(1, 5))

    device = await run("head", "-c", "1", "zero", workspace=workspace, mode=mode)

    assert len(set(plain.text.split())) == 1
    assert "0" not in plain.text.split()
    assert device.told == (("exited", 1) if mode == "copy-on-write" else ("setup-failed", 125))


@pytest.mark.parametrize("granted", ["workspace", "in-place", "readable"])
async def test_a_folder_swapped_for_a_link_is_never_followed(run, tmp_path, granted, canary):
    """While a granted folder is swapped for a link to a secret one, over and over, no run ever sees the secret."""
    secret, folder = tmp_path / "secret", tmp_path / "project" / "folder"
    secret.mkdir()
    (secret / "file").write_text(canary)
    folder.mkdir(parents=True)
    (folder / "file").write_text("public")
    options = {
        "workspace": {"workspace": folder},
        "in-place": {"workspace": folder, "mode": "in-place"},
        "readable": {"readable": (folder,)},
    }[granted]
    argv = ("cat", str(folder / "file") if granted == "readable" else "file")
    assert (await run(*argv, **options)).text == "public"

    with swapped(folder, secret):
        seen = [await run(*argv, **options) for _ in range(15)]

    assert not [outcome for outcome in seen if canary in outcome.text]
    assert {outcome.ended.ending for outcome in seen} <= {"exited", "setup-failed"}


@contextmanager
def swapped(folder: Path, target: Path) -> Iterator[None]:
    """Swap a folder for a link and back, as fast as it goes."""
    stop, aside = threading.Event(), folder.with_name("aside")

    def swap() -> None:
        while not stop.wait(0.0005):
            folder.rename(aside)
            folder.symlink_to(target)
            folder.unlink()
            aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.only_if(os.geteuid() != 0, "root can always mount")
@pytest.mark.parametrize("mode", ["in-place", "copy-on-write"])
@pytest.mark.parametrize("kind", [Bubblewrap, Process])
async def test_a_folder_swapped_for_a_link_is_never_followed_without_mounts(tmp_path, canary, kind, mode):
    """The same holds for a user who cannot mount: what was checked is what is bound, or copied."""
    secret, folder = tmp_path / "secret", tmp_path / "project" / "folder"
    secret.mkdir()
    (secret / "file").write_text(canary)
    folder.mkdir(parents=True)
    seen = bytearray()
    async with kind(scratch=tmp_path / "scratch", mounts=False) as tier:
        wanted = plan("cat", "file", workspace=folder, mode=mode)
        with swapped(folder, secret):
            for _ in range(40):
                await tier.run(wanted, Passage(stdout=seen.extend))
        (folder / "file").write_text("public")
        await tier.run(wanted, Passage(stdout=seen.extend))

    assert bytes(seen) == b"public"
