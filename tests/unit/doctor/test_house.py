"""The home is judged as it is, and nothing is made or changed by looking."""

import os
import stat

import pytest

from tipstaff.doctor.house import look_at
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.keys.files import save


@pytest.fixture
def home(tmp_path):
    """A home that is as it should be, with a key."""
    made = Home(tmp_path / "home")
    made.make()
    save(PrivateKey.generate(), made.keys, "plane")
    return made


def test_a_good_home_has_no_trouble(home):
    """A private folder on a local disk with a private key is usable, and its key is listed with its mode."""
    found = look_at(home)

    assert (found.there, found.usable, found.troubles) == (True, True, ())
    assert [(key.mode, key.trouble) for key in found.keys] == [("0600", "")]
    assert found.file_system
    assert found.free_bytes > 0


def test_a_home_to_come_is_judged_by_the_folder_above(tmp_path):
    """A home that is not there yet is usable where it can be made, and is not made by looking."""
    found = look_at(Home(tmp_path / "a" / "b"))

    assert (found.there, found.usable) == (False, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_home_that_others_may_write_is_no_home(home, mode):
    """Others who could write are named as the trouble, with the command that mends it."""
    home.root.chmod(mode)

    found = look_at(home)

    assert not found.usable
    assert found.troubles == ((f"{home.root} can be written by other users", f"chmod 700 {home.root}"),)
    assert stat.S_IMODE(home.root.stat().st_mode) == mode


def test_a_file_is_no_home(tmp_path):
    """A home whose name is a file's is named as such."""
    (tmp_path / "home").write_text("")

    assert look_at(Home(tmp_path / "home")).troubles[0][0] == f"{tmp_path / 'home'} is not a folder"


@pytest.mark.parametrize(("kind", "usable"), [("nfs4", False), ("ext4", True)])
def test_a_network_file_system_is_no_place_for_a_home(home, tmp_path, kind, usable):
    """The kernel's table of mounts says what holds the home; a network file system is refused."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - {kind} server:/ rw\n")

    found = look_at(home, mounts)

    assert (found.file_system, found.usable) == (kind, usable)
    assert any("network file system" in trouble for trouble, _ in found.troubles) is not usable


def test_what_cannot_be_told_is_a_trouble(home, tmp_path):
    """Where the table of mounts cannot be read, the home is not called usable."""
    assert not look_at(home, tmp_path / "absent").usable


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_named(home, mode):
    """A key with another mode than its owner's alone is a trouble, with the command that mends it."""
    path = home.keys / "plane.key.pem"
    path.chmod(mode)

    found = look_at(home)

    assert not found.usable
    assert [(key.mode, key.trouble, key.remedy) for key in found.keys] == [
        (f"{mode:04o}", "it can be read by others", f"chmod 600 {path}")
    ]


def test_a_key_that_is_a_link_is_named(home, tmp_path):
    """A symbolic link in the place of a key is not looked through."""
    path = home.keys / "plane.key.pem"
    os.rename(path, tmp_path / "elsewhere")  # noqa: PTH104 - moved as somebody else would
    path.symlink_to(tmp_path / "elsewhere")

    assert look_at(home).keys[0].trouble == "it is not a plain file"


def test_a_remedy_can_be_pasted(tmp_path):
    """A path with a space or a quote is quoted in the command that mends it."""
    home = Home(tmp_path / "it's a home")
    home.make()
    home.root.chmod(0o777)

    assert look_at(home).troubles[0][1] == f"chmod 700 '{tmp_path}/it'\"'\"'s a home'"
