"""Files that hold secrets are read only while nobody else can read them."""

import os
import struct
from pathlib import Path

import pytest

from tests.unit.secrets.traces import shown
from tipstaff.errors import SecretError
from tipstaff.secrets.private import open_folder, read_private, write_private

CANARY = b"canary-4f1c9a77e2"
NOBODY = 65534
USER_OBJECT, USER, GROUP_OBJECT, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


@pytest.fixture
def file(tmp_path):
    """A private file with a value in it."""
    path = tmp_path / "value"
    path.write_bytes(CANARY)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("bits", "accepted"),
    [(0o600, True), (0o400, True), (0o700, True), (0o640, False), (0o604, False), (0o620, False), (0o444, False)],
)
def test_a_file_must_be_private(file, bits, accepted):
    """A file of its owner alone is read; with any bit for group or others it is refused, with what mends it."""
    file.chmod(bits)

    if accepted:
        assert read_private(file, 100) == CANARY
    else:
        with pytest.raises(SecretError, match="chmod 600"):
            read_private(file, 100)


def access_list(path, *items):
    """Give a file an access list as `setfacl` would: (tag, permissions, id)."""
    packed = b"".join(struct.pack("<HHI", *item) for item in items)
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + packed)


NONE = 0xFFFFFFFF
OWN = [(USER_OBJECT, 4, NONE), (USER, 4, os.geteuid())]
REST = [(MASK, 4, NONE), (OTHER, 0, NONE)]


@pytest.mark.parametrize(
    ("items", "accepted"),
    [
        ([*OWN, (GROUP_OBJECT, 0, NONE), *REST], True),
        ([*OWN, (GROUP_OBJECT, 4, NONE), *REST], False),
        ([*OWN, (USER, 4, 4242), (GROUP_OBJECT, 0, NONE), *REST], False),
        ([*OWN, (GROUP_OBJECT, 0, NONE), (GROUP, 4, 4242), *REST], False),
    ],
)
def test_an_access_list_may_name_us_alone(file, items, accepted):
    """The way systemd hands over a credential, mode 0440 with a list that names its reader alone, is private."""
    access_list(file, *items)
    assert file.stat().st_mode & 0o777 == 0o440

    if accepted:
        assert read_private(file, 100) == CANARY
    else:
        with pytest.raises(SecretError, match="by others"):
            read_private(file, 100)


@pytest.mark.only_if(os.geteuid() == 0, "only root can give a file away")
def test_a_file_of_another_user_is_refused(file):
    """A file that belongs to somebody else is refused, even by root."""
    os.chown(file, NOBODY, NOBODY)

    with pytest.raises(SecretError, match="another user"):
        read_private(file, 100)


def test_only_plain_files_are_read(file, tmp_path):
    """A link, a pipe, a folder and a device are refused at once; what is not there is None."""
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "link", tmp_path / "nowhere", tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(SecretError):
            read_private(path, 100)

    assert read_private(tmp_path / "absent", 100) is None
    assert read_private(file, 100) == CANARY


@pytest.mark.parametrize(("most", "accepted"), [(len(CANARY), True), (len(CANARY) - 1, False)])
def test_a_file_is_bounded(file, most, accepted):
    """A file is read up to the caller's bound; a larger one is refused, and the error holds nothing of it."""
    if accepted:
        assert read_private(file, most) == CANARY
    else:
        with pytest.raises(SecretError, match="larger than") as told:
            read_private(file, most)
        assert "canary" not in shown(told.value)


def test_a_second_name_can_be_refused(file, tmp_path):
    """A file that must have one name is refused with two."""
    (tmp_path / "second").hardlink_to(file)

    assert read_private(file, 100) == CANARY
    with pytest.raises(SecretError, match="2 names"):
        read_private(file, 100, alone=True)
    (tmp_path / "second").unlink()
    assert read_private(file, 100, alone=True) == CANARY


@pytest.mark.parametrize(
    ("bits", "accepted"), [(0o700, True), (0o755, True), (0o775, False), (0o777, False), (0o1777, False)]
)
def test_a_folder_is_changed_by_its_owner_alone(tmp_path, bits, accepted):
    """A folder in which others can put files is refused; one that they can only look at is taken."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(bits)

    if accepted:
        descriptor = open_folder(folder)
        assert descriptor is not None
        os.close(descriptor)
    else:
        with pytest.raises(SecretError, match="chmod go-w"):
            open_folder(folder)
    assert open_folder(tmp_path / "absent") is None


def test_a_file_is_written_whole(tmp_path):
    """A file is written 0600 in place of the one before; where that fails, the one before stays."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    write_private(descriptor, "value", b"one")
    write_private(descriptor, "value", CANARY)
    assert read_private(tmp_path / "value", 100) == CANARY
    (tmp_path / "folder" / "inner").mkdir(parents=True)

    with pytest.raises(SecretError, match="cannot be written"):
        write_private(descriptor, "folder", b"one")
    os.close(descriptor)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "value"]
