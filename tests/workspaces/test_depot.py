"""The depot: bases made once, held while they are used, removed when nobody does."""

import os
import time
from pathlib import Path

import pytest

from tipstaff.canonical import digest
from tipstaff.errors import StoreError
from tipstaff.workspace.depot import Depot, remove

MANIFEST = {"version": "warrant.manifest.v1", "kind": "tree", "baseRef": "x"}
LATER = 1e12


def fill(target: Path) -> None:
    """Make a base with one file."""
    (target / "file").write_text("content")


def never(_target: Path) -> None:
    """Fail where nothing should be made."""
    raise AssertionError("it was made again")


@pytest.fixture
def depot(tmp_path):
    """An empty depot."""
    return Depot(tmp_path / "workspaces")


def test_a_base_is_made_once(depot):
    """The second who asks for a manifest's base gets what the first one made."""
    with depot.base(MANIFEST, fill) as base:
        assert (base.path / "file").read_text() == "content"
    with depot.base(MANIFEST, never) as base:
        assert (base.path / "file").read_text() == "content"
    assert depot.known(digest(MANIFEST)) == base.path


def test_nothing_is_known_of_another_manifest(depot):
    """A base is known by its whole manifest."""
    with depot.base(MANIFEST, fill):
        pass

    assert depot.known(digest(MANIFEST | {"baseRef": "y"})) is None


def test_nobody_else_can_enter(depot):
    """All of the depot is one user's."""
    with depot.base(MANIFEST, fill):
        pass

    assert {path.stat().st_mode & 0o777 for path in (depot.root, *depot.root.iterdir())} == {0o700}


def test_what_is_not_whole_is_not_there(depot):
    """A base whose making fails is not there, and leaves nothing."""

    def fails(target: Path) -> None:
        fill(target)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        depot.base(MANIFEST, fails)

    assert depot.known(digest(MANIFEST)) is None
    assert list((depot.root / "making").iterdir()) == []


def test_a_base_in_use_is_not_removed(depot):
    """Tidying up takes a base only when nobody holds it."""
    with depot.base(MANIFEST, fill) as base:
        assert depot.tidy(0, now=LATER) == 0
        assert base.path.is_dir()

    assert depot.tidy(0, now=LATER) == 1
    assert depot.known(digest(MANIFEST)) is None


def test_a_base_that_was_used_lately_stays(depot):
    """Only what nobody has used for so long is removed."""
    with depot.base(MANIFEST, fill):
        pass

    assert depot.tidy(3600) == 0
    assert depot.tidy(3600, now=time.time() + 3700) == 1


def test_the_newest_two_of_a_folder_stay(depot):
    """Of the captures of one folder the newest two are kept, however old."""
    for number in range(4):
        with depot.making() as room:
            (room / "tree").mkdir()
            name = depot.keep(room, MANIFEST | {"baseRef": str(number)}, source="folder")
        os.utime(depot.root / "bases" / name, (number, number))

    assert depot.tidy(0, now=LATER) == 2
    assert [depot.known(digest(MANIFEST | {"baseRef": str(number)})) is None for number in range(4)] == [
        True,
        True,
        False,
        False,
    ]


def test_leftovers_of_a_killed_process_are_removed(depot):
    """What is being made by nobody is removed; what somebody makes stays."""
    with depot.making() as room:
        leftover = room.with_name("leftover")
        (leftover / "closed").mkdir(parents=True)
        (leftover / "closed" / "file").write_text("x")
        (leftover / "closed").chmod(0)

        depot.tidy(0)

        assert room.is_dir()
        assert not leftover.exists()


def test_anything_of_ours_can_be_removed(tmp_path):
    """Folders without rights, and deeper than a path may be long, are removed; what links point to stays."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("stays")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(tmp_path / "outside")
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=descriptor)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.fchmod(descriptor, 0o500)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)

    remove(top)

    assert sorted(tmp_path.iterdir()) == [tmp_path / "outside"]
    assert (tmp_path / "outside" / "file").read_text() == "stays"


def test_a_place_that_cannot_be_made_is_said(tmp_path):
    """A depot beneath a file is an error with its name."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be made"):
        Depot(tmp_path / "file" / "workspaces").base(MANIFEST, fill)


def test_a_base_can_be_removed_and_made_again(depot):
    """What was removed is made anew for the next who asks."""
    with depot.base(MANIFEST, fill):
        pass
    depot.tidy(0, now=LATER)

    with depot.base(MANIFEST, fill) as base:
        assert (base.path / "file").read_text() == "content"
