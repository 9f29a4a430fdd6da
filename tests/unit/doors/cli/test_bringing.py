"""Runs of which nothing can be shown or brought: each says why, with the right exit code, and changes nothing."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.unit.doors.cli.left import POLICY, leave
from tests.unit.plane.embedded import KNOWS, REQUEST, RUNNER, follow, materialized
from tests.unit.policy.conftest import open_policy
from tests.unit.workspace.bringing import BECOMES, WAS, Thing, Tree, fill, seen
from tipstaff.doors.cli import main
from tipstaff.home import Home
from tipstaff.local.opening import opened
from tipstaff.policy import Policy

Json = dict[str, Any]
NEW: Tree = {**WAS, b"new": Thing(b"x")}


class Site(NamedTuple):
    """A home, the folder that runs are started for, and what commands print."""

    home: Path
    folder: Path
    capfd: pytest.CaptureFixture[str]

    def said(self, *words: str) -> tuple[int, str]:
        """Run a command; gives its exit code and what it complained of."""
        self.capfd.readouterr()
        code = main(list(words))
        return code, self.capfd.readouterr().err


@pytest.fixture
def site(tmp_path, monkeypatch, capfd) -> Site:
    """A home and a folder that is as every run here begins."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return Site(tmp_path / "home", fill(tmp_path / "folder", WAS), capfd)


@contextmanager
def begun(site: Site, *, claim: bool = False, policy: Policy = POLICY) -> Iterator[None]:
    """Ask for a run, and be there for it; with `claim` a runner takes it, and is never heard of again."""
    with opened(Home(site.home), policy, owned=True) as (plane, _, _):
        token = plane.enroll(RUNNER.public.pem, "default")["runnerToken"]
        plane.submit({**REQUEST, "files": {"workspace": str(site.folder)}})
        if claim:
            claimed = plane.claim({"runnerToken": token, "pool": "default", "knows": KNOWS})
            now = time.time_ns() // 1_000_000
            plane.append(claimed["claimToken"], follow(claimed, [materialized(claimed)], now), release=True)
        yield


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_run_that_has_not_ended_has_no_change(site, command):
    """A run that waits says so."""
    with begun(site):
        code, err = site.said(command, "last")

    assert code == 66
    assert "has not ended: it is created" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_run_whose_runner_was_lost_has_an_unknown_change(site, command):
    """Of a lost run nobody knows what it changed: it is not said to have changed nothing."""
    with begun(site, claim=True):
        pass

    code, err = site.said(command, "last")

    assert code == 66
    assert "its runner was lost, so that it is not known what it changed" in err
    assert "changed nothing" not in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_request_that_was_refused_has_no_change(site, command):
    """What never ran points to the reason."""
    nobody = open_policy(rules=[{"id": "no", "effect": "deny", "when": "any", "reason": "never"}])
    with begun(site, policy=nobody):
        pass

    code, err = site.said(command, "last")

    assert code == 66
    assert "was refused: nothing ran; see: tipstaff why ref_" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_run_that_was_pruned_is_told(site, command):
    """A pruned run is known to have been, and gone."""
    run_id = leave(site.home, site.folder, WAS, NEW)
    prune(site)

    code, err = site.said(command, run_id)

    assert code == 66
    assert f"run {run_id} was pruned at" in err
    assert seen(site.folder) == WAS


def test_what_was_half_applied_is_taken_back_after_its_run_was_pruned(site):
    """Where the folder is named, the record of what was brought is enough to put right what was cut short."""
    run_id = leave(site.home, site.folder, WAS, NEW)
    site.said("apply", run_id)
    (record,) = site.home.glob("applied/*/*/record.json")
    told = json.loads(record.read_bytes())
    record.write_text(json.dumps({**told, "state": "applying", "pending": told["steps"], "steps": []}))
    prune(site)

    assert site.said("apply", run_id, "--revert")[0] == 66
    assert site.said("apply", run_id, "--revert", "--to", str(site.folder))[0] == 0
    assert seen(site.folder) == WAS


def prune(site: Site) -> None:
    """Remove every run that has ended."""
    time.sleep(0.01)
    assert site.said("prune", "--older-than", "0.001")[0] == 0


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_contents_that_are_gone_are_told(site, command):
    """A run whose files were removed from the store has a proof, and nothing to show or to bring."""
    leave(site.home, site.folder, WAS, NEW, diff=b"diff --git a/new b/new\n")
    with sqlite3.connect(site.home / "store.sqlite") as connection:
        connection.execute("DELETE FROM blobs")
    connection.close()

    code, err = site.said(command, "last")

    assert code == 66
    assert "not kept any more" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_run_in_place_has_nothing_kept(site, command):
    """What a run changed in place is there already."""
    leave(site.home, site.folder, WAS, WAS, files={"inPlace": True})

    code, err = site.said(command, "last")

    assert code == 66
    assert "it worked in place" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_silent_run_is_not_said_to_have_changed_nothing(site, command):
    """Under the disclosure `none` not even names leave a run: what it changed is not told."""
    leave(site.home, site.folder, WAS, WAS, disclosure="none")

    code, err = site.said(command, "last")

    assert code == 66
    assert "under the disclosure `none`, what a run changed is not told" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_problem_without_names_is_no_silence(site, command):
    """A change that could not be collected is told, although the run has not a single name."""
    leave(site.home, site.folder, WAS, WAS, summary={"problem": "what it changed could not be kept: full"})

    code, err = site.said(command, "last")

    assert code == 66
    assert "what it changed could not be kept: full" in err


@pytest.mark.parametrize("command", ["diff", "apply"])
@pytest.mark.parametrize("edited", [True, False])
def test_a_proof_that_was_changed_is_refused(site, command, edited):
    """Nothing of a run is shown or brought whose events are not those that were signed; the problems are listed."""
    leave(site.home, site.folder, WAS, NEW, diff=b"diff --git a/new b/new\n")
    if edited:
        change_the_name(site.home)

    code, err = site.said(command, "last")

    assert code == (1 if edited else 0)
    assert ("8. " in err and "is not valid: nothing of it is shown or brought" in err) is edited
    assert (seen(site.folder) == WAS) is (edited or command == "diff")


def test_a_proof_that_was_changed_is_told_to_programs(site):
    """With --json the problems are a list."""
    leave(site.home, site.folder, WAS, NEW)
    change_the_name(site.home)

    assert main(["diff", "last", "--json"]) == 1

    told = json.loads(site.capfd.readouterr().out)
    assert told["error"]["kind"] == "UnprovenError"
    assert told["problems"]


def change_the_name(home: Path) -> None:
    """Write another name into the events of the store."""
    with sqlite3.connect(home / "store.sqlite") as connection:
        for run_id, seq, raw in list(connection.execute("SELECT run_id, seq, link FROM events")):
            said = msgspec.json.decode(raw)
            if said["event"].get("path") == "new":
                said["event"]["path"] = "other"
                new = (msgspec.json.encode(said), run_id, seq)
                connection.execute("UPDATE events SET link = ? WHERE run_id = ? AND seq = ?", new)
    connection.close()


def test_without_changes_there_is_nothing_to_do(site):
    """A run that changed nothing is no error to look at, and nothing to apply."""
    leave(site.home, site.folder, WAS, WAS)

    assert site.said("diff", "last")[0] == 0
    assert site.said("apply", "last")[0] == 64


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_change_that_is_kept_is_shown_and_brought(site, command):
    """The twin of all of these: a run that ended well."""
    leave(site.home, site.folder, WAS, BECOMES, diff=b"diff --git a/a b/a\n")

    assert site.said(command, "last")[0] == 0
