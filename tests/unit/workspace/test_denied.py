"""Deny patterns: what each form of one matches, and what it lets pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import UsageError
from tipstaff.workspace.capture.denied import DEFAULT_PATTERNS, Denied

NAMES = st.lists(st.binary(min_size=1, max_size=8).filter(lambda part: b"/" not in part), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "name",
    [
        b".env",
        b".ENV",
        b"deep/er/.env",
        b".env.local",
        b"a/b.pem",
        b"B.PEM",
        b"id_rsa",
        b"id_rsa.pub",
        b"keys/id_ed25519",
        b"x.key",
        b"new\nline.pem",
        b"\xff.key",
        b".env/inside",
        b"folder.pem/deep/file",
    ],
)
def test_the_defaults_deny_keys_and_files_of_secrets(name):
    """A default pattern matches any part of a name, in any case, whatever bytes it has."""
    assert Denied(DEFAULT_PATTERNS).matches(name)


@pytest.mark.parametrize(
    "name",
    [b".envrc", b"env", b"pem", b"a.pem.txt", b"key", b"keys", b"my_id_rsa", b"monkey", b"a.keys", b"x/.environ"],
)
def test_the_defaults_let_other_names_pass(name):
    """A name that is only like a denied one is not denied."""
    assert not Denied(DEFAULT_PATTERNS).matches(name)


@pytest.mark.parametrize(
    ("pattern", "name", "is_denied"),
    [
        ("conf/secret", b"conf/secret", True),
        ("conf/secret", b"conf/secret/x", True),
        ("conf/secret", b"a/conf/secret", False),
        ("/top", b"top", True),
        ("/top", b"a/top", False),
        ("conf/*", b"conf/a", True),
        ("conf/*.x", b"conf/a/b.x", False),
        ("conf/**.x", b"conf/a/b.x", True),
        ("folder/", b"a/folder/b", True),
        ("a?c", b"abc", True),
        ("a?c", b"a/c", False),
        ("[ab].x", b"b.x", True),
        ("[!ab].x", b"b.x", False),
        ("[!ab].x", b"c.x", True),
        ("[a", b"[a", True),
        ("[^\\]x", b"\\x", False),
        ("a.b", b"axb", False),
        ("ÄRGER", "ärger".encode(), True),
        ("*", b"anything", True),
    ],
)
def test_a_pattern_says_what_it_says(pattern, name, is_denied):
    """Stars, marks, sets and slashes mean what the module promises."""
    assert Denied([pattern]).matches(name) is is_denied


@pytest.mark.parametrize("pattern", ["", "/", "//", "a\0b"])
def test_a_pattern_that_denies_nothing_is_refused(pattern):
    """A pattern that could never match is a mistake, and said to be one."""
    with pytest.raises(UsageError, match="denies nothing"):
        Denied([pattern])


def test_no_pattern_denies_nothing():
    """Without patterns every name passes."""
    assert not Denied([]).matches(b".env")


@given(NAMES, st.lists(st.sampled_from([*DEFAULT_PATTERNS, "a/b", "/c", "[ab]*", "**/x"]), max_size=4))
def test_another_pattern_never_permits_more(parts, patterns):
    """What some patterns deny, more patterns deny as well."""
    name = b"/".join(parts)

    assert Denied([*patterns, "*.more"]).matches(name) or not Denied(patterns).matches(name)


@given(NAMES, st.lists(st.sampled_from([*DEFAULT_PATTERNS, "a/b", "/c", "[ab]*"]), max_size=4))
def test_a_step_into_a_folder_is_judged_like_the_whole(parts, patterns):
    """Judged folder by folder, a name is denied exactly when the whole name is."""
    denied, name = Denied(patterns), b"/".join(parts)
    steps = [denied.matches_in(b"/".join(parts[:count]), parts[count]) for count in range(len(parts))]

    assert any(steps) is denied.matches(name)


@given(st.text(min_size=1, max_size=12), st.binary(min_size=1, max_size=12))
def test_any_pattern_is_taken_or_refused(pattern, name):
    """Whatever a pattern holds, it is compiled or refused with our own error."""
    try:
        Denied([pattern]).matches(name)
    except UsageError:
        assert not pattern.strip("/") or "\0" in pattern
