"""Two names change places, and one moves where nothing is: with the kernel's help, and without."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipstaff.workspace.apply import exchange as moves


@pytest.fixture(params=[True, False], ids=["by the kernel", "by look and rename"])
def folder(request, tmp_path, monkeypatch) -> Path:
    """Two files and a folder; on one of two hosts the kernel, or its file system, knows neither move."""
    if not request.param:
        monkeypatch.setattr(moves, "_renameat2", None)
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    (tmp_path / "inner").mkdir()
    path: Path = tmp_path
    return path


@pytest.fixture
def opened(folder) -> Iterator[int]:
    """The folder, held open."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def texts(folder: Path) -> dict[str, str]:
    """Read every file."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_two_names_change_places(folder, opened):
    """After an exchange each has what the other had, and nothing else is there."""
    moves.exchange((opened, b"one"), (opened, b"two"))

    assert texts(folder) == {"one": "two", "two": "one"}


def test_a_link_is_exchanged_and_not_followed(folder, opened):
    """A link moves as the link that it is."""
    (folder / "pointer").symlink_to("one")

    moves.exchange((opened, b"pointer"), (opened, b"two"))

    assert (folder / "two").readlink() == Path("one")
    assert texts(folder) == {"one": "one", "two": "one", "pointer": "two"}


@pytest.mark.parametrize("absent", [b"one", b"two"])
def test_an_exchange_with_nothing_changes_nothing(folder, opened, absent):
    """Where one of two is not there, the other stays what and where it was."""
    (folder / absent.decode()).unlink()
    before = texts(folder)

    with pytest.raises(FileNotFoundError):
        moves.exchange((opened, b"one"), (opened, b"two"))

    assert texts(folder) == before


def test_a_name_moves_where_nothing_is(folder, opened):
    """A move takes a file to a free name."""
    moves.move((opened, b"one"), (opened, b"three"))

    assert texts(folder) == {"two": "two", "three": "one"}


@pytest.mark.parametrize("goal", [b"two", b"inner"])
def test_a_move_writes_over_nothing(folder, opened, goal):
    """What is there stays, and the file that was to take its place, too."""
    with pytest.raises(FileExistsError):
        moves.move((opened, b"one"), (opened, goal))

    assert texts(folder) == {"one": "one", "two": "two"}
