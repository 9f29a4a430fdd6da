"""An upper layer's marks are read as the kernel set them, and its rights keep nobody out."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.workspace.overlaid import overlaid
from tipstaff.workspace.collect import layers

ROOT = os.geteuid() == 0


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with a folder in it."""
    (tmp_path / "base/folder").mkdir(parents=True)
    (tmp_path / "base/folder/file").write_text("x")
    return tmp_path / "base"


@pytest.fixture
def opened(tmp_path) -> Iterator[int]:
    """An open folder."""
    (tmp_path / "marked").mkdir()
    descriptor = os.open(tmp_path / "marked", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(("script", "replaced"), [("rm -r folder && mkdir folder", True), ("touch folder/new", False)])
def test_a_replaced_folder_is_opaque(base, tmp_path, script, replaced):
    """The kernel marks a folder that was removed and made again, and no other."""
    view = overlaid(base, tmp_path / "place", script)
    assert view.upper is not None
    folder = layers.entered(view.upper / "folder")

    found = layers.is_opaque(folder, view.marks)

    os.close(folder)
    assert found is replaced


@pytest.mark.parametrize(("script", "gone"), [("rm folder/file", True), ("echo y > folder/file", False)])
def test_a_removed_file_is_a_whiteout(base, tmp_path, script, gone):
    """The kernel leaves a whiteout for a name that was removed, and a file for one that was written."""
    view = overlaid(base, tmp_path / "place", script)
    assert view.upper is not None

    assert layers.is_whiteout((view.upper / "folder/file").lstat()) is gone


@pytest.mark.only_if(ROOT, "only root makes devices")
def test_another_device_is_no_whiteout(tmp_path):
    """A character device with a number of its own is a device."""
    os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))

    assert not layers.is_whiteout((tmp_path / "null").lstat())


@pytest.mark.parametrize(("value", "opaque"), [(b"y", True), (b"x", False), (b"", False), (b"yes", False)])
def test_only_a_yes_is_a_mark(opened, value, opaque):
    """A mark counts with the one value that hides what is below."""
    os.setxattr(opened, f"{layers.own_marks()}opaque", value)

    assert layers.is_opaque(opened, layers.own_marks()) is opaque


def test_marks_of_another_kind_do_not_count(opened):
    """A mark that a command can set itself means nothing where the kernel's own have another name."""
    os.setxattr(opened, "user.overlay.opaque", b"y")

    assert layers.is_opaque(opened, "user.overlay.")
    assert not layers.is_opaque(opened, "trusted.overlay.")


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400, 0o700])
def test_rights_keep_nobody_out_of_a_folder(tmp_path, mode):
    """A folder of the layer can be listed, and looked into, whatever its rights are."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    (tmp_path / "folder").chmod(mode)

    folder = layers.entered(tmp_path / "folder")

    with os.scandir(folder) as entries:
        found = [(entry.name, stat.S_ISREG(entry.stat().st_mode)) for entry in entries]
    os.close(folder)
    assert found == [("file", True)]


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o600])
def test_rights_keep_nobody_out_of_a_file(tmp_path, mode):
    """A file of the layer can be read, whatever its rights are."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(mode)
    above = os.open(tmp_path, os.O_RDONLY)

    file = layers.opened(b"file", above)

    content = os.read(file, 10)
    os.close(file)
    os.close(above)
    assert content == b"x"


@pytest.mark.parametrize("target", ["folder", "/"])
def test_a_link_is_not_entered(tmp_path, target):
    """A link in place of a folder is an error, wherever it points to."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(target)

    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        layers.entered(tmp_path / "link")


@pytest.mark.parametrize("filled", [True, False])
def test_an_empty_layer_is_known(tmp_path, filled):
    """A layer says whether anything is in it."""
    if filled:
        (tmp_path / "file").touch()

    assert layers.holds_any(tmp_path) is filled
