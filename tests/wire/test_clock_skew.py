"""A runner whose clock is an hour wrong, either way: it judges and dates by the plane's signed time."""

from datetime import datetime

import pytest

from tipstaff.evidence import verify

MINUTE = 60


def at(text):
    """Read a time of the wire."""
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("skew_seconds", [-3700, 3700])
def test_a_runners_wrong_clock_does_no_harm(stage, root, skew_seconds):
    """A run of a runner that is an hour early or late completes, does not expire, and its receipt verifies."""
    stage.init_plane(lease_seconds=3).start_plane()
    skewed = {"PYTHONPATH": str(root / "tests" / "wire" / "skew"), "SKEW_SECONDS": str(skew_seconds)}
    stage.start_runner("one", **skewed)
    quick, slow = stage.submit("echo hello"), stage.submit("sleep 4; echo done")

    ended = [stage.until(one, seconds=40) for one in (quick, slow)]

    assert [one["status"] for one in ended] == ["completed", "completed"]
    for run_id in (quick, slow):
        bundle = stage.bundle(run_id)
        assert verify(bundle, [stage.plane_key().read_text()]).verdict == "valid"
        times = [at(link["ts"]) for link in bundle["events"]]
        assert max(times) - min(times) < MINUTE
        assert abs(at(bundle["receipt"]["endedAt"]) - times[0]) < MINUTE
