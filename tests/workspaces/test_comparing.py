"""Two folders are compared by descriptor, to a bounded depth, and nothing but what differs is handed over."""

import os
import stat
from pathlib import Path

import pytest

from tipstaff.workspace.collect.comparing import DEEPEST, Comparison, Found
from tipstaff.workspace.collect.layers import own_marks

MARKS = own_marks()


@pytest.fixture
def sides(tmp_path) -> tuple[Path, Path]:
    """Two empty folders."""
    for name in ("base", "now"):
        (tmp_path / name).mkdir()
    return tmp_path / "base", tmp_path / "now"


def compared(sides: tuple[Path, Path], marks: str = "") -> dict[bytes, Found]:
    """Compare them; gives what was found by its name."""
    found: list[Found] = []
    Comparison(found.append, marks).run(*sides)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def test_equal_folders_have_no_difference(sides):
    """Files and links of the same content and rights are not handed over, whatever their times are."""
    for side in sides:
        (side / "folder").mkdir()
        (side / "folder/file").write_text("x")
        (side / "link").symlink_to("folder")
    os.utime(sides[0] / "folder/file", (1, 1))

    assert compared(sides) == {}


@pytest.mark.parametrize(
    ("content", "same"), [(b"x" * 300_000, True), (b"x" * 299_999 + b"y", False), (b"x" * 299_999, False)]
)
def test_contents_are_compared_to_their_last_byte(sides, content, same):
    """A content that differs only in its last byte is another one; rights alone are a difference of rights."""
    (sides[0] / "file").write_bytes(b"x" * 300_000)
    (sides[1] / "file").write_bytes(content)
    (sides[1] / "file").chmod(0o700)

    assert compared(sides)[b"file"].same is same


@pytest.mark.parametrize(("target", "differs"), [("one", False), ("two", True)])
def test_links_are_compared_by_their_targets(sides, target, differs):
    """A link is the same when it points to the same name; where that leads plays no part."""
    (sides[0] / "link").symlink_to("one")
    (sides[1] / "link").symlink_to(target)

    assert (b"link" in compared(sides)) is differs


def test_a_layer_lets_the_base_show_through(sides):
    """What an upper layer does not hold is unchanged; what a whole copy does not hold is gone."""
    (sides[0] / "file").touch()

    assert compared(sides, MARKS) == {}
    assert compared(sides)[b"file"].now is None


def test_a_folder_beneath_an_opaque_one_hides_as_well(sides):
    """A mark counts for all that is below it: the kernel marks only the topmost folder."""
    (sides[0] / "a/b").mkdir(parents=True)
    (sides[0] / "a/b/gone").touch()
    (sides[1] / "a/b").mkdir(parents=True)
    assert compared(sides, MARKS) == {}

    os.setxattr(sides[1] / "a", f"{MARKS}opaque", b"y")

    assert compared(sides, MARKS).keys() == {b"a/b/gone"}


@pytest.mark.parametrize(("levels", "whole"), [(DEEPEST, True), (DEEPEST + 1, False), (3 * DEEPEST, False)])
def test_depth_has_a_bound(sides, levels, whole):
    """A file is found to a bounded depth; deeper, its folder is handed over in its place."""
    folder = sides[1].joinpath(*["d"] * levels)
    folder.mkdir(parents=True)
    (folder / "file").touch()

    found = compared(sides)

    expected = b"d/" * levels + b"file" if whole else b"/".join([b"d"] * DEEPEST)
    assert found.keys() == {expected}
    now = found[expected].now
    assert now is not None
    assert stat.S_ISDIR(now.st_mode) is not whole


def test_length_has_a_bound(sides):
    """Names that are longer than a path can be are told by the folder that they are in, once."""
    descriptor = os.open(sides[1], os.O_RDONLY)
    for _ in range(20):
        os.mkdir("n" * 250, dir_fd=descriptor)
        below = os.open("n" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)

    assert [len(name) for name in compared(sides)] == [16 * 251 - 1]


def test_a_deleted_git_is_one(sides):
    """A `.git` that is gone is handed over whole, not file by file."""
    (sides[0] / "sub/.git/objects").mkdir(parents=True)
    (sides[0] / "sub/.git/objects/x").touch()

    assert compared(sides).keys() == {b"sub/.git"}


def test_what_is_in_a_git_is_marked(sides):
    """All below a `.git`, however spelled, is internal; a file beside it is not."""
    for name in (".git/hooks", ".GIT"):
        (sides[1] / name).mkdir(parents=True)
        (sides[1] / name / "file").touch()
    (sides[1] / "file").touch()

    found = {name: one.internal for name, one in compared(sides).items()}

    assert found == {b".git/hooks/file": True, b".GIT/file": True, b"file": False}


def test_below_what_was_no_folder_is_marked(sides):
    """A name beneath a folder that was a link before is marked: of the base, nobody may ask about it."""
    (sides[0] / "link").symlink_to("elsewhere")
    (sides[1] / "link").mkdir()
    (sides[1] / "link/file").touch()
    (sides[1] / "file").touch()

    found = {name: one.astray for name, one in compared(sides).items()}

    assert found == {b"link": False, b"link/file": True, b"file": False}


def test_a_copy_never_had_pipes(sides):
    """A pipe of the base is not missed in a copy, which is made without it; one in a layer's base can be gone."""
    os.mkfifo(sides[0] / "pipe")

    assert compared(sides) == {}
