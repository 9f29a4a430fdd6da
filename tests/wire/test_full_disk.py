"""A disk that is full, of the plane or of the runner: said clearly, nothing is damaged, and it goes on afterwards.

The disk is a small one in a mount namespace of the test's own. It is filled from inside, by a file, and freed by
taking that file away.
"""

import re
import shutil
import time

import pytest

from tests.processes import running
from tests.wire.namespaces import small_disk
from tests.wire.test_cut import wait_for
from tipstaff.evidence import verify

MEBIBYTES = 160


def fill(held, folder, leave_kib):
    """Fill a disk until only this much is left."""
    script = 'free=$(df --output=avail -k "$1" | tail -1); dd if=/dev/zero of="$1/filler" bs=1k count=$((free - $2))'
    held.do("sh", "-c", script, "sh", str(folder), str(leave_kib))


def free(held, folder):
    """Make room again."""
    held.do("rm", "-f", f"{folder}/filler")


@pytest.fixture
def crowded_plane(stage):
    """A plane whose home is on a small disk, and a runner whose things are not."""
    stage.init_plane(lease_seconds=5)
    kept, small = stage.home, stage.folder / "small"
    with small_disk(small, MEBIBYTES) as held:
        shutil.copytree(kept, stage.folder / "copy")
        held.do("cp", "-a", f"{stage.folder}/copy/.", str(small))
        held.do("chmod", "700", str(small))
        stage.home = small
        stage.start_plane(before=held.before)
        stage.start_runner("one", TIPSTAFF_ENROLL_TOKEN=stage.enroll_token(before=held.before))
        yield held


def test_a_full_disk_of_the_plane_is_said_and_survived(stage, crowded_plane):
    """A plane without room refuses runs with 503, its log says why, keeps what it has, and takes runs again."""
    first = stage.submit("echo before")
    assert stage.until(first)["status"] == "completed"
    before = stage.bundle(first)

    fill(crowded_plane, stage.home, 0)
    refused = [stage.ask("POST", "/v1/runs", {"request": request("echo no room")}) for _ in range(3)]
    read = stage.ask("GET", f"/v1/runs/{first}/bundle")
    free(crowded_plane, stage.home)

    assert {reply.status for reply in refused} == {503}, refused
    assert {reply.json["code"] for reply in refused} == {"store"}
    assert "No space left" in stage.plane.text or "has 0.0 MiB left" in stage.plane.text
    assert (read.status, read.json) == (200, before)
    after = stage.submit("echo after")
    assert stage.until(after)["status"] == "completed"
    assert verify(stage.bundle(after), [stage.plane_key().read_text()]).verdict == "valid"


def request(script):
    """Ask for a script."""
    return {"requestedBy": {"kind": "human", "id": "x"}, "execution": {"kind": "shell", "script": script}}


def test_a_disk_that_fills_while_a_run_is_at_work_loses_no_proof(stage, crowded_plane):
    """A run that ends while the plane has no room still gets one receipt once there is room; the home is sound."""
    run_id = stage.submit("sleep 2; echo done")
    stage.until(run_id, "running", seconds=30)

    fill(crowded_plane, stage.home, 0)
    time.sleep(4)
    free(crowded_plane, stage.home)

    said = stage.until(run_id, seconds=60)
    assert said["status"] in {"completed", "failed"}
    assert verify(stage.bundle(run_id), [stage.plane_key().read_text()]).verdict == "valid"
    after = stage.submit("echo after")
    assert stage.until(after)["status"] == "completed"
    assert stage.plane is not None
    assert stage.plane.stop() == 0


@pytest.fixture
def crowded_runner(stage):
    """A runner whose things are on a small disk, and a plane whose home is not."""
    stage.init_plane(lease_seconds=5).start_plane()
    small = stage.data("one")
    with small_disk(small, MEBIBYTES) as held:
        held.do("chmod", "700", str(small))
        stage.start_runner("one", before=held.before)
        yield held


def test_a_full_disk_of_the_runner_ends_the_run_with_a_receipt(stage, crowded_runner):
    """A run whose result cannot be spooled still ends in one receipt that verifies, and the runner goes on after."""
    number = f"1.{time.monotonic_ns()}"
    run_id = stage.submit(f"sleep {number}; head -c 8000000 /dev/urandom")
    wait_for(lambda: running(f"sleep {number}"), 30)

    fill(crowded_runner, stage.data("one"), 0)
    said = stage.until(run_id, seconds=60)
    free(crowded_runner, stage.data("one"))

    assert (said["status"], said["events"][-1]["event"]["failure"]) == ("failed", "transfer_failed")
    assert verify(stage.bundle(run_id), [stage.plane_key().read_text()]).verdict == "valid"
    after = stage.submit("echo after")
    assert stage.until(after, seconds=60)["status"] == "completed"
    assert stage.runners["one"].alive
    assert stage.runners["one"].stop() == 0


def test_a_runner_without_room_claims_nothing(stage):
    """While its disk is nearly full a runner leaves the queue alone and says why; once there is room it claims."""
    stage.init_plane(lease_seconds=5).start_plane()
    small = stage.data("one")
    with small_disk(small, MEBIBYTES) as held:
        held.do("chmod", "700", str(small))
        words = ["runner", "enroll", "--plane", stage.url, "--data", small]
        token = stage.enroll_token()
        stage.call(*words, before=held.before, TIPSTAFF_ENROLL_TOKEN=token)
        fill(held, small, 20 * 1024)
        runner = stage.start_runner("one", before=held.before, TIPSTAFF_ENROLL_TOKEN=token)
        run_id = stage.submit("echo waited")
        runner.heard(re.compile("no run is taken: .*full"))
        waiting = stage.seen(run_id)["status"]

        free(held, small)

        assert waiting == "created"
        assert stage.until(run_id, seconds=60)["status"] == "completed"
        assert runner.stop() == 0
