"""A diff is cut into its files, by the names that git writes, and can be gone back over."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.unit.workspace.bringing import Thing, Tree, fill, link, program
from tipstaff.workspace.apply.sections import before, split
from tipstaff.workspace.git import Git

LINES = some.lists(some.sampled_from([b"a", b"b", b"", b"-c", b"+d", b" e", b"@@ -1 +1 @@", b"diff --git a/x b/x"]))


def diff(room: Path, was: Tree, becomes: Tree, *options: str) -> bytes:
    """Let git compare two trees."""
    git = Git.make(room / "git")
    trees = []
    for name, tree in (("was", was), ("becomes", becomes)):
        work = Git(room / "git", work_tree=fill(room / name, tree), index=room / f"{name}.index")
        work.run("add", "-A")
        trees.append(work.run("write-tree").decode().strip())
    return git.run("diff-tree", "-r", "-p", "--binary", "-M", *options, *trees)


def test_each_file_is_a_section(tmp_path):
    """Names, renames and counts are read from what git writes, odd names and binary files included."""
    was: Tree = {
        b"edit": Thing(b"one\ntwo\n"),
        b"gone": Thing(b"bye\n"),
        b"tool": Thing(b"tool\n"),
        b"old name": Thing(b"long enough\nto be found\nagain\n"),
        b"picture": Thing(b"\0\1\2"),
    }
    becomes: Tree = {
        b"edit": Thing(b"one\n2\nthree\n"),
        b"tool": program(b"tool\n"),
        b"new name": Thing(b"long enough\nto be found\nagain\n"),
        b"picture": Thing(b"\0\1\3"),
        b'with "quotes"\n\xff': Thing(b"x\n"),
        b"with space": Thing(b"x\n"),
        b"point": link(b"edit"),
    }

    found = {one.name: one for one in split(diff(tmp_path, was, becomes))}

    assert {name: (one.origin, one.added, one.deleted, one.binary) for name, one in found.items()} == {
        b"edit": (b"edit", 2, 1, False),
        b"gone": (b"gone", 0, 1, False),
        b"tool": (b"tool", 0, 0, False),
        b"new name": (b"old name", 0, 0, False),
        b"picture": (b"picture", 0, 0, True),
        b'with "quotes"\n\xff': (b'with "quotes"\n\xff', 1, 0, False),
        b"with space": (b"with space", 1, 0, False),
        b"point": (b"point", 1, 0, False),
    }


def test_nothing_is_lost(tmp_path):
    """The sections one behind another are the diff."""
    whole = diff(tmp_path, {b"a": Thing(b"diff --git a/x b/x\n")}, {b"b": Thing(b"diff --git a/y b/y\n")})

    assert b"".join(one.text for one in split(whole)) == whole
    assert split(b"") == []


def test_a_file_cannot_begin_a_section(tmp_path):
    """Lines of a file that look like a header do not speak of another file."""
    content = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n"

    assert [one.name for one in split(diff(tmp_path, {}, {b"a": Thing(content)}))] == [b"a"]


@settings(max_examples=25)  # each is a start of git
@given(old=LINES, new=LINES, old_end=some.booleans(), new_end=some.booleans())
def test_the_way_back_gives_what_was(tmp_path_factory, old, new, old_end, new_end):
    """From a text and the diff that made it, the text before is found."""
    was, becomes = (b"\n".join(lines) + b"\n" * end for lines, end in ((old, old_end), (new, new_end)))
    room = tmp_path_factory.mktemp("back")
    for name, content in (("was", was), ("becomes", becomes)):
        (room / name).write_bytes(content)
    compared = ["git", "diff", "--no-index", "--text", "was", "becomes"]
    section = subprocess.run(compared, cwd=room, capture_output=True, check=False, timeout=30).stdout

    assert (before(becomes, section) == was) or not section


@pytest.mark.parametrize("section", [b"@@ -1 +9 @@\n-a\n+b\n", b"@@ -1 +1,5 @@\n", b"@@ -9 +1 @@\n@@ -1 +1 @@\n"])
def test_a_diff_of_another_text_leads_nowhere(section):
    """A section that does not fit gives nothing, instead of something wrong."""
    assert before(b"a\nb", section) is None
