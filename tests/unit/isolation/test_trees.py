"""Folders that a command may have written."""

import os
import socket

import pytest

from tipstaff.isolation import trees


def deep(folder, levels):
    """Nest folders deeper than a path may be long, without ever naming them whole."""
    before = os.getcwd()  # noqa: PTH109 - only to come back
    os.chdir(folder)
    for _ in range(levels):
        os.mkdir("deeper")  # noqa: PTH102 - relative, because the whole name is too long
        os.chdir("deeper")
    os.chdir(before)


def test_a_tree_is_removed_whatever_it_is(tmp_path):
    """Depth, closed folders, links to outside, sockets and pipes do not keep a tree; what links lead to is kept."""
    folder, kept = tmp_path / "tree", tmp_path / "kept"
    (folder / "closed" / "inner").mkdir(parents=True)
    kept.mkdir()
    (kept / "file").write_text("kept")
    (folder / "link").symlink_to(kept)
    (folder / "closed" / "inner" / "link").symlink_to(kept / "file")
    os.mkfifo(folder / "pipe")
    deep(folder, 3000)
    (folder / "closed").chmod(0)

    trees.remove(str(folder))

    assert not folder.exists()
    assert (kept / "file").read_text() == "kept"


def test_removing_what_is_not_there_is_nothing(tmp_path):
    """A folder that is gone already is no error."""
    trees.remove(str(tmp_path / "missing"))


def test_a_measure_finds_all_there_is(tmp_path):
    """However small the steps, the sum of a whole pass is the same; it follows what changes."""
    for place in range(30):
        (tmp_path / f"folder-{place}").mkdir()
        (tmp_path / f"folder-{place}" / "file").write_bytes(b"x" * 10_000)
    measure = trees.Measure(str(tmp_path))

    for _ in range(200):
        measure.step(0)
    assert measure.total >= 300_000
    for place in range(30):
        (tmp_path / f"folder-{place}" / "file").unlink()
    for _ in range(200):
        measure.step(0)
    assert measure.total < 300_000


def test_sparse_files_count_as_what_they_take(tmp_path):
    """A file that claims a gigabyte and holds nothing takes next to nothing."""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    measure = trees.Measure(str(tmp_path))

    measure.step(1)

    assert measure.total < 1 << 20


@pytest.mark.parametrize("kind", ["socket", "pipe", "link", "file"])
def test_ways_out_are_found(tmp_path, monkeypatch, kind):
    """A socket or a pipe anywhere in a tree is named; files and links are none."""
    (tmp_path / "inner").mkdir()
    place = tmp_path / "inner" / "thing"
    if kind == "socket":
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("inner/thing")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/dev/null")
    else:
        place.write_text("")

    assert trees.doors(str(tmp_path)) == (str(place) if kind in {"socket", "pipe"} else "")


def test_a_copy_has_files_folders_and_links(tmp_path):
    """Contents, rights and links are copied; pipes are left out, and nothing is followed."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    target.mkdir()
    (source / "inner" / "program").write_bytes(b"#!/bin/sh\n" * 1000)
    (source / "inner" / "program").chmod(0o750)
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")

    trees.copy(os.open(source, os.O_RDONLY), str(target), 1 << 20)

    assert sorted(path.name for path in target.rglob("*")) == ["inner", "link", "program"]
    assert (target / "inner" / "program").read_bytes() == b"#!/bin/sh\n" * 1000
    assert (target / "inner" / "program").stat().st_mode & 0o777 == 0o750
    assert (target / "link").readlink().as_posix() == "/etc/passwd"


@pytest.mark.parametrize("rights", [0o775, 0o666, 0o500, 0o444])
def test_a_copy_has_the_same_rights(tmp_path, rights):
    """Files and folders are copied with exactly their rights and files with their times, whatever the umask is."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    target.mkdir()
    (source / "inner" / "file").write_text("here")
    (source / "inner" / "file").chmod(rights)
    os.utime(source / "inner" / "file", ns=(1, 2))
    (source / "inner").chmod(rights | 0o500)
    before = os.umask(0o077)
    try:
        trees.copy(os.open(source, os.O_RDONLY), str(target), 1 << 20)
    finally:
        os.umask(before)

    copied = (target / "inner" / "file").stat()
    assert ((target / "inner").stat().st_mode & 0o777, copied.st_mode & 0o777) == (rights | 0o500, rights)
    assert copied.st_mtime_ns == 2


def test_a_copy_has_a_limit(tmp_path):
    """What is too large is not copied; what just fits is."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(b"x" * 1000)
    for name in ("small", "large"):
        (tmp_path / name).mkdir()

    with pytest.raises(OSError, match="larger than the limit"):
        trees.copy(os.open(source, os.O_RDONLY), str(tmp_path / "small"), 999)
    trees.copy(os.open(source, os.O_RDONLY), str(tmp_path / "large"), 1000)


def test_few_entries_are_few(tmp_path):
    """Counting stops at the number that was asked for."""
    for place in range(5):
        (tmp_path / str(place)).touch()

    assert (trees.small(str(tmp_path), 5), trees.small(str(tmp_path), 4)) == (True, False)
