"""Lines are added whole, to a file that nobody else can read."""

import stat
from pathlib import Path

import pytest

from tipstaff.errors import StoreError
from tipstaff.runner.appended import Appended


def test_lines_are_added_behind_what_is_there(tmp_path):
    """The file is made at the first line, 0600, and goes on where it ended, also after it was closed."""
    path = tmp_path / "list"
    file = Appended(path)
    assert not path.exists()
    file.add(b"one\n")
    file.close()
    file.add(b"two\n")
    Appended(path).add(b"three\n")

    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("is_link", [True, False])
def test_no_link_is_followed(tmp_path, is_link):
    """A name that leads elsewhere is an error of ours; a plain file is written."""
    path, elsewhere = tmp_path / "list", tmp_path / "elsewhere"
    if is_link:
        path.symlink_to(elsewhere)
        with pytest.raises(StoreError, match="cannot be written"):
            Appended(path).add(b"one\n")
        assert not elsewhere.exists()
    else:
        Appended(path).add(b"one\n")
        assert path.read_bytes() == b"one\n"


def test_what_does_not_fit_is_an_error_and_never_silence():
    """A full disk is said, however little was asked for."""
    with pytest.raises(StoreError, match="No space left"):
        Appended(Path("/dev/full")).add(b"one\n")
