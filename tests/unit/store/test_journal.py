"""What is taken out of the journal shows, to a verifier and to the store itself."""

from hashlib import sha256

import pytest

from tipstaff.errors import StoreError
from tipstaff.evidence import verify
from tipstaff.evidence.trust import Trust
from tipstaff.keys import PrivateKey

KEY, NEXT, STRANGER = (PrivateKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))
TRUST = Trust([KEY.public, NEXT.public])
NOW = "2026-03-01T00:00:00.000Z"


@pytest.fixture
def journal(store):
    for number in range(4):
        store.journal.record("contract", sha256(bytes([number])).hexdigest(), NOW, KEY, TRUST)
    return store.journal


def test_an_empty_journal_is_nothing(store):
    """Before anything was decided there is no journal to show."""
    assert store.journal.document() is None


def test_the_journal_verifies(journal):
    """A journal that was kept honestly is valid."""
    report = verify(journal.document(), [KEY.public])

    assert (report.verdict, report.events) == ("valid", 4)


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_a_removed_entry_shows(journal, store, seq):
    """An entry taken out, wherever it stood, makes the journal invalid."""
    store.database.run("DELETE FROM journal WHERE seq = ?", seq)

    assert verify(journal.document(), [KEY.public]).verdict == "invalid"


def test_a_removed_last_entry_is_not_written_over(journal, store):
    """The store signs no new head over a journal whose last entry is gone."""
    store.database.run("DELETE FROM journal WHERE seq = 3")

    with pytest.raises(StoreError, match=r"the journal in .* was changed"):
        journal.record("contract", "0" * 64, NOW, KEY, TRUST)


def test_a_head_by_a_stranger_is_not_built_upon(journal, store):
    """A head that a key of no plane signed is refused, also by a process that has just started."""
    other = type(journal)(store.database)
    other.record("contract", "1" * 64, NOW, KEY, TRUST)
    forged = type(journal)(store.database)
    forged.record("contract", "2" * 64, NOW, STRANGER, Trust([KEY.public]))

    with pytest.raises(StoreError, match="was changed"):
        type(journal)(store.database).record("contract", "3" * 64, NOW, KEY, TRUST)


def test_a_new_key_goes_on(journal):
    """After a rotation the new key signs the head over the old key's entries."""
    journal.record("receipt", "1" * 64, NOW, NEXT, TRUST)

    assert verify(journal.document(), [NEXT.public]).verdict == "valid"


def test_an_entry_goes_with_its_transaction(journal, store):
    """An entry of a transaction that failed is not there, and the next one takes its place."""

    def fail() -> None:
        with store.database.transaction():
            journal.record("receipt", "1" * 64, NOW, KEY, TRUST)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    journal.record("receipt", "2" * 64, NOW, KEY, TRUST)

    assert verify(journal.document(), [KEY.public]).verdict == "valid"
    assert [entry["seq"] for entry in journal.document()["entries"]] == [0, 1, 2, 3, 4]
