"""A folder and what lies beneath it."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace import beneath
from tipstaff.workspace.beneath import Beneath


@pytest.fixture
def folder(tmp_path):
    """A folder, held, beside a file that must not be reached."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "inside").mkdir()
    with Beneath(tmp_path / "inside") as held:
        yield held


def put(folder, name, content=b"x", rights=0o644):
    """Write a file."""
    with os.fdopen(folder.create(name, rights), "wb") as file:
        file.write(content)


def listed(path: Path) -> list[str]:
    """List what is in a folder."""
    return [one.name for one in path.iterdir()]


def content(folder, name):
    """Read a file."""
    with os.fdopen(folder.open(name), "rb") as file:
        return file.read()


def test_what_is_written_is_read(folder):
    """A file, a link and a folder are there once they were made, with their rights, and gone once they were removed."""
    put(folder, b"a/b/c", b"content", 0o4751)
    folder.link(b"c", b"a/b/l")
    folder.make_folder(b"a/d", 0o700)

    assert content(folder, b"a/b/c") == b"content"
    assert folder.target(b"a/b/l") == b"c"
    assert [folder.stat(name).st_mode for name in (b"a/b/c", b"a/d")] == [0o100751, 0o040700]
    folder.remove(b"a/b/c")
    folder.remove(b"a/b/l")
    assert folder.stat(b"a/b/c") is folder.stat(b"a/b/l") is None


@pytest.mark.parametrize("name", [b"", b"/etc/passwd", b"../outside/secret", b"a/../../outside/secret", b".", b"a//b"])
def test_a_name_that_leads_elsewhere_is_refused(folder, name):
    """No name goes up, or starts at the root."""
    for step in (folder.open, folder.stat, folder.target, folder.remove, folder.make_folder):
        with pytest.raises(InputError, match="is not the name of something in a folder"):
            step(name)
    with pytest.raises(InputError):
        folder.create(name, 0o644)
    with pytest.raises(InputError):
        folder.link(b"x", name)


@pytest.mark.parametrize("goal", ["../outside", "/", "real"])
def test_a_link_in_the_middle_is_not_followed(folder, tmp_path, goal):
    """A part of a name that is a link ends the way, wherever it leads; a folder in its place does not."""
    folder.make_folder(b"real")
    put(folder, b"real/secret")
    (tmp_path / "inside" / "way").symlink_to(goal)

    assert folder.stat(b"way/secret") is None
    for step in (folder.open, folder.remove, folder.target):
        with pytest.raises(NotADirectoryError):
            step(b"way/secret")
    with pytest.raises(NotADirectoryError):
        folder.create(b"way/new", 0o644)
    with pytest.raises(NotADirectoryError):
        folder.make_folder(b"way/new")
    assert content(folder, b"real/secret") == b"x"
    assert listed(tmp_path / "outside") == ["secret"]


def test_a_link_at_the_end_is_not_followed(folder, tmp_path):
    """A link is neither read nor written through, and its own stat is given."""
    (tmp_path / "inside" / "l").symlink_to("../outside/secret")

    with pytest.raises(OSError, match="symbolic links"):
        folder.open(b"l")
    with pytest.raises(FileExistsError):
        folder.create(b"l", 0o644)
    with pytest.raises(NotADirectoryError):
        folder.make_folder(b"l")
    assert folder.stat(b"l").st_mode & 0o170000 == 0o120000
    assert (tmp_path / "outside" / "secret").read_bytes() == b"secret"


def test_only_regular_files_are_opened(folder, tmp_path):
    """A pipe is refused without waiting for its writer, and so is a folder."""
    os.mkfifo(tmp_path / "inside" / "pipe")
    folder.make_folder(b"d")

    for name in (b"pipe", b"d"):
        with pytest.raises(OSError, match="not a regular file"):
            folder.open(name)


def test_nothing_is_written_over(folder):
    """What is there stays, and is told."""
    put(folder, b"a", b"first")

    with pytest.raises(FileExistsError):
        put(folder, b"a", b"second")
    with pytest.raises(FileExistsError):
        folder.link(b"x", b"a")
    assert content(folder, b"a") == b"first"


def test_missing_folders_are_made_only_on_request(folder):
    """Without `make`, a folder that is not there is an error."""
    with pytest.raises(FileNotFoundError):
        folder.create(b"a/b", 0o644, make=False)
    with pytest.raises(FileNotFoundError):
        folder.folder(b"a")
    folder.folder(b"a", make=True)
    folder.create(b"a/b", 0o644, make=False)


def test_many_folders_do_not_hold_many_descriptors(folder):
    """More folders than are kept open can be used, and all are let go of at the end."""
    before = len(listed(Path("/proc/self/fd")))

    for number in range(beneath.HELD + 50):
        put(folder, b"%d/file" % number)

    assert len(listed(Path("/proc/self/fd"))) <= before + beneath.HELD + 1
    folder.forget()
    assert len(listed(Path("/proc/self/fd"))) == before


def test_a_descriptor_of_a_folder_is_used_by_duplicate(tmp_path):
    """Closing leaves the caller's own descriptor open."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with Beneath(descriptor) as folder:
            put(folder, b"a")
        assert listed(tmp_path) == ["a"]
    finally:
        os.close(descriptor)


@given(name=st.binary(max_size=40))
def test_any_bytes_are_a_name_or_refused(tmp_path_factory, name):
    """A file is made beneath the folder, or nothing is made at all."""
    top = tmp_path_factory.mktemp("any")
    (top / "inside").mkdir()
    with Beneath(top / "inside") as folder:
        try:
            put(folder, name, b"here")
        except InputError:
            assert names.fault(name)
            assert listed(top / "inside") == []
            return
        assert content(folder, name) == b"here"
    assert listed(top) == ["inside"]


def swap(path: Path, goal: Path, stop: threading.Event) -> None:
    """Exchange a folder for a link and back, until told to stop."""
    aside = path.with_name("aside")
    while not stop.is_set():
        path.rename(aside)
        path.symlink_to(goal)
        path.unlink()
        aside.rename(path)


def test_a_folder_that_is_exchanged_for_a_link_meanwhile_leads_nowhere(tmp_path):
    """However often a folder and a link change places while files are written, none lands where the link leads."""
    way, outside = tmp_path / "inside" / "way", tmp_path / "outside"
    way.mkdir(parents=True)
    outside.mkdir()
    stop = threading.Event()
    thread = threading.Thread(target=swap, args=(way, outside, stop))
    thread.start()
    try:
        with Beneath(tmp_path / "inside") as folder:
            for number in range(500):
                folder.forget()
                with contextlib.suppress(NotADirectoryError, FileNotFoundError):
                    os.close(folder.create(b"way/%d" % number, 0o644, make=False))
    finally:
        stop.set()
        thread.join()

    assert listed(outside) == []
