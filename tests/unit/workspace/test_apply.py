"""What is chosen of a run's changes, how it is planned, and how it is written: all of it or nothing."""

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.unit.workspace.bringing import Thing, Tree, bring, fill, link, planned, program, ran, revert, seen
from tipstaff.errors import InputError, TipstaffError, UsageError
from tipstaff.model.changes import FILE, Change
from tipstaff.workspace.apply.choosing import Selection, choose, is_in_git
from tipstaff.workspace.apply.contents import Contents
from tipstaff.workspace.apply.divergence import DivergedError
from tipstaff.workspace.apply.writing import Folders, NotAppliedError, Step, write
from tipstaff.workspace.beneath import Beneath

WAS: Tree = {
    b"keep": Thing(b"untouched\n"),
    b"edit": Thing(b"one\ntwo\n"),
    b"gone": Thing(b"bye\n"),
    b"deep/er/gone": Thing(b"bye too\n"),
    b"tool": Thing(b"#!/bin/sh\n"),
    b"pointer": link(b"edit"),
    b"turns": Thing(b"a file\n"),
    b"fold/inner": Thing(b"in a folder\n"),
    b"a name\nwith \xff": Thing(b"odd\n"),
}
BECOMES: Tree = {
    b"keep": Thing(b"untouched\n"),
    b"edit": Thing(b"one\n2\n"),
    b"new/folder/file": Thing(b"hello\n"),
    b"tool": program(b"#!/bin/sh\n"),
    b"pointer": link(b"keep"),
    b"turns/into": Thing(b"a folder\n"),
    b"fold": Thing(b"a file now\n"),
    b"a name\nwith \xff": Thing(b"odder\n"),
    b"empty": Thing(b""),
}


def test_everything_is_brought(tmp_path):
    """Added, changed, deleted, re-moded files, links, and files that become folders are brought as they are."""
    folder = fill(tmp_path / "target", WAS)

    bring(ran(WAS, BECOMES), folder, tmp_path)

    assert seen(folder) == BECOMES


def test_bringing_and_reverting_leaves_what_was(tmp_path):
    """After --revert the folder is as it was, and only a note is left of the record."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)

    revert(folder, tmp_path)

    assert seen(folder) == WAS
    assert sorted(path.name for path in (tmp_path / "applied").rglob("*") if path.is_file()) == ["lock", "record.json"]


@settings(max_examples=25)  # each waits for the disk
@given(
    was=some.dictionaries(some.sampled_from([b"a", b"b", b"c/a", b"c/b", b"d/e/f"]), some.binary(max_size=3)),
    becomes=some.dictionaries(some.sampled_from([b"a", b"b", b"c/a", b"c/b", b"d/e/f"]), some.binary(max_size=3)),
)
def test_any_change_comes_and_goes(tmp_path_factory, was, becomes):
    """Whatever two trees are, the change between them brings the second, and reverting the first."""
    room = tmp_path_factory.mktemp("any")
    before, after = ({name: Thing(content) for name, content in tree.items()} for tree in (was, becomes))
    folder = fill(room / "target", before)

    bring(ran(before, after), folder, room)
    assert seen(folder) == after

    revert(folder, room)
    assert seen(folder) == before


def test_what_is_there_already_is_left_alone(tmp_path):
    """Bringing a change twice finds nothing to do the second time."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, BECOMES)
    bring(run, folder, tmp_path)

    plan = planned(run, folder)

    assert (plan.steps, plan.conflicts) == ([], [])
    assert len(plan.done) == len(run.changes)


def test_the_folders_own_rights_stay(tmp_path):
    """A file that was private here stays private when a run changes its content only."""
    folder = fill(tmp_path / "target", {b"edit": Thing(b"one\ntwo\n", FILE | 0o600)})

    bring(ran({b"edit": WAS[b"edit"]}, {b"edit": BECOMES[b"edit"]}), folder, tmp_path)

    assert seen(folder) == {b"edit": Thing(b"one\n2\n", FILE | 0o600)}


def test_a_new_file_is_not_open_to_everybody(tmp_path):
    """Rights that the umask would take are taken from what a run made, too."""
    folder = fill(tmp_path / "target", {})

    bring(ran({}, {b"shared": Thing(b"", FILE | 0o777)}), folder, tmp_path)

    assert seen(folder) == {b"shared": Thing(b"", FILE | 0o755)}


def test_only_what_is_asked_for_is_brought(tmp_path):
    """The option --only takes names and folders, and leaves the others."""
    folder = fill(tmp_path / "target", WAS)

    bring(ran(WAS, BECOMES), folder, tmp_path, Selection(only=(b"new", b"edit")))

    assert seen(folder) == {**WAS, b"edit": BECOMES[b"edit"], b"new/folder/file": Thing(b"hello\n")}


def test_a_wish_that_fits_nothing_is_an_error():
    """A wish by --only with a name that the run did not change is told, and not taken for nothing."""
    with pytest.raises(UsageError, match="changed nothing that is called fol"):
        choose(ran(WAS, BECOMES).changes, Selection(only=(b"fol",)))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"redacted": True}, "never written with the mask"),
        ({"withheld": "it is a device"}, "it is a device"),
        ({"ignored": True}, "ignores it"),
        ({"kept": False}, "not kept"),
    ],
)
def test_what_is_never_written_is_named(flags, why):
    """A change that lost a secret, was withheld, is ignored or was not kept is skipped with its reason."""
    change = Change(b"edit", WAS[b"edit"].side, BECOMES[b"edit"].side, kept=True)._replace(**flags)

    chosen = choose([change])

    assert chosen.changes == []
    assert why in chosen.skipped[0].why


def test_ignored_changes_come_when_asked_for():
    """With --ignored comes what the repository ignores."""
    run = ran({}, {b"out.log": Thing(b"x")}, ignored=True)

    assert choose(run.changes, Selection(ignored=True)).changes == run.changes


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        (b".git/config", True),
        (b".GIT/hooks/x", True),
        (b"a/.git/x", True),
        (b".git", True),
        (b".git./x", True),
        (b".git /x", True),
        (b"git~1/x", True),
        (".g\u200cit/x".encode(), True),
        (b".git::$INDEX_ALLOCATION/config", True),
        (b".gitignore", False),
        (b"git/x", False),
        (b"a.git/x", False),
    ],
)
def test_git_directories_are_known_in_every_spelling(name, inside):
    """What any file system takes for a .git is never brought; what only looks like it is."""
    assert is_in_git(name) is inside


@pytest.mark.parametrize(
    "names",
    [[b"a", b"a"], [b"out", b"out/x"], [b"../x"], [b"/etc/x"], [b"a//b"], [b"a/./b"], [b""], [b"a\0b"]],
)
def test_changes_that_cannot_be_are_refused(names):
    """One name twice, a name beneath a file or a link, and names that lead out are refused before all else."""
    with pytest.raises(InputError):
        choose([Change(name, None, Thing(b"x").side, kept=True) for name in names])


def test_contents_that_lie_are_not_given_out():
    """Bytes with another digest than the signed one, or of another length, are refused."""
    changes = ran({}, {b"a": Thing(b"true")}).changes

    assert bytes(Contents(changes, b"true")(b"a")) == b"true"
    with pytest.raises(InputError, match="not what the run's events speak of"):
        Contents(changes, b"lies")(b"a")
    with pytest.raises(InputError, match="3 bytes"):
        Contents(changes, b"lie")


def test_a_lie_found_late_leaves_nothing(tmp_path):
    """A content that turns out wrong while it is staged leaves folder and record as they were."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, BECOMES)
    wrong = run._replace(contents=Contents(run.changes, b"x" * sum(len(one.content) for one in _changed())))

    with pytest.raises(InputError):
        bring(wrong, folder, tmp_path)

    assert seen(folder) == WAS
    assert not (tmp_path / "applied").exists()


def _changed() -> list[Thing]:
    return [BECOMES[name] for name in BECOMES if WAS.get(name) != BECOMES[name]]


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path):
    """When new contents cannot be staged, nothing has changed, and the error says so."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, {**WAS, b"big": Thing(b"x" * 100_000), b"edit": Thing(b"other\n")})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(NotAppliedError, match="nothing was changed"):
            bring(run, folder, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert seen(folder) == WAS
    assert not (tmp_path / "applied").exists()


def test_a_step_that_fails_takes_the_others_back(tmp_path):
    """When one name cannot be written, those before it are put back, folders too."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, BECOMES)
    plan = planned(run, folder)
    (folder / "turns").rename(folder / "elsewhere")

    with Beneath(folder) as target, pytest.raises(DivergedError, match="turns was changed"):
        write(target, plan.steps, run.contents, b".tipstaff-apply-0", Folders())

    (folder / "elsewhere").rename(folder / "turns")
    assert seen(folder) == WAS


@pytest.mark.only_if(os.geteuid() != 0, "root writes into every folder")
@pytest.mark.parametrize("closed", ["", "deep/er", "fold"])
def test_a_read_only_folder_is_an_error_that_changes_nothing(tmp_path, closed):
    """A folder that cannot be written, first or last, rolls everything back; open again, it takes everything."""
    folder = fill(tmp_path / "target", WAS)
    (folder / closed).chmod(0o555)
    try:
        with pytest.raises(NotAppliedError, match="Permission denied: nothing was changed"):
            bring(ran(WAS, BECOMES), folder, tmp_path)
    finally:
        (folder / closed).chmod(0o755)

    assert seen(folder) == WAS
    bring(ran(WAS, BECOMES), folder, tmp_path)
    assert seen(folder) == BECOMES


def test_a_read_only_file_is_replaced_and_stays_read_only(tmp_path):
    """As with git, a file's rights keep nobody from replacing it in a folder of their own; they stay as they are."""
    was: Tree = {b"edit": Thing(b"one\n", FILE | 0o444), b"gone": Thing(b"x", FILE | 0o400)}
    folder = fill(tmp_path / "target", was)

    bring(ran(was, {b"edit": Thing(b"two\n", FILE | 0o444)}), folder, tmp_path)
    assert seen(folder) == {b"edit": Thing(b"two\n", FILE | 0o444)}

    revert(folder, tmp_path)
    assert seen(folder) == was


@pytest.mark.only_if(os.geteuid() != 0, "root reads every file")
def test_a_file_that_cannot_be_read_is_an_error_that_changes_nothing(tmp_path):
    """What cannot be compared with what was there is not written over."""
    folder = fill(tmp_path / "target", WAS)
    (folder / "edit").chmod(0)
    try:
        with pytest.raises((OSError, TipstaffError), match="Permission denied"):
            bring(ran(WAS, BECOMES), folder, tmp_path)
    finally:
        (folder / "edit").chmod(0o644)

    assert seen(folder) == WAS


@pytest.mark.only_if(os.geteuid() == 0, "only root gives files away")
def test_root_leaves_files_to_their_owner(tmp_path):
    """What root brings into somebody's folder belongs to them."""
    folder = fill(tmp_path / "target", {b"edit": WAS[b"edit"]})
    for path in (folder, folder / "edit"):
        os.chown(path, 1234, 1235)

    bring(ran({b"edit": WAS[b"edit"]}, {b"edit": Thing(b"x"), b"a/b": Thing(b"y")}), folder, tmp_path)

    owners = {(path.stat().st_uid, path.stat().st_gid) for path in folder.rglob("*")}
    assert owners == {(1234, 1235)}


def test_a_file_replaced_in_the_meantime_is_kept(tmp_path):
    """A file that somebody saved between check and write is not lost: the writing is taken back."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, BECOMES)
    plan = planned(run, folder)
    (folder / "edit").write_bytes(b"saved just now\n")

    with Beneath(folder) as target, pytest.raises(DivergedError):
        write(target, plan.steps, run.contents, b".tipstaff-apply-0", Folders())

    assert seen(folder) == {**WAS, b"edit": Thing(b"saved just now\n")}


def test_a_file_that_appears_in_the_meantime_is_kept(tmp_path):
    """A new file is never written over one that was put there between check and write."""
    folder = fill(tmp_path / "target", {})
    run = ran({}, {b"note": Thing(b"from the run\n")})
    (folder / "note").write_bytes(b"mine\n")

    with Beneath(folder) as target, pytest.raises(DivergedError):
        write(target, [Step(b"note", None, run.changes[0].after)], run.contents, b".tipstaff-apply-0", Folders())

    assert seen(folder) == {b"note": Thing(b"mine\n")}


def test_hard_links_elsewhere_are_not_written_through(tmp_path):
    """A file that has another name outside the folder is replaced, and the other name keeps content and rights."""
    folder = fill(tmp_path / "target", {b"tool": WAS[b"tool"]})
    outside = Path(tmp_path / "outside")
    outside.hardlink_to(folder / "tool")

    bring(ran({b"tool": WAS[b"tool"]}, {b"tool": program(b"#!/bin/sh\n")}), folder, tmp_path)

    assert seen(folder) == {b"tool": program(b"#!/bin/sh\n")}
    assert outside.stat().st_mode & 0o777 == 0o644
