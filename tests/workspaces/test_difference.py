"""The diff shows bytes as they are: no attribute, filter or configuration has a say."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workspace.shelf import Shelf
from tipstaff.model.changes import Side
from tipstaff.workspace.collect.difference import Difference, Shown, quoted
from tipstaff.workspace.git import Git


def shown(data: bytes, mode: int = 0o100644) -> Shown:
    """One side with this content."""
    return Shown(Side(mode, sha256(data).hexdigest(), len(data)), data)


def diff_of(
    directory: Path,
    files: Mapping[bytes, tuple[Shown | None, Shown | None]],
    most_bytes: int = 1 << 20,
    seconds: float = 60,
) -> tuple[str, bytes]:
    """Make the diff of some files; gives its problem and the diff."""
    Git.make(directory)
    difference, shelf = Difference(directory), Shelf()
    for name, (base, now) in files.items():
        difference.add(name, base, now)
    writer = shelf.writer()
    problem = difference.write(writer, most_bytes, seconds)
    difference.close()
    return problem, shelf.get(writer.finish())


def test_a_change_is_shown_by_its_lines(tmp_path):
    """A changed text has its removed and its added lines."""
    problem, diff = diff_of(tmp_path / "git", {b"a.txt": (shown(b"one\ntwo\n"), shown(b"one\n2\n"))})

    assert problem == ""
    assert diff.startswith(b"diff --git a/a.txt b/a.txt\n")
    assert diff.endswith(b"@@ -1,2 +1,2 @@\n one\n-two\n+2\n")


def test_nothing_has_no_diff(tmp_path):
    """Without a file there is no diff, and no problem."""
    assert diff_of(tmp_path / "git", {}) == ("", b"")


@pytest.mark.parametrize(
    "attributes", [b"* -diff\n", b"* binary\n", b"* diff=evil\n", b"* text eol=crlf working-tree-encoding=UTF-16\n"]
)
def test_attributes_among_the_files_have_no_say(tmp_path, attributes):
    """A .gitattributes that is part of the change is shown, and changes nothing in how others are."""
    plain = {b"a.txt": (shown(b"one\n"), shown(b"two\n"))}

    _, alone = diff_of(tmp_path / "alone", plain)
    _, beside = diff_of(
        tmp_path / "beside", {b".gitattributes": (shown(attributes), shown(attributes + b"#\n")), **plain}
    )

    assert beside.endswith(alone)


def test_a_binary_file_can_be_made_again(tmp_path):
    """A content that is no text is shown as a binary patch, not as a remark that it differs."""
    _, diff = diff_of(tmp_path / "git", {b"x.bin": (None, shown(bytes(range(256))))})

    assert b"GIT binary patch" in diff


def test_a_link_is_shown_as_one(tmp_path):
    """A link has the mode of a link, and its target as content."""
    _, diff = diff_of(tmp_path / "git", {b"link": (None, shown(b"/etc/passwd", 0o120777))})

    assert b"new file mode 120000" in diff
    assert b"+/etc/passwd" in diff


@pytest.mark.parametrize("mode", [0o100644, 0o100755])
def test_the_right_to_execute_is_shown(tmp_path, mode):
    """A file that became executable is shown as such."""
    _, diff = diff_of(tmp_path / "git", {b"tool": (shown(b"x\n"), shown(b"x\n", mode))})

    assert (b"new mode 100755" in diff) is (mode == 0o100755)


def test_a_name_can_become_a_folder(tmp_path):
    """A file that was a folder, and a folder that was a file, are both shown."""
    files = {
        b"a": (shown(b"1\n"), None),
        b"a/b": (None, shown(b"2\n")),
        b"c": (None, shown(b"3\n")),
        b"c/d": (shown(b"4\n"), None),
    }

    problem, diff = diff_of(tmp_path / "git", files)

    assert (problem, diff.count(b"diff --git")) == ("", 4)


@pytest.mark.parametrize(
    "name", [b"new\nline", b"\xff\xfe", b'quote"', b"back\\slash", b" ", b"-x", b":x", b"\x01" * 200]
)
def test_any_name_is_shown(tmp_path, name):
    """A name of any bytes arrives in the diff; git quotes it there."""
    problem, diff = diff_of(tmp_path / "git", {name: (None, shown(b"x\n"))})

    assert (problem, diff.count(b"diff --git")) == ("", 1)


@given(st.binary(min_size=1, max_size=60))
def test_a_quoted_name_is_plain(name):
    """However odd, a quoted name is one line of printable characters."""
    said = quoted(name)

    assert said[:1] == said[-1:] == b'"'
    assert all(0x20 <= byte < 0x7F for byte in said)


@pytest.mark.parametrize(("most", "whole"), [(10_000, True), (100, False)])
def test_a_diff_has_a_bound(tmp_path, most, whole):
    """A diff within its bound is whole; one beyond it says so."""
    problem, _ = diff_of(tmp_path / "git", {b"a": (None, shown(b"x\n" * 1000))}, most_bytes=most)

    assert problem == ("" if whole else "the diff is larger than 100 bytes")


def test_a_diff_has_a_time(tmp_path):
    """A diff that takes too long is ended, and says so."""
    problem, _ = diff_of(tmp_path / "git", {b"a": (None, shown(b"x\n" * 500_000))}, seconds=0.0)

    assert problem == "the diff took longer than 0 seconds"


def test_a_git_that_fails_is_a_problem_and_no_error(tmp_path):
    """Where git has no directory to work in there is no diff, and a sentence says why."""
    difference = Difference(tmp_path)
    difference.add(b"a", None, shown(b"x"))

    assert difference.write(Shelf().writer(), 1000, 60).startswith("there is no diff: git fast-import: ")
    difference.close()
