"""What was brought can be taken away: after minutes, after a crash, and never over what somebody did since."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.workspace.bringing import BECOMES, RUN, WAS, bring, fill, planned, ran, revert, seen
from tipstaff.errors import BusyError, StoreError
from tipstaff.workspace.apply import Selection
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.divergence import DivergedError
from tipstaff.workspace.undo import held, is_recorded

# Ends itself in the middle of the moves, as a machine does that loses power.
CUT_SHORT = """
import os, signal, sys
from pathlib import Path
from tests.unit.workspace.bringing import BECOMES, WAS, bring, ran, revert
from tipstaff.workspace import writing

moves, room, which = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def counted(real):
    def act(*places):
        global moves
        real(*places)
        moves -= 1
        if moves == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return act
writing.move, writing.exchange = counted(writing.move), counted(writing.exchange)
bring(ran(WAS, BECOMES), room / "target", room) if which == "apply" else revert(room / "target", room)
"""


def cut_short(root: Path, room: Path, moves: int, which: str = "apply") -> None:
    """Bring or revert in a process that dies after so many moves."""
    words = [sys.executable, "-c", CUT_SHORT, str(moves), str(room), which]
    done = subprocess.run(words, cwd=root, check=False, timeout=60, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def recover(room: Path) -> bool:
    """Do what the next apply does first."""
    with Beneath(room / "target") as target, held(room / "applied", RUN, str(room / "target")) as record:
        return record.recover(target)


@pytest.mark.parametrize("moves", [1, 2, 3, 4])
def test_an_apply_that_was_killed_is_taken_back(root, tmp_path, moves):
    """Wherever a process dies, the next one finds out and brings the folder back to what it was."""
    folder = fill(tmp_path / "target", WAS)

    cut_short(root, tmp_path, moves)
    assert seen(folder) != WAS

    assert recover(tmp_path)
    assert seen(folder) == WAS


@pytest.mark.parametrize("moves", [1, 2, 3, 4])
def test_a_revert_that_was_killed_is_finished(root, tmp_path, moves):
    """A revert that was cut short is carried on by the next."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)

    cut_short(root, tmp_path, moves, "revert")

    assert recover(tmp_path)
    assert seen(folder) == WAS


def test_after_a_crash_what_somebody_changed_is_kept(root, tmp_path):
    """A file that was edited after the crash is not written over: it is named, and nothing is touched."""
    folder = fill(tmp_path / "target", WAS)
    cut_short(root, tmp_path, 2)
    (folder / "a").write_bytes(b"mine\n")
    before = seen(folder)

    with pytest.raises(DivergedError) as caught:
        recover(tmp_path)

    assert [conflict.name for conflict in caught.value.conflicts] == [b"a"]
    assert seen(folder) == before


def test_a_whole_apply_is_not_recovered(tmp_path):
    """A record that says applied is left as it is."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)

    assert not recover(tmp_path)
    assert seen(folder) == BECOMES


def test_reverting_what_was_edited_since_is_refused(tmp_path):
    """A name that is no longer as apply left it stops the whole revert."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)
    (folder / "a").write_bytes(b"worked on since\n")
    before = seen(folder)

    with pytest.raises(DivergedError, match="nothing was undone") as caught:
        revert(folder, tmp_path)

    assert [conflict.name for conflict in caught.value.conflicts] == [b"a"]
    assert seen(folder) == before


def test_what_was_brought_in_parts_is_undone_together(tmp_path):
    """Two applies of one run are one record: a revert takes both away."""
    folder = fill(tmp_path / "target", WAS)
    run = ran(WAS, BECOMES)
    bring(run, folder, tmp_path, Selection(only=(b"a", b"n")))
    bring(run, folder, tmp_path)
    assert seen(folder) == BECOMES

    revert(folder, tmp_path)

    assert seen(folder) == WAS


def test_it_can_be_brought_again(tmp_path):
    """After a revert the same change fits again."""
    folder = fill(tmp_path / "target", WAS)
    for _ in range(2):
        bring(ran(WAS, BECOMES), folder, tmp_path)
        assert seen(folder) == BECOMES
        revert(folder, tmp_path)
        assert seen(folder) == WAS


def test_folders_that_were_there_stay(tmp_path):
    """A revert removes the folders that apply made, and no empty folder of somebody else."""
    folder = fill(tmp_path / "target", WAS)
    (folder / "n").mkdir()

    bring(ran(WAS, BECOMES), folder, tmp_path)
    revert(folder, tmp_path)

    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c", "n"]
    assert list((folder / "n").iterdir()) == []


def test_folders_get_their_rights_back(tmp_path):
    """A folder that was left empty, removed and made again has the rights that it had."""
    folder = fill(tmp_path / "target", WAS)
    (folder / "c").chmod(0o750)

    bring(ran(WAS, BECOMES), folder, tmp_path)
    revert(folder, tmp_path)

    assert (folder / "c").stat().st_mode & 0o7777 == 0o750


def test_two_at_once_are_refused(tmp_path):
    """While one process holds the record, another is told to wait; afterwards it may."""
    with held(tmp_path / "applied", RUN, "/somewhere"), pytest.raises(BusyError):
        held(tmp_path / "applied", RUN, "/somewhere").__enter__()
    with held(tmp_path / "applied", RUN, "/somewhere"):
        pass


def test_looking_leaves_no_record(tmp_path):
    """Whoever only holds a record leaves none."""
    with held(tmp_path / "applied", RUN, "/somewhere"):
        pass

    assert not (tmp_path / "applied").exists()


def test_old_contents_are_private(tmp_path):
    """What was replaced is kept for the user alone."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)

    kept = [path for path in (tmp_path / "applied").rglob("*") if path.name != "lock"]
    assert len(kept) > 3
    assert {path.stat().st_mode & 0o077 for path in kept if path.is_file() or path.name == "old"} == {0}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"target": 1}', b'{"target": "x", "steps": [{}]}', b"\xff"])
def test_a_damaged_record_is_an_error(tmp_path, content):
    """A record that cannot be read is told, and nothing is undone by guess."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)
    next((tmp_path / "applied").rglob("record.json")).write_bytes(content)

    with pytest.raises(StoreError, match="cannot be read"):
        revert(folder, tmp_path)

    assert seen(folder) == BECOMES


def test_a_damaged_old_content_is_an_error(tmp_path):
    """An old content with another digest is not put back, and nothing else is."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)
    for path in (tmp_path / "applied").rglob("old/*"):
        path.write_bytes(b"damaged")

    with pytest.raises(StoreError, match="damaged"):
        revert(folder, tmp_path)

    assert seen(folder) == BECOMES
    assert is_recorded(tmp_path / "applied", RUN, str(folder))


def test_each_folder_has_its_own_record(tmp_path):
    """A run that was brought into two folders is taken from one of them only."""
    one, other = fill(tmp_path / "one", WAS), fill(tmp_path / "other", WAS)
    for folder in (one, other):
        bring(ran(WAS, BECOMES), folder, tmp_path)

    revert(one, tmp_path)

    assert (seen(one), seen(other)) == (WAS, BECOMES)


def test_a_plan_after_a_crash_sees_the_staging_folder_gone(root, tmp_path):
    """Recovering removes the folder in which new contents were laid."""
    folder = fill(tmp_path / "target", WAS)
    cut_short(root, tmp_path, 1)
    assert list(folder.glob(".tipstaff-apply-*")) != []

    recover(tmp_path)

    assert list(folder.glob(".tipstaff-apply-*")) == []
    assert planned(ran(WAS, BECOMES), folder).conflicts == []
