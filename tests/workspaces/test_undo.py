"""What was brought can be taken away: after minutes, after a crash, and never over what somebody did since."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.workspace.bringing import BECOMES, RUN, WAS, Thing, bring, fill, planned, ran, revert, seen
from tipstaff.errors import BusyError, InputError, RefusedError, StoreError
from tipstaff.workspace.apply.choosing import Selection, plan_apply
from tipstaff.workspace.apply.divergence import DivergedError
from tipstaff.workspace.apply.undo import forget_missing, held, is_recorded, refuse_hazards
from tipstaff.workspace.apply.writing import NotAppliedError
from tipstaff.workspace.beneath import Beneath

# Ends itself in the middle of the moves, as a machine does that loses power.
CUT_SHORT = """
import os, signal, sys
from pathlib import Path
from tests.unit.workspace.bringing import BECOMES, WAS, bring, ran, revert
from tipstaff.workspace.apply import writing

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


@pytest.mark.parametrize("which", ["apply", "revert"])
def test_wherever_a_process_dies_the_folder_is_whole_again(root, tmp_path, which):
    """Killed at any name that it looks up, an apply or a revert leaves what the next process can put right."""
    words = [sys.executable, "-m", "tests.unit.workspace.cutting", which, str(tmp_path)]
    done = subprocess.run(words, cwd=root, check=True, timeout=60, capture_output=True)

    rooms = [tmp_path / str(number + 1) for number in range(int(done.stdout))]
    assert len(rooms) > 20
    for room in rooms[:-1]:
        recover(room)
        assert seen(room / "target") in ((WAS,) if which == "apply" else (WAS, BECOMES)), room.name
    assert seen(rooms[-1] / "target") == (BECOMES if which == "apply" else WAS)


def test_a_process_that_dies_while_contents_are_laid_beside_has_changed_nothing(tmp_path):
    """Before the first name changes, no name of the folder has changed, and what was begun goes away."""
    folder, run = fill(tmp_path / "target", WAS), ran(WAS, BECOMES)
    left = iter((run.contents(b"a"),))

    with pytest.raises(StopIteration):
        bring(run._replace(contents=lambda _: next(left)), folder, tmp_path)  # type: ignore[arg-type]  # it gives contents too

    assert seen(folder) == WAS
    assert not (tmp_path / "applied").exists()


def test_what_cannot_be_taken_back_is_named_and_kept(tmp_path):
    """Where somebody's new file is in the way back, it stays, the old one is kept, and a later try puts it right."""
    folder, run = fill(tmp_path / "target", WAS), ran(WAS, {b"a": WAS[b"a"], b"b": Thing(b"is b\n")})
    with Beneath(folder) as target:
        plan = plan_apply(run.changes, target)

    with Meddled(folder) as target, held(tmp_path / "applied", RUN, str(folder)) as record:
        target.at = b"b"
        with pytest.raises(NotAppliedError, match="could not be taken back for c/d; what was there lies in") as failed:
            record.bring(target, plan.steps, run.contents)

    assert failed.value.left == (b"c/d",)
    assert (folder / "c" / "d").read_bytes() == b"mine\n"
    with pytest.raises(DivergedError, match="nothing was undone; the old contents are in"):
        recover(tmp_path)
    (folder / "c" / "d").unlink()
    (folder / "b").write_bytes(WAS[b"b"].content)
    assert recover(tmp_path)
    assert seen(folder) == WAS


class Meddled(Beneath):
    """A folder in which somebody puts a file and saves another, at the worst time: when a name is to be moved."""

    at = b""

    def place(self, name: bytes, *, make: bool = False) -> tuple[int, bytes]:
        """Look up a name; before `at`, once the deleted file is gone, meddle."""
        gone = Path(f"/proc/self/fd/{self.descriptor}") / "c" / "d"
        if name == self.at and not gone.exists():
            gone.parent.mkdir(exist_ok=True)
            gone.write_bytes(b"mine\n")
            (gone.parent.parent / "b").write_bytes(b"mine too\n")
            self.at = b""
        return super().place(name, make=make)


@pytest.mark.parametrize("known", [True, False])
def test_records_of_runs_that_are_gone_are_forgotten(tmp_path, known):
    """The record of a run that is not known any more goes, with the old contents in it; that of a known one stays."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)

    forgotten = forget_missing(tmp_path / "applied", lambda run_id: known and run_id == RUN)

    assert forgotten == (0 if known else 1)
    assert (tmp_path / "applied").exists() is known
    assert seen(folder) == BECOMES


def test_records_that_are_needed_are_not_forgotten(root, tmp_path):
    """A record that is held, or that was cut short, stays, though its run is gone."""
    folder = fill(tmp_path / "target", WAS)
    cut_short(root, tmp_path, 2)
    assert forget_missing(tmp_path / "applied", lambda _: False) == 0
    assert recover(tmp_path)
    with held(tmp_path / "applied", RUN, str(folder)):
        assert forget_missing(tmp_path / "applied", lambda _: False) == 0
    assert forget_missing(tmp_path / "applied", lambda _: False) == 1
    assert forget_missing(tmp_path / "applied", lambda _: False) == 0


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


@pytest.mark.parametrize("name", ["../repository/doc", "/srv/doc", "run_1", "", RUN + "/..", RUN + "\n"])
def test_only_a_whole_id_names_a_record(tmp_path, name):
    """A run id that is a path, or no id, finds no record, holds none and makes no folder; a whole one does."""
    for act in (
        lambda: is_recorded(tmp_path / "applied", name, "/x"),
        held(tmp_path / "applied", name, "/x").__enter__,
    ):
        with pytest.raises(InputError, match="is not the id of a run"):
            act()

    assert not (tmp_path / "applied").exists()
    assert not is_recorded(tmp_path / "applied", RUN, "/x")


@pytest.mark.parametrize("state", ["applied", "applying"])
@pytest.mark.parametrize("same", [True, False])
def test_a_record_of_another_folder_is_not_believed(tmp_path, state, same):
    """A record that speaks of another folder than the one at hand undoes nothing in it; its own, it does."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, BECOMES), folder, tmp_path)
    rewrite(tmp_path, lambda told: {**told, **unfinished(told, state), "target": told["target"] if same else "/other"})
    undo = revert if state == "applied" else lambda _, home: recover(home)

    if same:
        undo(folder, tmp_path)
    else:
        with pytest.raises(StoreError, match="is of /other, and not of"):
            undo(folder, tmp_path)

    assert seen(folder) == (WAS if same else BECOMES)


def rewrite(room: Path, change) -> None:
    """Change what a record says."""
    (path,) = (room / "applied").rglob("record.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def unfinished(told, state):
    """Say that a record was left half-way."""
    return {"state": "applying", "pending": told["steps"], "steps": []} if state == "applying" else {}


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", "sub/.GIT/config", "plain/file"])
@pytest.mark.parametrize("state", ["applied", "applying"])
def test_nothing_is_put_into_a_git_directory(tmp_path, name, state):
    """A record that speaks of a git directory is not ours, and none of it is done; any other name is put back."""
    folder = fill(tmp_path / "target", WAS)
    bring(ran(WAS, {**WAS, b"a": Thing(b"is a\n")}), folder, tmp_path)

    def forged(told):
        (step,) = told["steps"]
        more = {**told, "steps": [step, {**step, "path": name, "status": "deleted", "contentHash": "0" * 64}]}
        return {**more, **unfinished(more, state)}

    rewrite(tmp_path, forged)
    undo = revert if state == "applied" else lambda _, home: recover(home)

    if ".git" in name.lower():
        with pytest.raises(StoreError, match="in a git directory"):
            undo(folder, tmp_path)
    else:
        undo(folder, tmp_path)

    assert (folder / name).exists() is (".git" not in name.lower())


ENVRC = {**WAS, b".envrc": Thing(b"export OLD=1\n")}


@pytest.mark.parametrize("agreed", ["before", "now", "never"])
@pytest.mark.parametrize("cut", [True, False])
def test_a_hazard_is_put_back_only_if_somebody_agrees(tmp_path, agreed, cut):
    """What the host would obey comes back where that was agreed to when it was brought, or is now; else it does not."""
    folder = fill(tmp_path / "target", ENVRC)
    run = ran(ENVRC, {**WAS, b".envrc": Thing(b"export NEW=1\n")})
    with Beneath(folder) as target, held(tmp_path / "applied", RUN, str(folder)) as record:
        plan = plan_apply(run.changes, target)
        record.bring(target, plan.steps, run.contents, [b".envrc"] if agreed == "before" else [])
    if cut:
        rewrite(tmp_path, lambda told: {**told, **unfinished(told, "applying")})

    def undo(ask) -> None:
        with Beneath(folder) as target, held(tmp_path / "applied", RUN, str(folder)) as record:
            (record.recover if cut else record.revert)(target, ask)

    asked: list[bytes] = []
    if agreed == "never":
        with pytest.raises(RefusedError, match=r"obey \.envrc later"):
            undo(refuse_hazards)
    else:
        undo(lambda hazards: asked.extend(one.name for one in hazards))

    assert asked == ([b".envrc"] if agreed == "now" else [])
    assert (seen(folder) == ENVRC) is (agreed != "never")
