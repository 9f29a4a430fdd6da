"""Runner and plane on two machines, with a cable between them that is pulled out for longer than a lease."""

import time

import pytest

from tests.processes import running
from tests.wire.namespaces import two_machines
from tipstaff.evidence import verify

LEASE_SECONDS = 6


@pytest.fixture
def cable(stage):
    """A plane and a runner in networks of their own."""
    with two_machines() as made:
        stage.init_plane(lease_seconds=LEASE_SECONDS)
        stage.through = made.plane.before
        stage.start_plane("--plain-http", before=made.plane.before, host=made.address)
        stage.start_runner("one", "--plain-http", before=made.runner.before)
        yield made


def test_a_cut_longer_than_the_lease_loses_the_run_and_nothing_else(stage, cable):
    """The tree is dead before the lease ends; the plane signs that the run is lost; the late result is kept aside."""
    number = f"311.{time.monotonic_ns()}"
    run_id = stage.submit(f"echo started; sleep {number}")
    stage.until(run_id, "running", seconds=30)
    wait_for(lambda: running(f"sleep {number}"), 10)

    cable.cut()
    cut_at = time.monotonic()
    wait_for(lambda: not running(number), LEASE_SECONDS + 1)
    dead_after = time.monotonic() - cut_at
    said = stage.until(run_id, seconds=LEASE_SECONDS + 20)

    assert dead_after < LEASE_SECONDS
    assert said["receipt"]["ending"] == "lost"
    assert [one["signer"] for one in said["receipt"]["signatures"]] == ["plane"]
    bundle = stage.bundle(run_id)
    assert verify(bundle, [stage.plane_key().read_text()]).verdict == "valid"

    cable.heal()
    after = stage.submit("echo again")
    assert stage.until(after, seconds=60)["status"] == "completed"
    wait_for(lambda: stage.seen(run_id).get("attachments"), 40)
    late = stage.seen(run_id)
    assert late["attachments"][0]["receipt"]["runId"] == run_id
    assert late["receipt"] == said["receipt"]
    assert stage.bundle(run_id) == bundle


def test_a_cut_shorter_than_the_lease_does_no_harm(stage, cable):
    """A run goes on while the cable is out for a moment, and ends as if nothing had been."""
    run_id = stage.submit("echo one; sleep 5; echo two")
    stage.until(run_id, "running", seconds=30)

    cable.cut()
    time.sleep(2)
    cable.heal()

    assert stage.until(run_id, seconds=60)["status"] == "completed"
    assert verify(stage.bundle(run_id), [stage.plane_key().read_text()]).verdict == "valid"
    assert stage.ask("GET", f"/v1/runs/{run_id}/output/stdout").body == b"one\ntwo\n"


def wait_for(holds, seconds):
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to hold in time"
        time.sleep(0.05)
