"""Claims about globs."""

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.policy.patterns import any_of, covers, escape, glob, overlaps

PATTERNS = st.text(alphabet="ab*?", max_size=5)
SHORT = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("git", "git", True),
        ("git", "gitx", False),
        ("git", "GIT", False),
        ("git*", "git", True),
        ("*.py", "a/b.py", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[ab]", "[ab]", True),
        ("[ab]", "a", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("a*", "a\nb", True),
        ("git", "git\n", False),
        ("*a*b*", "xaxb", True),
        ("*ab*ab", "ab", False),
    ],
)
def test_a_glob_means_stars_and_question_marks_only(pattern, text, matches):
    """A star is any run, a question mark one character, and everything else itself."""
    assert glob(pattern)(text) is matches
    assert any_of(["other", pattern])(text) is matches


@pytest.mark.parametrize("pattern", ["a\\", r"\d", "a\nb", "\0", "\x01"])
def test_a_pattern_that_means_nothing_is_an_error(pattern):
    """A stray backslash or a control character in a pattern is refused."""
    with pytest.raises(ValueError, match=r"."):
        glob(pattern)


@given(st.text(alphabet=st.characters(min_codepoint=32, categories=["L", "N", "P", "S"])))
def test_an_escaped_text_matches_itself(text):
    """An escaped text matches exactly that text, whatever stands in it."""
    assert glob(escape(text))(text)
    assert not glob(escape(text))(text + "x")


@given(st.text())
def test_an_escaped_text_is_always_a_pattern(text):
    """Also what a policy file cannot hold is escaped to a pattern that matches it."""
    assert glob(escape(text))(text)


@given(PATTERNS, PATTERNS)
def test_covering_is_never_claimed_falsely(wide, narrow):
    """Where one pattern covers another, it matches all that the other matches."""
    if covers(wide, narrow):
        assert all(glob(wide)(text) for text in SHORT if glob(narrow)(text))


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("/v1/*", "/v1/users/*", True),
        ("/v1/*", "/v*", False),
        ("*", "?*", True),
        ("?", "*", False),
        ("a*b", "a*b", True),
    ],
)
def test_covering_is_seen_where_it_is_plain(wide, narrow, covered):
    """The coverings that policies are written with are recognised."""
    assert covers(wide, narrow) is covered


@given(st.text(alphabet="ab*?", max_size=3), st.text(alphabet="ab*?", max_size=3))
def test_overlapping_is_exact(one, other):
    """Two patterns overlap when, and only when, some string is matched by both."""
    # Two patterns of three characters that share a string share one of at most six.
    words = ["".join(letters) for length in range(7) for letters in product("ab", repeat=length)]

    assert overlaps(one, other) is any(glob(one)(word) and glob(other)(word) for word in words)


def test_a_hostile_text_costs_no_more_than_its_length():
    """A pattern of many stars meets a long text that almost fits, and is done at once."""
    started = time.perf_counter()

    assert not glob("*a*a*a*a*a*a*a*a*b")("a" * 100_000)
    assert time.perf_counter() - started < 2


def test_many_globs_are_put_together_in_a_moment():
    """The time to compile a list of globs grows with its length, not with the square of it."""
    patterns = [f"glob-{index}*" for index in range(4000)] + [f"name-{index}" for index in range(100_000)]
    start = time.process_time()

    matches = any_of(patterns)

    assert time.process_time() - start < 3
    assert [matches(text) for text in ("glob-3999x", "name-99999", "name-x")] == [True, True, False]
