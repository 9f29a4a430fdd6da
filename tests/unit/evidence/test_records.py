"""Refusals and journals: every change is found, and a journal's tail by its head."""

import pytest

from tests.vectors.story import PLANE, at, journal, refusal
from tipstaff.canonical import digest
from tipstaff.evidence import verify
from tipstaff.evidence.records import journal_entry, journal_head
from tipstaff.evidence.seal import payload_digest, signed

PINNED = [PLANE.public]


def numbers(document):
    """The numbers of a document's problems."""
    return {problem.number for problem in verify(document, PINNED).problems}


@pytest.mark.parametrize("name", [name for name in refusal() if name != "signatures"])
def test_no_field_of_a_refusal_can_be_changed(name):
    """Another value, a missing field and one more are found by the signature."""
    true = refusal()
    assert numbers(true) == set()
    assert 28 in numbers({**true, name: [true[name]]})
    assert 28 in numbers({key: value for key, value in true.items() if key != name})
    assert numbers({**true, "more": 1}) == {28}


def test_a_refusal_may_say_more():
    """A newer writer's field is covered by the signature."""
    more = signed({**{k: v for k, v in refusal().items() if k != "signatures"}, "future": [1]}, PLANE, "plane")

    assert numbers(more) == set()


def test_no_entry_of_a_journal_can_be_changed():
    """Another value in any field of any entry, a field more and a field less are found by the chain."""
    true = journal(5)
    for index, entry in enumerate(true["entries"]):
        for name, value in entry.items():
            other = value + 1 if isinstance(value, int) else f"{value}x"
            for changed in ({**entry, name: other}, {k: v for k, v in entry.items() if k != name}, {**entry, "x": 1}):
                entries = [*true["entries"][:index], changed, *true["entries"][index + 1 :]]
                assert 29 in numbers({**true, "entries": entries})
    assert numbers(true) == set()


def test_no_entry_can_be_dropped_doubled_or_moved():
    """The order and the number of entries are fixed: by the chain, or at the end by the head."""
    true = journal(5)
    entries = true["entries"]
    for index in range(5):
        assert {29, 30} & numbers({**true, "entries": entries[:index] + entries[index + 1 :]})
        assert {29, 30} & numbers({**true, "entries": [*entries[: index + 1], *entries[index:]]})
        assert 30 in numbers({**true, "entries": entries[:index]})
    assert 29 in numbers({**true, "entries": entries[::-1]})


def test_a_journal_written_anew_needs_a_new_head():
    """Who changes an entry and hashes all that follow has no head for it, and an old head shows what is missing."""
    true, longer = journal(3), journal(4)
    forged = [*true["entries"][:2], journal_entry(2, true["entries"][1]["hash"], at(1), "refusal", "0" * 64)]

    assert numbers({**true, "entries": forged}) == {30}
    assert numbers({**true, "entries": longer["entries"]}) == {30}
    assert numbers({**longer, "head": true["head"]}) == {30}
    assert numbers({**true, "head": journal_head(forged[-1], at(9000), PLANE), "entries": forged}) == set()


@pytest.mark.parametrize("name", ["seq", "hash", "ts"])
def test_no_field_of_a_head_can_be_changed(name):
    """Another value in the head is found by its signature."""
    head = journal()["head"]
    other = head[name] + 1 if isinstance(head[name], int) else head[name].replace("00", "01")

    assert numbers(head) == set()
    assert numbers({**head, name: other}) == {30}
    assert {30} <= numbers(
        {k: v for k, v in head.items() if k != name} | {"signatures": head["signatures"], name: None}
    )


def test_a_digest_in_the_journal_is_that_of_the_document():
    """The digest that a journal keeps of a refusal is H of it without its signatures."""
    document = refusal()
    entry = journal_entry(0, "0" * 64, at(0), "refusal", payload_digest(document))

    assert entry["digest"] == digest({key: value for key, value in document.items() if key != "signatures"})
