"""What every store must do for a plane, whatever it is made of. Today there is one: SQLite in a folder."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tipstaff.canonical import digest
from tipstaff.errors import NotFoundError
from tipstaff.evidence.chain import chained
from tipstaff.keys import PrivateKey
from tipstaff.store import Run, Runner, Store
from tipstaff.store.runs import Line

RUNNER = Runner("rnr_1", PrivateKey.from_seed(b"\1" * 32).public, "default")


@pytest.fixture(params=["sqlite"])
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    made = Store(tmp_path)
    made.runners.enroll(RUNNER, 0)
    yield made
    made.close()


def run(number: int = 1, **fields: object) -> Run:
    """One run."""
    made = Run(
        run_id=f"run_{number}",
        state="created",
        pool="default",
        tier="bwrap",
        principal="anna",
        door="cli",
        request_hash="1" * 64,
        policy_hash="2" * 64,
        contract={"number": number, "cost": 0.5, "name": "é"},
        contract_hash=digest(number),
        created_at=1000,
        updated_at=1000,
        expires_at=5000,
        event_count=0,
        events_head=digest(number),
        plane_time=1000,
    )
    return msgspec.structs.replace(made, **fields)


def test_a_run_comes_back_as_it_went(store):
    """Every column and every document of a run survives."""
    whole = run(
        requirements=[{"rule": "ask"}],
        approval_until=3000,
        owner="own_1",
        attempt=2,
        lease_serial=3,
        lease_until=4000,
        runner_id="rnr_1",
        released=True,
        cancel_actor={"kind": "human", "id": "anna"},
        failure_message="no",
        receipt={"status": "failed"},
        state="failed",
    )
    store.runs.add(whole)

    assert store.runs.get("run_1") == whole


def test_a_run_that_is_not_there_is_said_so(store):
    """A run by an unknown id is not found."""
    with pytest.raises(NotFoundError, match="there is no run 'run_1'"):
        store.runs.get("run_1")


def test_a_change_changes_only_what_it_names(store):
    """A change gives the run as it is afterwards."""
    store.runs.add(run())
    with store.database.transaction():
        changed = store.runs.change(store.runs.get("run_1"), state="claimed", attempt=1)

    assert changed == run(state="claimed", attempt=1) == store.runs.get("run_1")


def test_a_change_from_an_old_state_is_not_made(store):
    """Whoever read a run before somebody else changed it cannot overwrite that change."""
    store.runs.add(run())
    seen = store.runs.get("run_1")
    with store.database.transaction():
        store.runs.change(store.runs.get("run_1"), lease_serial=1)

    with pytest.raises(RuntimeError, match="outside the transaction"), store.database.transaction():
        store.runs.change(seen, state="failed")
    assert store.runs.get("run_1").state == "created"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, True),
        ({"pool": "other"}, False),
        ({"state": "awaiting_approval"}, False),
        ({"state": "claimed"}, False),
        ({"owner": "own_1"}, False),
        ({"expires_at": 1999}, False),
    ],
)
def test_only_what_can_be_claimed_waits(store, fields, found):
    """A run waits for a runner if it is in its pool, approved, unclaimed, of the same owner and not expired."""
    store.runs.add(run(**fields))

    assert (store.runs.waiting(Line("default"), 2000) is not None) is found


def test_the_oldest_is_first(store):
    """Runs are claimed in the order of intake, also behind one that was passed over."""
    for number in (1, 2, 3):
        store.runs.add(run(number))
    first = store.runs.waiting(Line("default"), 2000)
    second = store.runs.waiting(Line("default"), 2000, first[0])

    assert (first[1].run_id, second[1].run_id) == ("run_1", "run_2")


def test_an_owner_has_its_own_queue(store):
    """A process sees the runs that are its own."""
    store.runs.add(run(1, owner="own_1"))
    store.runs.add(run(2, owner="own_2"))

    assert store.runs.waiting(Line("default", "own_2"), 2000)[1].run_id == "run_2"


def test_open_runs_are_those_that_have_not_ended(store):
    """Completed, failed and cancelled runs are not open."""
    states = ["awaiting_approval", "created", "claimed", "provisioning", "running", "completed", "failed", "cancelled"]
    for number, state in enumerate(states):
        store.runs.add(run(number, state=state))

    assert [one.state for one in store.runs.open()] == states[:5]


def test_history_is_read_in_pages(store):
    """The newest runs come first, and a page goes on where the last one ended."""
    for number in range(5):
        store.runs.add(run(number))

    assert [one.run_id for one in store.runs.latest(2)] == ["run_4", "run_3"]
    assert [one.run_id for one in store.runs.latest(9, "run_3")] == ["run_2", "run_1", "run_0"]


def test_a_long_chain_comes_back_in_order(store):
    """A chain of some thousand events is given back whole, and from any place on."""
    store.runs.add(run())
    links = [chained(seq, "2026-03-01T00:00:00.000Z", "0" * 64, {"type": "run.created"}) for seq in range(2500)]
    with store.database.transaction():
        store.runs.add_events("run_1", links)

    assert list(store.runs.events("run_1")) == links
    assert list(store.runs.events("run_1", 2400)) == links[2400:]


def test_a_runner_is_known_by_its_key_and_pool(store):
    """The same key in the same pool is the same runner; in another pool it is another."""
    again = store.runners.enroll(msgspec.structs.replace(RUNNER, runner_id="rnr_2"), 0)
    elsewhere = store.runners.enroll(msgspec.structs.replace(RUNNER, runner_id="rnr_3", pool="other"), 0)

    assert (again.runner_id, elsewhere.runner_id) == ("rnr_1", "rnr_3")


def test_a_revoked_runner_is_not_given_but_its_key_is(store):
    """A revoked runner claims nothing more, and what it signed can still be shown."""
    assert store.runners.get("rnr_1") == RUNNER
    assert store.runners.revoke("rnr_1", 1)

    assert store.runners.get("rnr_1") is None
    assert store.runners.key("rnr_1") == RUNNER.key


def test_a_run_has_one_refusal(store):
    """A second refusal of the same run is not kept; refusals without a run are as many as there are."""
    store.runs.add(run())
    store.refusals.add({"id": "ref_1"}, 1, "run_1")
    store.refusals.add({"id": "ref_2"}, 1, None)
    store.refusals.add({"id": "ref_3"}, 1, None)

    with pytest.raises(Exception, match="UNIQUE"):
        store.refusals.add({"id": "ref_4"}, 1, "run_1")
    assert store.refusals.of_run("run_1") == {"id": "ref_1"}
    assert [one["id"] for one in store.refusals.latest(2)] == ["ref_3", "ref_2"]
