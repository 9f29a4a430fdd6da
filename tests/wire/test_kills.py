"""Planes and runners are killed at random moments while three hundred runs go through: none is lost or done twice."""

import itertools
import random
import sqlite3
import threading
import time
from contextlib import closing
from http.client import HTTPException

import pytest

from tests.processes import running
from tests.wire.old_words import problems
from tests.wire.stage import shell
from tipstaff.evidence import verify

RUNS = 300
KILL_SECONDS = 60
PACE_SECONDS = 0.12  # between two submissions: they go on for as long as the killing
MOST_SECONDS = 240
QUIET_SECONDS = 90  # for what is left once nobody is killed any more
ENDED = {"completed", "failed", "cancelled"}
SCRIPTS = (
    "true",
    "echo hello; echo err >&2",
    "exit 3",
    "sleep 0.2; echo slept",
    "head -c 300000 /dev/zero | tr '\\0' x",
    "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done",
    "sleep 2.5",
)


class Crowd:
    """Whoever submits, through all the cuts."""

    def __init__(self, stage, token):
        self.stage, self.token = stage, token
        self.accepted: list[str] = []
        self.done = threading.Event()

    def submit_all(self):
        """Submit every run; a request whose answer was lost may have been taken, and is not repeated."""
        for number in range(RUNS):
            request = shell(SCRIPTS[number % len(SCRIPTS)])
            while not self.done.is_set():
                try:
                    reply = self.stage.ask("POST", "/v1/runs", {"request": request}, self.token)
                except (OSError, HTTPException):
                    time.sleep(0.1)
                    continue
                if reply.status == 200:
                    self.accepted.append(reply.json["runId"])
                    break
                time.sleep(0.1)
            time.sleep(PACE_SECONDS)


def killing(stage, chance, until):
    """Kill and start again, at moments and with victims that the seed decides, until the time is up."""
    count = 0
    while time.monotonic() < until:
        time.sleep(chance.uniform(0, 1))
        victims = chance.choice([["a"], ["b"], ["plane"], ["a", "b"], ["plane", "a"], ["plane", "a", "b"]])
        for victim in victims:
            program = stage.plane if victim == "plane" else stage.runners[victim]
            program.kill()
            count += 1
        time.sleep(chance.choice([0, 0, 0.3]))
        if "plane" in victims:
            stage.start_plane()
        for victim in victims:
            if victim != "plane":
                stage.start_runner(victim, "--concurrency", "4", ready=False)
        time.sleep(chance.uniform(0, 1))  # or while it still starts
    return count


@pytest.mark.timeout(MOST_SECONDS + QUIET_SECONDS + 60)
def test_killed_at_random_every_run_ends_exactly_once(stage):
    """After dozens of SIGKILLs every accepted run has one proof that verifies, and none was at work twice at once."""
    stage.init_plane(lease_seconds=4).start_plane()
    crowd = Crowd(stage, stage.token("crowd"))
    for name in ("a", "b"):
        stage.start_runner(name, "--concurrency", "4")
    submitting = threading.Thread(target=crowd.submit_all)
    submitting.start()
    began = time.monotonic()
    try:
        kills = killing(stage, random.Random(20261116), began + KILL_SECONDS)  # noqa: S311 - the same everywhere
        submitting.join(began + MOST_SECONDS - time.monotonic())
    finally:
        crowd.done.set()
        submitting.join()
    for name in ("a", "b"):
        if not stage.runners[name].alive:
            stage.start_runner(name, "--concurrency", "4")
    ids = everything(stage)
    until = time.monotonic() + QUIET_SECONDS
    states: dict[str, str] = {}
    while time.monotonic() < until and (open_ := [one for one in ids if states.get(one) not in ENDED]):
        states |= {one: stage.seen(one)["status"] for one in open_}
        time.sleep(0.2)

    assert kills >= 20
    assert set(crowd.accepted) <= set(ids)
    assert len(crowd.accepted) == RUNS
    assert {one: state for one, state in states.items() if state not in ENDED} == {}
    key = stage.plane_key().read_text()
    for run_id in ids:
        proven(stage, run_id, key)
    completed = sum(state == "completed" for state in states.values())
    assert completed > RUNS // 3
    stops = [stage.runners["a"].stop(), stage.runners["b"].stop(), stage.plane.stop()]
    assert stops == [0, 0, 0]
    assert running(str(stage.folder)) == []
    assert faults(stage.home) == []
    assert [path for name in ("a", "b") for path in (stage.data(name) / "spool").glob("run_*")] == []


def faults(home):
    """What SQLite itself finds wrong with the databases of a home."""
    found = []
    for path in home.rglob("*.sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            found += [(path.name, row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
            found += [(path.name, row[0]) for row in connection.execute("PRAGMA foreign_key_check")]
    assert list(home.rglob("*.sqlite"))
    return found


def everything(stage):
    """List every run that the plane has."""
    found, before = [], ""
    while True:
        page = stage.ask("GET", f"/v1/runs?limit=100{before}").json
        found += [one["runId"] for one in page["runs"]]
        if not page.get("next"):
            return found
        before = f"&before={page['next']}"


def proven(stage, run_id, key):
    """Look at the one proof of a run, and at how its attempts follow each other."""
    said = stage.seen(run_id)
    assert ("receipt" in said) is not ("refusal" in said), said
    if "refusal" in said:
        assert verify(said["refusal"], [key]).verdict == "valid"
        return
    bundle = stage.bundle(run_id)
    assert verify(bundle, [key]).verdict == "valid", (run_id, verify(bundle, [key]).problems)
    lost = bundle["receipt"].get("ending") == "lost"
    assert lost or problems(bundle) == []
    kinds = [link["event"]["type"] for link in bundle["events"]]
    assert kinds.count("command.executed") <= 1
    claims = [place for place, kind in enumerate(kinds) if kind == "run.claimed"]
    for first, second in itertools.pairwise(claims):
        between = set(kinds[first + 1 : second])
        assert between <= {"workspace.materialized", "secret.released", "run.requeued"}, kinds
        assert "run.requeued" in between
