"""What is remembered of a capture: believed while nothing tells against it, and never more than that."""

import os
import time
from pathlib import Path

import pytest

from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture import remembered
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.remembered import FORMAT, RACY_NANOSECONDS, Remembered
from tipstaff.workspace.capture.scan import Limits, Looker, Scan, scan

LATER = 60 * 1_000_000_000


@pytest.fixture
def folder(tmp_path):
    """A folder with two files."""
    found = tmp_path / "folder"
    (found / "sub").mkdir(parents=True)
    (found / "one").write_text("1")
    (found / "sub/two").write_text("2")
    return found


def scanned(folder: Path) -> Scan:
    """Look at a folder."""
    with Beneath(folder) as top:
        return scan(Looker(top), None, Denied([]), Limits())


def memory(folder: Path, began_nanoseconds: int) -> Remembered:
    """Remember a folder as of a capture that began then."""
    digests = {b"one": "d1", b"sub/two": "d2"}
    rooms, settled = remembered.rooms_of(scanned(folder), digests, began_nanoseconds)
    return Remembered(FORMAT, "key", "base", {}, [], rooms, [], settled)


def holds(past: Remembered, folder: Path) -> bool:
    """Ask whether a folder is as it was."""
    with Beneath(folder) as top:
        return past.holds(Looker(top))


def test_an_unchanged_folder_is_known(folder):
    """Where nothing has changed, all digests are known."""
    past = memory(folder, time.time_ns() + LATER)

    assert holds(past, folder)
    assert past.digests(scanned(folder)) == {b"one": "d1", b"sub/two": "d2"}


def test_a_file_of_the_moment_is_not_believed(folder):
    """What was written when the capture began, or just before, has to be read again."""
    at = (folder / "one").stat().st_ctime_ns

    assert memory(folder, at + RACY_NANOSECONDS).digests(scanned(folder)) == {}
    assert not holds(memory(folder, at + RACY_NANOSECONDS), folder)
    assert memory(folder, at + LATER).digests(scanned(folder)) != {}


@pytest.mark.parametrize("what", ["content", "mode", "time", "swap", "gone", "folder"])
def test_any_change_tells(folder, what):
    """Content, rights, times or another file in its place: the file is not known any more, and the others are."""
    past = memory(folder, time.time_ns() + LATER)
    two = folder / "sub/two"
    before = two.stat()
    if what == "content":
        two.write_text("X")
        os.utime(two, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif what == "mode":
        two.chmod(0o600)
    elif what == "time":
        os.utime(two, (1, 1))
    elif what == "swap":
        (folder / "sub/new").write_text("2")
        os.utime(folder / "sub/new", ns=(before.st_atime_ns, before.st_mtime_ns))
        (folder / "sub/new").rename(two)
    else:
        two.unlink()
    if what == "folder":
        (folder / "sub").rmdir()

    assert not holds(past, folder)
    assert past.digests(scanned(folder)) == {b"one": "d1"}


def test_a_new_file_tells(folder):
    """A file that was not there is not known, and the folder is not as it was."""
    past = memory(folder, time.time_ns() + LATER)
    (folder / "new").write_text("")

    assert not holds(past, folder)


def test_it_is_written_and_read(folder, tmp_path):
    """What is remembered comes back as it was."""
    past = memory(folder, time.time_ns() + LATER)
    path = tmp_path / "made" / "here"

    remembered.write(path, past)

    assert remembered.read(path) == past
    assert [one.name for one in path.parent.iterdir()] == ["here"]


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x91\x01", b"garbage"])
def test_what_cannot_be_read_is_forgotten(tmp_path, content):
    """Damaged bytes, or none at all, are as if nothing were remembered."""
    (tmp_path / "damaged").write_bytes(content)

    assert remembered.read(tmp_path / "damaged") is None
    assert remembered.read(tmp_path / "missing") is None


def test_another_version_is_forgotten(folder, tmp_path):
    """What another version has written is not believed."""
    past = memory(folder, time.time_ns() + LATER)
    past.format += 1
    remembered.write(tmp_path / "other", past)

    assert remembered.read(tmp_path / "other") is None


def test_folders_are_told_apart(tmp_path):
    """Two folders have two memories, and one folder by two names has one."""
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")

    assert remembered.source_of(tmp_path / "one") == remembered.source_of(tmp_path / "link")
    assert remembered.source_of(tmp_path / "one") != remembered.source_of(tmp_path)
