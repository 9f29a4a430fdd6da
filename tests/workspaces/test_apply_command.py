"""`tipstaff apply`: what it brings, what it asks for, what it refuses, and that refusing changes nothing."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import BECOMES, WAS, Thing, Tree, fill, link, seen
from tipstaff.doors.cli import main

Json = dict[str, Any]
HAZARDOUS: Tree = {**WAS, b".envrc": Thing(b"evil\n"), b"pw": link(b"/etc/passwd")}


class Site(NamedTuple):
    """A home, and the folder that runs are started for."""

    home: Path
    folder: Path
    capfd: pytest.CaptureFixture[str]

    def said(self, *words: str) -> tuple[int, str, str]:
        """Run a command; gives exit code, stdout and stderr."""
        code = main(list(words))
        return (code, *self.capfd.readouterr())

    def json(self, *words: str) -> tuple[int, Json]:
        """Run a command with --json."""
        code, out, _ = self.said(*words, "--json")
        value: Json = json.loads(out)
        return code, value

    @property
    def left(self) -> list[str]:
        """What is left beside the folder's own files: staging folders and records."""
        return [str(path) for path in (*self.folder.glob(".tipstaff*"), *self.home.glob("applied/**/record.json"))]


@pytest.fixture
def site(tmp_path, monkeypatch, capfd) -> Site:
    """A home and a folder that is as every run here begins."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return Site(tmp_path / "home", fill(tmp_path / "folder", WAS), capfd)


def test_it_brings_and_takes_back(site):
    """A change is brought with a line for each name, is there already the second time, and goes with --revert."""
    leave(site.home, site.folder, WAS, BECOMES)

    code, out, _ = site.said("apply", "last")
    assert (code, out.splitlines()) == (0, ["M  a", "M  b", "D  c/d", "A  n/e/w"])
    assert seen(site.folder) == BECOMES
    assert "nothing to do" in site.said("apply", "last")[2]
    assert site.said("apply", "last", "--revert")[0] == 0
    assert seen(site.folder) == WAS
    assert "was reverted already" in site.said("apply", "last", "--revert")[2]


def test_reverting_what_was_never_applied_is_told(site):
    """Without an apply there is nothing to revert, and no record is made by asking."""
    leave(site.home, site.folder, WAS, BECOMES)

    code, _, err = site.said("apply", "last", "--revert")

    assert code == 64
    assert "was not applied" in err
    assert not (site.home / "applied").exists()


def test_a_dry_run_writes_nothing(site):
    """With --dry-run it tells the same as an apply, and changes nothing."""
    leave(site.home, site.folder, WAS, BECOMES)

    code, told = site.json("apply", "last", "--dry-run")

    assert (code, [one["path"] for one in told["applied"]]) == (0, ["a", "b", "c/d", "n/e/w"])
    assert (seen(site.folder), site.left) == (WAS, [])


def test_only_and_to(site, tmp_path):
    """With --only it takes a part, --to another folder, and each is undone where it was brought."""
    leave(site.home, site.folder, WAS, BECOMES)
    other = fill(tmp_path / "other", WAS)

    assert site.said("apply", "last", "--to", str(other), "--only", "./n/", "b")[0] == 0

    assert seen(site.folder) == WAS
    assert seen(other) == {**WAS, b"b": BECOMES[b"b"], b"n/e/w": BECOMES[b"n/e/w"]}
    assert site.said("apply", "last", "--revert")[0] == 64
    assert site.said("apply", "last", "--revert", "--to", str(other))[0] == 0
    assert seen(other) == WAS


def test_hazards_are_refused_without_a_terminal(site):
    """Where nobody can be asked, every hazard is named, nothing changes, and --accept is the way on."""
    leave(site.home, site.folder, WAS, HAZARDOUS)

    code, _, err = site.said("apply", "last")
    assert code == 126
    assert all(said in err for said in (".envrc: environment", "pw: link", "/etc/passwd", "--accept"))
    assert (seen(site.folder), site.left) == (WAS, [])
    assert site.said("apply", "last", "--accept", ".envrc")[0] == 126
    code, told = site.json("apply", "last")
    assert (code, [one["path"] for one in told["hazards"]]) == (126, [".envrc", "pw"])
    assert site.said("apply", "last", "--accept", ".envrc", "--accept", "pw")[0] == 0
    assert seen(site.folder) == HAZARDOUS


def test_what_the_host_would_obey_is_put_back_only_if_it_is_agreed_to(site):
    """A file that the host would obey, and that a run deleted, comes back by --revert only if it is accepted."""
    was: Tree = {**WAS, b".envrc": Thing(b"export OLD=1\n")}
    fill(site.folder, was)
    leave(site.home, site.folder, was, WAS)
    assert site.said("apply", "last")[0] == 0

    code, _, err = site.said("apply", "last", "--revert")
    assert (code, seen(site.folder)) == (126, WAS)
    assert "nothing was put back" in err
    assert site.said("apply", "last", "--revert", "--accept", ".envrc")[0] == 0
    assert seen(site.folder) == was


def test_accepting_what_is_not_in_the_change_is_an_error(site):
    """The option --accept counts only for names that the run changed."""
    leave(site.home, site.folder, WAS, HAZARDOUS)

    assert site.said("apply", "last", "--accept", ".npmrc")[0] == 64
    assert site.said("apply", "last", "--accept", "../.envrc")[0] == 64


def test_hazards_that_are_not_chosen_are_not_asked_for(site):
    """With --only and without the hazard, the rest is brought."""
    leave(site.home, site.folder, WAS, {**HAZARDOUS, b"note": Thing(b"x")})

    assert site.said("apply", "last", "--only", "note")[0] == 0


@pytest.mark.parametrize(("answers", "agreed"), [("y\ny\n", True), ("y\nn\n", False), ("\n", False), ("a\n", False)])
def test_a_person_is_asked_for_each(site, answers, agreed):
    """On a terminal every hazard is a question; one no, and nothing is brought."""
    leave(site.home, site.folder, WAS, HAZARDOUS)

    code, shown = on_a_terminal(answers, "apply", "last")

    assert (code == 0) is agreed
    assert shown.count("[y/N]") >= 1
    assert seen(site.folder) == (HAZARDOUS if agreed else WAS)
    assert (site.left == []) is not agreed


def test_names_cannot_play_tricks_at_the_question(site):
    """Control characters in a name are shown as escapes where a person is asked."""
    leave(site.home, site.folder, WAS, {**WAS, b"\x1b[2J\r.claude/x": Thing(b"x"), b"a\nb.pth": Thing(b"x")})

    _, shown = on_a_terminal("n\n", "apply", "last")

    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown or "a\\nb.pth" in shown


def on_a_terminal(answers: str, *words: str) -> tuple[int, str]:
    """Run the real program on a terminal, answering each question when it comes."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("tipstaff")), *words]
    started = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    try:
        shown = "".join(conversation(ours, answers.splitlines(keepends=True)))
        return started.wait(10), shown.replace("\r\n", "\n")
    finally:
        started.kill()
        started.wait()
        os.close(ours)


def conversation(terminal: int, answers: list[str]) -> Iterator[str]:
    """Read what is shown, and answer the questions; again where an answer came too early to count."""
    asked, end = 0, time.monotonic() + 30
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.3)[0]:
            os.write(terminal, answers[asked - 1].encode() if asked else b"")
            continue
        try:
            chunk = os.read(terminal, 4096).decode()
        except OSError:  # the other end is closed
            return
        yield chunk
        asked += chunk.count("[y/N]")


def test_a_folder_that_went_on_is_left_alone(site):
    """Divergence is told three ways, with lines of both sides, and changes nothing; a part may still fit."""
    was: Tree = {b"a": Thing(b"one\ntwo\nthree\n"), b"b": Thing(b"b\n")}
    becomes: Tree = {b"a": Thing(b"one\n2\nthree\n"), b"b": Thing(b"bb\n")}
    diff = b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    leave(site.home, site.folder, was, becomes, diff=diff)
    (site.folder / "a").write_bytes(b"one\ntwo\nthree\nfour\n")
    (site.folder / "b").write_bytes(b"b\n")
    before = seen(site.folder)

    code, _, err = site.said("apply", "last")

    assert code == 1
    lines = err.splitlines()
    assert [line.partition(", sha256")[0] for line in lines[:4]] == [
        "a",
        "  before the run: 14 bytes",
        "  here now:       19 bytes",
        "  after the run:  12 bytes",
    ]
    assert lines[4:7] == ["  here:    +four", "  the run: -two", "  the run: +2"]
    assert all(way in lines[-1] for way in ("--branch", "--only", "--to"))
    assert (seen(site.folder), site.left) == (before, [])
    code, told = site.json("apply", "last")
    assert (code, [one["path"] for one in told["conflicts"]]) == (1, ["a"])
    assert site.said("apply", "last", "--only", "b")[0] == 0


def test_what_was_edited_while_the_run_went_on_is_not_written_over(site):
    """Such a file is as the record says, and still refused, with what would become of it; the others can be had."""
    summary = {"files": 4, "edited": [{"path": "a"}]}
    leave(site.home, site.folder, WAS, BECOMES, summary=summary)

    code, _, err = site.said("apply", "last")

    assert code == 1
    lines = err.splitlines()
    assert lines[:2] == ["a", "  before the run: not known: it was edited here while the run went on"]
    assert lines[4:6] == ["  apply:   -was a", "  apply:   +is a"]
    assert "1 name was edited while the run went on: nothing was brought" in lines[-1]
    assert (seen(site.folder), site.left) == (WAS, [])
    told = site.json("apply", "last")[1]["conflicts"]
    assert [(one["path"], one["before"], one["unknown"]) for one in told] == [
        ("a", None, "it was edited here while the run went on")
    ]
    assert site.said("apply", "last", "--only", "b", "c", "n")[0] == 0
    assert seen(site.folder) == {**BECOMES, b"a": WAS[b"a"]}


def test_an_edit_of_what_the_run_did_not_change_is_no_matter(site):
    """The twin: a file that only the person edited, and one that is already as the run left it, stop nothing."""
    (site.folder / "a").write_bytes(BECOMES[b"a"].content)
    leave(site.home, site.folder, WAS, BECOMES, summary={"files": 4, "edited": [{"path": "a"}, {"path": "other"}]})

    assert site.said("apply", "last")[0] == 0
    assert seen(site.folder) == BECOMES


def test_names_with_a_blank_at_the_end_are_quoted(site):
    """A person sees where a name ends."""
    leave(site.home, site.folder, WAS, {**WAS, b"new ": Thing(b"x"), b"plain name": Thing(b"x")})

    assert site.said("apply", "last")[1].splitlines() == ["A  'new '", "A  plain name"]


def test_reverting_over_newer_work_is_refused(site):
    """A file that was edited after the apply stops the revert, with the same account."""
    leave(site.home, site.folder, WAS, BECOMES)
    site.said("apply", "last")
    (site.folder / "a").write_bytes(b"worked on\n")

    code, _, err = site.said("apply", "last", "--revert")

    assert code == 1
    assert "  here now:       10 bytes" in err
    assert (site.folder / "b").read_bytes() == b"is b\n"


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"redacted": True}, "a secret was in it: it is never written with the mask"),
        ({"withheld": "it is inside .git", "kept": False}, "it is inside .git"),
    ],
)
def test_what_never_comes_back_is_named(site, flags, why):
    """Masked and withheld changes are named and skipped."""
    leave(site.home, site.folder, WAS, {**WAS, b"a": Thing(b"masked\n")}, flags=flags)

    code, _, err = site.said("apply", "last")

    assert code == 0
    assert f"not brought: a: {why}" in err
    assert seen(site.folder) == WAS


def test_a_run_that_changed_nothing_is_told(site):
    """Nothing to bring is a clear sentence."""
    leave(site.home, site.folder, WAS, WAS)

    code, _, err = site.said("apply", "last")

    assert code == 64
    assert "changed nothing" in err


@pytest.mark.parametrize(
    ("files", "summary", "sentence"),
    [({"inPlace": True}, None, "worked in place"), ({}, {"problem": "it changed too much"}, "it changed too much")],
)
def test_a_run_whose_change_is_not_kept_is_told(site, files, summary, sentence):
    """A run in place, and one whose change was too large, say so."""
    leave(site.home, site.folder, WAS, BECOMES, files=files, summary=summary)

    code, _, err = site.said("apply", "last")

    assert code != 0
    assert sentence in err
    assert seen(site.folder) == WAS


def test_a_run_without_a_folder_needs_one(site):
    """A run that was started for no folder is brought only where --to says."""
    leave(site.home, None, {}, {b"made": Thing(b"x")})

    assert site.said("apply", "last")[0] == 64
    assert site.said("apply", "last", "--to", str(site.folder))[0] == 0
    assert (site.folder / "made").read_bytes() == b"x"


def test_our_own_home_is_no_target(site):
    """What a run changed is never written where keys and receipts lie."""
    leave(site.home, site.folder, WAS, BECOMES)

    assert site.said("apply", "last", "--to", str(site.home))[0] == 126


def test_a_branch_is_made_and_deleted(site):
    """With --branch it makes a commit and touches no file; --revert deletes it."""
    git = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.com",
        "-c",
        "safe.directory=*",
        "-C",
        str(site.folder),
    ]
    for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    run_id = leave(site.home, site.folder, WAS, BECOMES)

    assert site.said("apply", "last", "--branch", "agent/fix")[0] == 0

    listed = subprocess.run(
        [*git, "log", "--format=%s%n%b", "agent/fix", "-1"], check=True, capture_output=True, timeout=30
    )
    assert listed.stdout.decode().splitlines()[:3] == [
        "make test",
        f"Tipstaff-Run: {run_id}",
        listed_hash(listed.stdout),
    ]
    assert {name: thing for name, thing in seen(site.folder).items() if not name.startswith(b".git/")} == WAS
    assert site.said("apply", "last", "--branch", "agent/fix")[0] == 64
    assert "the branch agent/fix was deleted" in site.said("apply", "last", "--revert")[2]


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_branch_with_a_link_that_git_refuses_is_refused(site, dry):
    """A link in the place of .gitmodules is told in a sentence, also beforehand; without it the rest is taken."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "safe.directory=*"]
    for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, "-C", str(site.folder), *words], check=True, timeout=30)
    leave(site.home, site.folder, WAS, {**BECOMES, b".gitmodules": link(b"a")})

    code, _, err = site.said("apply", "last", "--branch", "x", "--accept", ".gitmodules", *dry)

    assert code == 126
    assert "--branch: .gitmodules is a link" in err
    assert site.said("apply", "last", "--branch", "x", "--only", "a", *dry)[0] == 0


def listed_hash(message: bytes) -> str:
    """Give the line of a message that names the contract."""
    return next(line for line in message.decode().splitlines() if line.startswith("Tipstaff-Contract: "))
