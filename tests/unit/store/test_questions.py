"""Questions are kept once, answered once, and go with their run."""

import sqlite3

import pytest

from tests.unit.plane.embedded import Embedded
from tipstaff.errors import StoreError
from tipstaff.store import Store
from tipstaff.store.questions import Asked

PLACE = ("api.example.com", 443, "ask-first")
NEW_OF_RUNNERS = ("labels", "tiers", "last_seen_at", "drain")


@pytest.fixture
def run_id(tmp_path):
    """A run in a home of its own, which is the store's too."""
    site = Embedded(tmp_path)
    made = site.submit()
    site.close()
    return made


@pytest.fixture
def kept(tmp_path):
    """The same home's store."""
    store = Store(tmp_path)
    yield store
    store.close()


def test_a_question_waits_until_it_is_answered_and_then_keeps_its_answer(kept, run_id):
    """A yes keeps its approval whole; a second answer changes nothing and is told so."""
    asked = Asked(run_id, *PLACE)
    kept.questions.add(asked, 5)
    assert [one.asked for one in kept.questions.waiting()] == [asked]

    assert kept.questions.answer(asked, 7, approval={"sig": "x"}) is True
    assert kept.questions.answer(asked, 8, reason="too late") is False
    found = kept.questions.get(asked)
    assert (found.state, found.approval, found.reason, found.answered_at) == ("yes", {"sig": "x"}, None, 7)
    assert kept.questions.waiting() == []


def test_a_no_keeps_its_reason(kept, run_id):
    """A no has a reason and no approval."""
    asked = Asked(run_id, *PLACE)
    kept.questions.add(asked, 5)
    kept.questions.answer(asked, 7, reason="boris denied it")

    found = kept.questions.get(asked)
    assert (found.state, found.approval, found.reason) == ("no", None, "boris denied it")


def test_the_same_question_is_kept_once(kept, run_id):
    """The same place twice is an error; another port, or another rule, is another question."""
    kept.questions.add(Asked(run_id, *PLACE), 5)
    kept.questions.add(Asked(run_id, "api.example.com", 80, "ask-first"), 6)
    kept.questions.add(Asked(run_id, "api.example.com", 443, "ask-again"), 7)

    with pytest.raises(StoreError):
        kept.questions.add(Asked(run_id, *PLACE), 8)
    assert len(kept.questions.of_run(run_id)) == 3


def test_a_question_belongs_to_a_run(kept):
    """A question of no run is refused by the database itself."""
    with pytest.raises(StoreError):
        kept.questions.add(Asked("run_none", *PLACE), 5)


def test_a_store_of_the_first_schema_is_brought_forward(tmp_path, run_id):
    """A home that was written before there were questions, or other runners, gets the tables, and keeps its runs."""
    file = sqlite3.connect(tmp_path / "store.sqlite")
    file.execute("DROP TRIGGER blob_unowned")
    for index in ("runs_queue", "runs_queued_by", "runs_due", "runs_of", "uses_by_user"):
        file.execute(f"DROP INDEX {index}")
    for table in ("questions", "principals", "enroll_tokens", "blob_owners", "live", "attachments", "turns"):
        file.execute(f"DROP TABLE {table}")
    new = ["runs DROP COLUMN turn", "blobs DROP COLUMN touched_at"]
    for column in new + [f"runners DROP COLUMN {one}" for one in NEW_OF_RUNNERS]:
        file.execute(f"ALTER TABLE {column}")
    file.execute("PRAGMA user_version=1")
    file.commit()
    file.close()
    store = Store(tmp_path)

    assert store.runs.get(run_id).run_id == run_id
    assert store.questions.waiting() == []
    store.close()
