"""Folders that are named at a door: spelled in the one real way, or refused with the reason."""

import os
from pathlib import Path

import pytest

from tipstaff.doors.folders import Surroundings, granted_folder, granted_path
from tipstaff.errors import UsageError


@pytest.fixture
def around(tmp_path):
    """A person's home folder with our own home in it, and work beside both."""
    for name in ("person/state/keys", "person/work", "work/inner", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("content")
    (tmp_path / "link").symlink_to("work")
    (tmp_path / "through").symlink_to("work")
    return Surroundings(tmp_path / "person" / "state", tmp_path / "person")


@pytest.mark.parametrize(
    ("named", "real"),
    [
        ("work", "work"),
        ("work/", "work"),
        ("work/inner/..", "work"),
        ("./work//inner", "work/inner"),
        ("through/inner", "work/inner"),
        ("link/.", "work"),
        ("person/work", "person/work"),
    ],
)
def test_a_folder_has_one_spelling(around, tmp_path, monkeypatch, named, real):
    """A relative path, dots, slashes and links among the parents all lead to the one real path."""
    monkeypatch.chdir(tmp_path)

    assert granted_folder(named, "--workspace", around) == str(tmp_path / real)
    assert granted_folder(f"{tmp_path}/{named}", "--workspace", around) == str(tmp_path / real)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("link", "is a symbolic link; name what it points to: .*/work$"),
        ("link/", "is a symbolic link"),
        ("absent", "does not exist"),
        ("work/file", "is not a folder"),
        ("work/file/inner", "cannot be used: Not a directory"),
        ("person", "contains .*/person/state, where Tipstaff keeps its keys"),
        ("person/state", "is or lies in .*/person/state"),
        ("person/state/keys", "is or lies in .*/person/state"),
        (".", "contains"),
        ("", "an empty path names nothing"),
        ("work\0", "holds a NUL"),
        ("work\udcff", "is not UTF-8"),
    ],
)
def test_a_folder_that_cannot_be_granted_is_refused_with_the_reason(around, tmp_path, monkeypatch, named, reason):
    """A link, a file, nothing at all, and whatever holds or lies in our own home are each refused in words."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=f"--workspace: .*{reason}" if named else reason):
        granted_folder(named, "--workspace", around)


def test_the_whole_machine_is_too_much(around):
    """The root folder is refused, by any name."""
    for name in ("/", "//", "/..", "/usr/.."):
        with pytest.raises(UsageError, match="/ is the whole machine"):
            granted_folder(name, "--workspace", around)


@pytest.mark.parametrize(("named", "relation"), [("person", "is"), ("", "contains")])
def test_a_whole_home_folder_is_too_much(around, tmp_path, named, relation):
    """A person's home folder is refused also where our own home lies elsewhere; a folder in it is not."""
    elsewhere = Surroundings(tmp_path / "other", around.person)

    with pytest.raises(UsageError, match=f"{relation} (your whole home folder|.*, where Tipstaff keeps)"):
        granted_folder(str(tmp_path / named), "--workspace", elsewhere)
    assert granted_folder(str(tmp_path / "person" / "work"), "--workspace", elsewhere)


def test_a_file_may_be_read(around, tmp_path):
    """What is granted for reading may be a file; the same refusals hold for it."""
    assert granted_path(str(tmp_path / "work" / "file"), "--read", around) == str(tmp_path / "work" / "file")
    with pytest.raises(UsageError, match=r"--read: .* lies in"):
        granted_path(str(tmp_path / "person" / "state" / "keys"), "--read", around)


def test_our_home_is_known_by_its_real_place(tmp_path):
    """Our own home, and the person's, are compared by where they really are, not by a link to them."""
    (tmp_path / "real" / "state").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("real")
    around = Surroundings.of(tmp_path / "alias" / "state", {"HOME": "relative"})

    assert around == Surroundings(Path(os.path.realpath(tmp_path / "real" / "state")))
    with pytest.raises(UsageError, match="contains"):
        granted_folder(str(tmp_path / "real"), "--workspace", around)
