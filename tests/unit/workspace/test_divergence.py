"""A folder that is not as it was when the run began is told from one that is, and left alone."""

import os

import pytest

from tests.unit.workspace.bringing import Thing, Tree, fill, link, planned, program, ran, seen
from tipstaff.model.changes import FILE
from tipstaff.workspace.apply.choosing import plan_apply
from tipstaff.workspace.apply.divergence import account, present
from tipstaff.workspace.beneath import Beneath

WAS: Tree = {b"file": Thing(b"was\n"), b"folder/inner": Thing(b"inner\n"), b"pointer": link(b"file")}
BECOMES: Tree = {**WAS, b"file": Thing(b"becomes\n"), b"new": Thing(b"new\n"), b"under/new": Thing(b"new too\n")}


def kinds(folder) -> dict[bytes, str]:
    """Say what stands in the way of a change, by name."""
    return {one.name: one.here.kind for one in planned(ran(WAS, BECOMES), folder).conflicts}


def test_a_folder_that_is_as_it_was_has_no_conflicts(tmp_path):
    """Nothing stands in the way in the folder that the run began from, whatever else was changed there."""
    folder = fill(tmp_path / "target", {**WAS, b"another": Thing(b"mine"), b"pointer": link(b"another")})

    assert kinds(folder) == {}


@pytest.mark.parametrize(
    ("instead", "found"),
    [
        ({b"file": Thing(b"edited\n")}, {b"file": "file"}),
        ({b"file": program(b"was\n")}, {b"file": "file"}),
        ({b"file": link(b"/etc/passwd")}, {b"file": "link"}),
        ({b"file/in": Thing(b"x")}, {b"file": "folder"}),
        ({b"new": Thing(b"mine\n")}, {b"new": "file"}),
        ({b"new/in": Thing(b"x")}, {b"new": "folder"}),
        ({b"under": Thing(b"a file\n")}, {b"under/new": "blocked"}),
        ({b"under": link(b"folder")}, {b"under/new": "blocked"}),
    ],
)
def test_what_is_different_is_a_conflict(tmp_path, instead, found):
    """Other content, another type, a file that gained rights to run, and a link or file where a folder should be."""
    rest = {name: thing for name, thing in WAS.items() if not any(one.startswith(name) for one in instead)}

    assert kinds(fill(tmp_path / "target", {**rest, **instead})) == found


def test_a_missing_file_is_a_conflict(tmp_path):
    """A file that the run changed and that is gone here is a conflict; one that it deleted, too, is not."""
    folder = fill(tmp_path / "target", {})

    assert kinds(folder) == {b"file": "nothing"}
    assert planned(ran(WAS, {}), folder).conflicts == []


def test_a_pipe_is_a_conflict_and_nobody_waits_for_it(tmp_path):
    """A FIFO in the place of the file is told without being opened."""
    folder = fill(tmp_path / "target", {})
    os.mkfifo(folder / "file")

    assert kinds(folder) == {b"file": "other"}


def test_what_a_umask_does_is_no_conflict(tmp_path):
    """Rights of a group and of others do not count."""
    assert kinds(fill(tmp_path / "target", {**WAS, b"file": Thing(b"was\n", FILE | 0o600)})) == {}


def test_looking_changes_nothing(tmp_path):
    """A plan leaves no trace in the folder."""
    folder = fill(tmp_path / "target", WAS)

    planned(ran(WAS, BECOMES), folder)

    assert seen(folder) == WAS


@pytest.mark.parametrize(
    ("here", "stands_in_the_way"), [(WAS[b"file"], True), (Thing(b"mine\n"), True), (BECOMES[b"file"], False)]
)
def test_what_was_edited_while_the_run_went_on_is_a_conflict(tmp_path, here, stands_in_the_way):
    """Such a file fits only when it is as the run left it: that it is as the record says means nothing."""
    folder = fill(tmp_path / "target", {**WAS, b"file": here})
    with Beneath(folder) as target:
        plan = plan_apply(ran(WAS, BECOMES).changes, target, edited={b"file"})

    assert [one.name for one in plan.conflicts] == [b"file"] * stands_in_the_way
    assert [step.name for step in plan.steps] == [b"new", b"under/new"]


def test_what_was_not_edited_is_none(tmp_path):
    """The twin: an edit of another name stands in nobody's way."""
    with Beneath(fill(tmp_path / "target", WAS)) as target:
        assert plan_apply(ran(WAS, BECOMES).changes, target, edited={b"folder/inner"}).conflicts == []


def test_a_conflict_with_an_unknown_beginning_says_so(tmp_path):
    """The account does not pretend to know what was there before the run."""
    with Beneath(fill(tmp_path / "target", WAS)) as target:
        (conflict,) = plan_apply(ran(WAS, BECOMES).changes, target, edited={b"file"}).conflicts

    assert account(conflict)[1] == "  before the run: not known: it was edited here while the run went on"


def test_links_are_not_followed(tmp_path):
    """A link to a file is a link, whatever it leads to."""
    folder = fill(tmp_path / "target", {b"real": Thing(b"was\n"), b"file": link(b"real")})

    with Beneath(folder) as target:
        assert present(target, b"file").kind == "link"


def test_a_conflict_is_told_three_ways(tmp_path):
    """The account of a conflict has the name, what was, what is here, and what the run made."""
    folder = fill(tmp_path / "target", {**WAS, b"file": program(b"edited here\n")})

    lines = account(planned(ran(WAS, BECOMES), folder).conflicts[0])

    assert [line.partition(", sha256")[0] for line in lines] == [
        "file",
        "  before the run: 4 bytes",
        "  here now:       executable, 12 bytes",
        "  after the run:  8 bytes",
    ]
