"""An ordinary user on a host that lets bubblewrap mount, and nobody else: what is done instead, and what is refused."""

import os
import socket
from typing import Any

import pytest

from tests.conformance.conftest import Outcome, plan
from tests.conformance.test_nothing_is_left import emptied
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.tier import Passage

pytestmark = pytest.mark.only_if(os.geteuid() != 0, "root can always mount; the suite runs again as a user")


@pytest.fixture
async def plain(tmp_path):
    """The tier, as if we could not mount."""
    async with Bubblewrap(scratch=tmp_path / "scratch", mounts=False) as tier:

        async def run(*argv: str, **options: Any) -> Outcome:
            stdout, stderr = bytearray(), bytearray()
            ended = await tier.run(plan(*argv, **options), Passage(stdout=stdout.extend, stderr=stderr.extend))
            return Outcome(ended, bytes(stdout), bytes(stderr))

        yield run


async def test_a_copy_takes_the_place_of_an_overlay(plain, workspace):
    """Copy-on-write still changes nothing outside: the command works in a copy."""
    outcome = await plain("sh", "-c", "cat file inner/deep link; rm -r *; ls -A", workspace=workspace)

    assert outcome.text.split() == ["before", "deep", "before"]
    assert sorted(path.name for path in workspace.iterdir()) == ["file", "inner", "link"]


async def test_a_workspace_that_is_too_large_to_copy_is_refused(plain, workspace):
    """A workspace larger than the limit on disk is not copied; a smaller one is."""
    (workspace / "large").write_bytes(b"x" * (1 << 21))

    refused = await plain("true", workspace=workspace, disk_bytes=1 << 20)
    permitted = await plain("true", workspace=workspace, disk_bytes=1 << 22)

    assert (refused.told, permitted.told) == (("setup-failed", 125), ("exited", 0))
    assert "larger" in refused.ended.reason


async def test_in_place_and_readable_folders_work(plain, workspace, tmp_path):
    """Folders are bound as they are: in place to be changed, readable to be read."""
    (tmp_path / "readable").mkdir()
    (tmp_path / "readable" / "file").write_text("seen")

    changed = await plain("sh", "-c", "echo new > file", workspace=workspace, mode="in-place")
    read = await plain("cat", str(tmp_path / "readable" / "file"), readable=(tmp_path / "readable",))

    assert (changed.told, read.text) == (("exited", 0), "seen")
    assert (workspace / "file").read_text() == "new\n"


async def test_a_readable_folder_with_a_socket_is_refused(plain, tmp_path, monkeypatch):
    """Without an overlay a socket could be reached, so the folder is refused by the socket's name."""
    folder = tmp_path / "readable"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("way-out")

    outcome = await plain("true", readable=(folder,))

    assert outcome.told == ("setup-failed", 125)
    assert "way-out" in outcome.ended.reason


async def test_masking_is_refused(plain):
    """Names cannot be masked without mounting, so a plan that wants it is not run."""
    assert (await plain("true", masked=("curl",))).told == ("setup-failed", 125)
    assert (await plain("true")).told == ("exited", 0)


async def test_nothing_is_left(plain, workspace, tmp_path):
    """A copy with folders that nobody may enter is gone when the run ends."""
    await plain("sh", "-c", "mkdir -p a/b; touch a/b/c; chmod 0 a", workspace=workspace)

    assert emptied(tmp_path / "scratch")
