"""The list of a captured tree."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workspace.shelf import ODD, entries
from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace import listing
from tipstaff.workspace.listing import FILE, FOLDER, LINK, Entry

DIGEST = "a" * 64
NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: b"/" not in name and not names.fault(name))
FILES = st.builds(
    Entry, NAMES, st.integers(0, 0o777).map(lambda rights: FILE | rights), st.just(DIGEST), st.integers(0, 2**53)
)


def spelled(*rows):
    """Spell rows as a list, in the one spelling that JSON has here."""
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()


@given(files=st.lists(FILES, unique_by=lambda entry: entry.name))
def test_every_list_comes_back(files):
    """What `encode` writes, `decode` reads, in the order of the names."""
    assert listing.decode(listing.encode(files)) == sorted(files)


def test_the_order_in_which_entries_come_does_not_matter():
    """One tree has one list, and so one digest."""
    listed = entries(ODD)

    assert listing.encode(listed) == listing.encode(listed[::-1])
    assert listing.decode(listing.encode(listed)) == sorted(listed)


def test_the_empty_tree_has_the_digest_of_an_empty_list():
    """The list of nothing is `[]`."""
    assert listing.encode([]) == b"[]"
    assert listing.decode(b"[]") == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["100644", "../x", DIGEST, 1]], "by way of"),
        ([["100644", "/etc/passwd", DIGEST, 1]], "absolute"),
        ([["100644", "a", DIGEST, 1], ["100644", "a", DIGEST, 1]], "twice"),
        ([["120000", "a", DIGEST, 1], ["100644", "a/b", DIGEST, 1]], "beneath what is no folder"),
        ([["100644", "a", DIGEST, 1], ["100644", "a/b/c", DIGEST, 1]], "beneath what is no folder"),
        ([["020000", "null", DIGEST, 0]], "neither a file"),
        ([["060000", "disk", DIGEST, 0]], "neither a file"),
        ([["140000", "socket", DIGEST, 0]], "neither a file"),
        ([["010000", "pipe", DIGEST, 0]], "neither a file"),
        ([["104755", "setuid", DIGEST, 1]], "neither a file"),
        ([["160000", "module", DIGEST, 0]], "neither a file"),
        ([["100644", "a", DIGEST, -1]], "size"),
        ([["040755", "a", DIGEST, 0]], "size"),
        ([["100644", "a", "A" * 64, 1]], "digest"),
        ([["100644", "a", "", 1]], "digest"),
        ([["100644", "b", DIGEST, 1], ["100644", "a", DIGEST, 1]], "one spelling"),
        ([["0100644", "a", DIGEST, 1]], "one spelling"),
        ([["100644", "a", DIGEST, 1, "YQ=="]], "one spelling"),
        ([["100644", "a", DIGEST]], "not \\["),
        ([["100644", "a", DIGEST, "1"]], "not \\["),
        ([["100644", "a", DIGEST, True]], "not \\["),
        ([["rwx", "a", DIGEST, 1]], "cannot be read"),
        ([["100644", "a", DIGEST, 1, "!"]], "cannot be read"),
        ([["100644", "a", DIGEST, 1, 7]], "cannot be read"),
        ([[]], "not \\["),
        (["a"], "cannot be read"),
    ],
)
def test_a_list_that_encode_would_not_write_is_an_input_error(rows, said):
    """Bad names, kinds, sizes, digests, orders and shapes are each refused with their reason."""
    with pytest.raises(InputError, match=said):
        listing.decode(spelled(*rows))


@pytest.mark.parametrize(
    "rows",
    [
        [["100644", "..x", DIGEST, 1]],
        [["040755", "a", "", 0], ["100644", "a/b", DIGEST, 1]],
        [["100644", "a", DIGEST, 1], ["100644", "a.b", DIGEST, 1]],
        [["120000", "a", DIGEST, 1], ["120777", "b", DIGEST, 1]],
        [["100755", "\\xff", DIGEST, 1, "/w=="]],
    ],
)
def test_a_list_that_encode_would_write_is_read(rows):
    """The permitted twins of the above."""
    assert len(listing.decode(spelled(*rows))) == len(rows)


@pytest.mark.parametrize("content", [b"", b"null", b"{}", b"[[", b"\xff", b"[" * 5000, b"[] ", b'[["100644"]]'])
def test_bytes_that_are_no_list_are_an_input_error(content):
    """What is no JSON list of lists is refused."""
    with pytest.raises(InputError):
        listing.decode(content)


@given(content=st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(content):
    """Reading gives entries or raises InputError, and nothing else."""
    with contextlib.suppress(InputError):
        assert listing.encode(listing.decode(content)) == content


def test_an_entry_says_what_it_is():
    """The type of an entry is its mode without the rights."""
    kinds = [Entry(b"a", mode, "", 0).type for mode in (0o100755, 0o120777, 0o040700)]

    assert kinds == [FILE, LINK, FOLDER]
