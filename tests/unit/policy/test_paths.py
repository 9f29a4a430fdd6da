"""Claims about paths of the host."""

import pytest

from tipstaff.policy.paths import PathPattern, meets, normal_path, stays_inside


@pytest.mark.parametrize(
    ("text", "normal"), [("/srv/a", "/srv/a"), ("/srv//a/", "/srv/a"), ("//srv/./a", "/srv/a"), ("/", "/"), ("//", "/")]
)
def test_a_path_has_one_spelling(text, normal):
    """Doubled slashes, dots and a last slash make no difference."""
    assert normal_path(text) == normal


@pytest.mark.parametrize("text", ["", "srv", "./srv", "/srv/../etc", "/srv/a/..", "/srv\0", "~/x"])
def test_what_is_no_path_of_the_host_is_refused(text):
    """A relative path, a step upwards or a NUL is refused."""
    with pytest.raises(ValueError, match="path"):
        normal_path(text)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (".", True), ("", True), ("a/b", True), ("a/../b", True), ("./a", True),
        ("..", False), ("a/../..", False), ("/a", False), ("a\0", False), ("../a", False),
    ],
)  # fmt: skip
def test_a_working_folder_stays_inside(text, inside):
    """A relative path is inside as long as no step of it leads out."""
    assert stays_inside(text) is inside


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/srv/work/**", "/srv/work/a/b", True),
        ("/srv/work/**", "/srv/work", True),
        ("/srv/work/**", "/srv", False),
        ("/srv/work/**", "/srv/workshop", False),
        ("/srv/*", "/srv/a", True),
        ("/srv/*", "/srv/a/b", False),
        ("/srv/*/out", "/srv/a/out", True),
        ("/srv/*/out/**", "/srv/a/out/x", True),
        ("/srv/a", "/srv/a", True),
        ("/**", "/", True),
        ("/**", "/etc", True),
        ("/", "/etc", False),
    ],
)
def test_a_path_pattern_covers_folders(pattern, path, covered):
    """A star stays within one name, and two at the end cover the folder and all beneath it."""
    assert PathPattern(pattern).covers(path) is covered


@pytest.mark.parametrize("pattern", ["srv/**", "/srv/**/x", "/srv/a**", "/srv/../x", ""])
def test_a_path_pattern_that_means_nothing_is_an_error(pattern):
    """A relative pattern, or two stars anywhere but as the last part, is refused."""
    with pytest.raises(ValueError, match=r"."):
        PathPattern(pattern)


@pytest.mark.parametrize(
    ("path", "meeting"), [("/", True), ("/proc", True), ("/proc/1", True), ("/process", False), ("/srv", False)]
)
def test_a_path_meets_what_it_contains_or_lies_in(path, meeting):
    """Containing and lying in are both seen, and a name that merely begins alike is neither."""
    assert meets(path, "/proc") is meeting
