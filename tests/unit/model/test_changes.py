"""Changes, as events carry them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.changes import FILE, LINK, Change, Side, from_event, to_event
from tipstaff.model.noun import NO_CONTENT

part = st.binary(min_size=1, max_size=20).filter(lambda data: not set(data) & {0, 47} and data not in {b".", b".."})
name = st.lists(part, min_size=1, max_size=4).map(b"/".join)
side = st.builds(
    Side,
    mode=st.sampled_from([FILE | 0o644, FILE | 0o755, FILE, LINK | 0o777]),
    digest=st.binary(min_size=32, max_size=32).map(bytes.hex).filter(lambda text: text != NO_CONTENT),
    size=st.integers(0, 2**53 - 1),
)
ends = st.tuples(st.none() | side, st.none() | side).filter(any)
SIDE = Side(FILE | 0o644, "a" * 64, 3)


change = st.tuples(name, ends, st.none() | name, st.booleans(), st.booleans(), st.text(max_size=9)).map(
    lambda all_: Change(all_[0], all_[1][0], all_[1][1], all_[2], ignored=all_[3], kept=all_[4], withheld=all_[5])
)


@given(change)
def test_a_change_comes_back_from_its_event(change):
    """Nothing is lost on the way, whatever the bytes of its name."""
    assert from_event({"type": "file.changed", **to_event(change)}) == change


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (Change(b"a", None, SIDE), "added"),
        (Change(b"a", SIDE, None), "deleted"),
        (Change(b"a", SIDE, SIDE._replace(digest="b" * 64)), "changed"),
        (Change(b"a", SIDE, SIDE._replace(mode=FILE | 0o755)), "mode"),
        (Change(b"a", SIDE, SIDE._replace(mode=LINK | 0o777)), "changed"),
    ],
)
def test_what_happened_has_a_word(change, status):
    """A link with the same bytes as the file before it is another content, new rights alone are not."""
    assert change.status == status
    assert to_event(change)["contentHash"] == (NO_CONTENT if status == "deleted" else change.after.digest)


@pytest.mark.parametrize(
    "broken",
    [
        {"path": "../x"},
        {"path": "/etc/passwd"},
        {"path": ""},
        {"path": "a//b"},
        {"path": "a\0b"},
        {"path": 7},
        {"path": "a", "pathBytes": "YQ=="},
        {"path": "x" * 256},
        {"path": "\ud800"},
        {"mode": "060000"},
        {"mode": "104755"},
        {"mode": "zz"},
        {"bytes": -1},
        {"bytes": "3"},
        {"contentHash": "A" * 64},
        {"status": "deleted"},
        {"baseHash": "b" * 64},
        {"from": "../y"},
    ],
)
def test_an_event_that_cannot_be_a_change_is_refused(broken):
    """A name that leads elsewhere, a device, set-uid bits, a contradiction: our own error, and no change."""
    event = {"type": "file.changed", **to_event(Change(b"a", None, SIDE))}
    assert from_event(event) == Change(b"a", None, SIDE)

    with pytest.raises(InputError):
        from_event(event | broken)


@given(name)
def test_every_name_of_a_file_has_one_spelling(one):
    """What is spelled is read as the same bytes."""
    assert names.read(names.spelled(one)) == one
