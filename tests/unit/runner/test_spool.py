"""The spool keeps what the plane does not have, and nothing else."""

from tipstaff.runner.client import Claim
from tipstaff.runner.spool import Spool

EVENT = {"seq": 0, "event": {"type": "run.created"}}


def claim(run_id: str) -> Claim:
    """A claim on a run."""
    return Claim(run_id, {}, "token", 1, [EVENT], {}, 1000)


def test_contents_without_a_run_go_at_the_next_start(tmp_path):
    """A runner that was killed while it forgot a run leaves no contents behind; those of a kept run stay."""
    spool = Spool(tmp_path)
    kept, forgotten = spool.open(claim("run_1")), spool.open(claim("run_2"))
    for entry in (kept, forgotten):
        entry.begin()
        entry.new_blob()
    next((tmp_path / "spool").glob("run_2.*.ndjson")).unlink()

    assert [entry.claim.run_id for entry in Spool(tmp_path).left()] == ["run_1"]
    assert [path.name.partition(".")[0] for path in (tmp_path / "spool").glob("*.blobs")] == ["run_1"]
