"""Attacks on the person who brings a change back: a hostile run, a hostile runner, and a hostile program beside."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.meanwhile import meanwhile
from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import BECOMES, WAS, Thing, Tree, bring, fill, link, ran, seen
from tipstaff.doors.cli import main
from tipstaff.errors import TipstaffError
from tipstaff.model.changes import to_event


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home for the command line."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(tmp_path):
    """While a folder and a link to somewhere else change places all the time, nothing is ever written there."""
    outside = fill(tmp_path / "outside", {b"x": Thing(b"theirs\n")})
    was: Tree = {b"sub/x": Thing(b"was\n")}
    becomes: Tree = {b"sub/x": Thing(b"is\n"), b"sub/new": Thing(b"new\n")}
    folder = fill(tmp_path / "target", was)
    (folder / "link").symlink_to(outside)

    def swap() -> None:
        (folder / "sub").rename(folder / "aside")
        (folder / "link").rename(folder / "sub")
        (folder / "sub").rename(folder / "link")
        (folder / "aside").rename(folder / "sub")

    with meanwhile(swap):
        for _ in range(60):
            with suppress(TipstaffError, AssertionError):
                bring(ran(was, becomes), folder, tmp_path)
            assert seen(outside) == {b"x": Thing(b"theirs\n")}


def test_a_file_that_is_saved_all_the_time_is_never_lost(tmp_path):
    """While somebody saves the file all the time, what they saved last is there, and nothing of ours is left."""
    was: Tree = {b"x": Thing(b"was\n")}
    folder = fill(tmp_path / "target", was)
    number = iter(range(10**9))

    def save() -> None:
        (tmp_path / "saved").write_bytes(b"mine %d\n" % next(number))
        (tmp_path / "saved").rename(folder / "x")

    with meanwhile(save):
        for _ in range(30):
            with suppress(TipstaffError, AssertionError):
                bring(ran(was, {b"x": Thing(b"is\n")}), folder, tmp_path)

    assert (folder / "x").read_bytes().startswith(b"mine ")
    assert list(folder.glob(".tipstaff*")) == []


@pytest.mark.parametrize("name", [b"../x", b"/tmp/x", b"a/../../x", b"./x", b"a//x", b""])
def test_names_that_lead_out_are_refused(home, tmp_path, capfd, name):
    """A run whose events name something outside is refused whole."""
    folder = fill(tmp_path / "target", WAS)
    event = {"type": "file.changed", **to_event(ran({}, {b"x": Thing(b"y")}).changes[0]), "path": name.decode()}
    leave(home, folder, WAS, BECOMES, extra=[event])

    assert main(["apply", "last"]) == 65
    assert "is not the name of something in a folder" in capfd.readouterr().err
    assert seen(folder) == WAS


@pytest.mark.parametrize("name", [b".git/config", b".GIT/hooks/x", b"m/.git/x", b".git", b".git./hooks/x"])
def test_a_git_directory_is_never_written(home, tmp_path, capfd, name):
    """A runner that does not withhold what is beneath a .git is not believed: it is named, the rest is brought."""
    folder = fill(tmp_path / "target", WAS)
    leave(home, folder, WAS, {**BECOMES, name: Thing(b"evil\n")})

    assert main(["apply", "last"]) == 0
    assert f"not brought: {name.decode()}: it is part of a git directory" in capfd.readouterr().err
    assert seen(folder) == BECOMES


def test_a_link_and_something_beneath_it_are_refused(home, tmp_path):
    """A run that adds `out -> elsewhere` and `out/x` at once writes nothing at all."""
    outside = fill(tmp_path / "outside", {})
    folder = fill(tmp_path / "target", WAS)
    leave(home, folder, WAS, {**WAS, b"out": link(os.fsencode(outside)), b"out/x": Thing(b"evil")})

    assert main(["apply", "last", "--accept", "out"]) == 65
    assert (seen(folder), seen(outside)) == (WAS, {})


def test_two_words_about_one_name_are_refused(home, tmp_path, capfd):
    """Events that speak of one name twice are refused."""
    folder = fill(tmp_path / "target", WAS)
    twice = {"type": "file.changed", **to_event(ran(WAS, {**WAS, b"a": Thing(b"other\n")}).changes[0])}
    leave(home, folder, WAS, BECOMES, extra=[twice], contents=b"is a\nis b\nnew\nother\n")

    assert main(["apply", "last"]) == 65
    assert "speaks twice of 'a'" in capfd.readouterr().err
    assert seen(folder) == WAS


@pytest.mark.parametrize("contents", [b"IS A\nis b\nnew\n", b"is a\n", b"is a\nis b\nnew\nand more"])
def test_contents_that_lie_are_refused(home, tmp_path, contents):
    """A blob that does not hold what the events say, by digest or by length, is not written."""
    folder = fill(tmp_path / "target", WAS)
    leave(home, folder, WAS, BECOMES, contents=contents)

    assert main(["apply", "last"]) == 65
    assert seen(folder) == WAS
    assert not (home / "applied").exists()


def test_an_edited_event_is_found(home, tmp_path, capfd):
    """A chain that somebody changed in the database is no proof: the problems are listed, nothing is brought."""
    folder = fill(tmp_path / "target", WAS)
    leave(home, folder, WAS, BECOMES)
    (database,) = [path for path in home.iterdir() if path.suffix in {".db", ".sqlite", ".sqlite3"}]
    with sqlite3.connect(database) as connection:
        for run_id, seq, raw in list(connection.execute("SELECT run_id, seq, link FROM events")):
            said = msgspec.json.decode(raw)
            if said["event"].get("path") == "a":
                said["event"]["path"] = "b2"
                new = (msgspec.json.encode(said), run_id, seq)
                connection.execute("UPDATE events SET link = ? WHERE run_id = ? AND seq = ?", new)
    connection.close()

    assert main(["apply", "last"]) == 1
    assert "8. " in capfd.readouterr().err
    assert seen(folder) == WAS


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(home, tmp_path):
    """A FIFO where a file should be is a divergence, at once."""
    folder = fill(tmp_path / "target", {name: thing for name, thing in WAS.items() if name != b"a"})
    os.mkfifo(folder / "a")
    leave(home, folder, WAS, BECOMES)

    assert main(["apply", "last"]) == 1


def test_a_target_that_is_a_link_is_refused(home, tmp_path):
    """A folder that is named by way of a link is not written."""
    folder = fill(tmp_path / "target", WAS)
    (tmp_path / "link").symlink_to(folder)
    leave(home, tmp_path / "target", WAS, BECOMES)

    assert main(["apply", "last", "--to", str(tmp_path / "link")]) == 126
    assert seen(folder) == WAS
