"""The files that say whom a home trusts: believed while nobody else can write them, and written whole."""

import os
import stat

import pytest

from tipstaff.errors import InputError, StoreError
from tipstaff.keys import trust_files
from tipstaff.keys.trust_files import locked, read_trust_file, write_trust_file


def test_what_is_written_is_read(tmp_path):
    """A file comes back as it was written, for its owner alone; one that is not there is None."""
    path = tmp_path / "list.json"
    assert read_trust_file(path, "lie") is None
    write_trust_file(path, b"[]")
    write_trust_file(path, b"[1]")

    assert read_trust_file(path, "lie") == b"[1]"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["list.json"]


@pytest.mark.parametrize(("mode", "is_read"), [(0o600, True), (0o644, True), (0o620, False), (0o602, False)])
def test_a_file_that_others_may_write_is_refused(tmp_path, mode, is_read):
    """The refusal says what they could do, and how to mend it."""
    path = tmp_path / "list.json"
    path.write_bytes(b"[]")
    path.chmod(mode)
    if is_read:
        assert read_trust_file(path, "lie") == b"[]"
        return
    with pytest.raises(InputError, match=r"who could lie; .*chmod 600"):
        read_trust_file(path, "lie")


def test_a_file_is_read_to_a_bound(tmp_path, monkeypatch):
    """A file of the largest size is read, one byte more is refused."""
    monkeypatch.setattr(trust_files, "MAX_BYTES", 100)
    path = tmp_path / "list.json"
    write_trust_file(path, b" " * 100)
    assert read_trust_file(path, "lie") == b" " * 100
    write_trust_file(path, b" " * 101)
    with pytest.raises(InputError, match="larger than 100 bytes"):
        read_trust_file(path, "lie")


def test_what_cannot_be_written_is_our_error_and_leaves_nothing(tmp_path):
    """A name that is taken by a folder is no file: nothing is left beside it."""
    (tmp_path / "list.json").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_trust_file(tmp_path / "list.json", b"[]")
    with pytest.raises(InputError, match="cannot be read"):
        read_trust_file(tmp_path / "list.json", "lie")
    assert os.listdir(tmp_path) == ["list.json"]  # noqa: PTH208 - names are what is compared


def test_the_lock_is_let_go(tmp_path):
    """Whoever held it has let it go, also after an error."""
    with pytest.raises(ValueError, match="inside"), locked(tmp_path):
        raise ValueError("inside")
    with locked(tmp_path):
        pass
