"""Processes are killed at any moment, and work side by side: nothing is damaged, lost or done twice."""

import os
import subprocess
import sys
import time

import pytest

from tests.unit.plane.embedded import PLANE, Counter, Embedded
from tipstaff.errors import StoreError
from tipstaff.evidence import verify
from tipstaff.evidence.seal import payload_digest
from tipstaff.plane import SteadyClock

KILLS = 40


def start(root, *arguments, **options):
    """Start the program beside this file."""
    environ = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.plane.victim", *map(str, arguments)],
        cwd=root,
        env=environ,
        text=True,
        **options,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_nothing_is_left_open(root, tmp_path, seed):
    """After dozens of SIGKILLs the next start finds a sound store, and every run has one proof that verifies."""
    with start(root, "kill", tmp_path, seed, KILLS) as killer:
        assert killer.wait(100) == 0
    site = Embedded(tmp_path, owner="last", clock=SteadyClock(), random=Counter("last"))
    site.plane.close_lost()

    assert site.store.database.faults() == []
    assert site.store.runs.open() == []
    runs = [line for line in site.plane.history(100_000) if "runId" in line]
    pruned = site.store.pruned.all()
    assert {run["status"] for run in runs} <= {"completed", "failed"}
    proofs = {proof_of(site, run["runId"]) for run in runs} | {gone.proof_digest for gone in pruned}
    proofs |= {payload_digest(refusal) for refusal in site.plane.refusals(100_000)}
    assert proofs
    journal = site.plane.journal()
    assert journal is not None
    assert verify(journal, [PLANE.public]).verdict == "valid"
    kept = [entry["digest"] for entry in journal["entries"] if entry["kind"] != "contract"]
    assert sorted(kept) == sorted(proofs)
    contracts = [entry["digest"] for entry in journal["entries"] if entry["kind"] == "contract"]
    assert len(contracts) == len(set(contracts)) == len(runs) + sum(bool(gone.contract_hash) for gone in pruned)
    assert left_over(tmp_path) == ["owners/last.owner"]
    assert unreadable(site) == []
    site.close()


def proof_of(site, run_id):
    """Give the digest of the one proof that a run has, verified."""
    refusal = site.store.refusals.of_run(run_id)
    receipt = site.store.runs.get(run_id).receipt
    assert (refusal is None) is not (receipt is None)
    document = site.plane.bundle(run_id) if receipt else refusal
    assert verify(document, [PLANE.public]).verdict == "valid"
    return payload_digest(receipt or refusal)


def unreadable(site):
    """List blobs whose row is there and whose content is not."""
    found = []
    for (digest,) in site.store.database.all("SELECT hash FROM blobs"):
        try:
            site.store.blobs.get(digest)
        except StoreError as error:
            found.append(str(error))
    return found


def left_over(home):
    """List marks of processes and half-written files."""
    found = [*home.glob("owners/*"), *home.glob("blobs/*.part")]
    return sorted(path.relative_to(home).as_posix() for path in found)


def test_no_two_processes_claim_one_run(root, tmp_path):
    """Three processes empty one queue: every run is claimed once, by one of them, and all are completed."""
    site = Embedded(tmp_path, clock=SteadyClock())
    submitted = [site.submit() for _ in range(120)]
    claimants = [
        start(root, "claim", tmp_path, f"claimant {number}", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for number in range(3)
    ]
    for claimant in claimants:
        claimant.stdin.write("go\n")
        claimant.stdin.flush()
    claimed = [claimant.communicate(timeout=100)[0].split() for claimant in claimants]

    assert [claimant.returncode for claimant in claimants] == [0, 0, 0]
    assert sorted(run for runs in claimed for run in runs) == sorted(submitted)
    assert sum(bool(runs) for runs in claimed) > 1
    assert {run["status"] for run in site.plane.history(1000)} == {"completed"}
    assert verify(site.plane.journal() or {}, [PLANE.public]).verdict == "valid"
    site.close()


def test_the_clock_follows_the_wall_and_never_goes_back():
    """The plane's clock agrees with the machine's to a second, and each reading is not before the last."""
    clock = SteadyClock()
    readings = [clock() for _ in range(1000)]

    assert readings == sorted(readings)
    assert abs(readings[0] / 1000 - time.time()) < 1
