"""Commands about runs at a plane elsewhere that lies: nothing of it is shown as true, written here or signed."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.remote.played import PRINTED, Played, on, played
from tipstaff.doors.cli import main
from tipstaff.keys import PrivateKey
from tipstaff.keys.files import save


class Site(NamedTuple):
    """A played plane, and somebody who asks it."""

    plane: Played
    folder: Path
    capfd: pytest.CaptureFixture[str]

    def said(self, *words: str) -> tuple[int, str, str]:
        """Run a command; gives its exit code, its output and what it complained of."""
        self.capfd.readouterr()
        code = main(["--plane", self.plane.url, *words])
        out, err = self.capfd.readouterr()
        return code, out, err


@pytest.fixture
def site(tmp_path, monkeypatch, capfd) -> Iterator[Site]:
    """A plane that was used before, so that its key is pinned, and a folder to stand in."""
    for name in ("TIPSTAFF_PLANE", "TIPSTAFF_TOKEN_FILE", "TIPSTAFF_CA_FILE", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TIPSTAFF_HOME": "home", "HOME": "person"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("TIPSTAFF_TOKEN", "tip_x")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    with played(tmp_path / "plane", asking=True) as plane:
        made = Site(plane, tmp_path / "folder", capfd)
        assert made.said("show", plane.run_id)[0] == 0
        yield made


def test_an_honest_plane_is_shown(site):
    """The twin of all below: a run is shown, its log printed, and why it ended told."""
    run_id = site.plane.run_id

    assert site.said("log", run_id)[:2] == (0, PRINTED.decode())
    assert site.said("log", "-f", run_id)[:2] == (0, PRINTED.decode())
    assert site.said("show", run_id)[1].startswith(f"{run_id} exited 0\n")
    assert site.said("why", run_id)[0] == 0
    assert site.said("history")[0] == 0
    assert site.said("approvals")[0] == 0
    assert "all of this is the plane's word" in site.said("show", site.plane.waits[0])[1]


@pytest.mark.parametrize("command", ["show", "log"])
def test_a_forged_proof_is_not_shown(site, command):
    """A run whose bundle was changed on its way is not shown, and neither is its log."""
    site.plane.twist = on("/bundle", lambda said: {**said, "receipt": {**said["receipt"], "exitCode": 1}})

    code, out, err = site.said(command, site.plane.run_id)

    assert (code, out) == (65, "")
    assert "does not hold" in err


def decided_oddly(said):
    """Tell of a decision that there is none of."""
    for link in said.get("events", []):
        if link["event"]["type"] == "policy.evaluated":
            link["event"]["decision"] = "maybe"


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("show", decided_oddly),
        ("show", lambda said: said["contract"].update(network={"defaultDeny": True, "allowHosts": []}, secrets=[5])),
        ("why", lambda said: said.update(ending="odd")),
        ("why", lambda said: said.update(execution={"kind": "shell", "script": "x", "shell": 7})),
        ("why", lambda said: said.update(ending="setup-failed", weak=5)),
        ("history", lambda said: said["runs"][0].update(execution={"kind": "shell", "script": "x", "shell": 7})),
        ("history", lambda said: said["runs"][0].update(ending=["odd"])),
    ],
)
def test_an_odd_answer_is_the_planes_fault(site, command, change):
    """What cannot be shown because of its form is an error of the input, never one of ours."""

    def twist(_asked, said):
        change(said) if "keys" not in said else None
        return said

    waiting = site.plane.waits[0]  # nothing of it is proved, so that its words are looked at
    site.plane.twist = twist

    code, out, err = site.said(command, *([] if command == "history" else [waiting]))

    assert (code, out) == (65, ""), err
    assert "internal error" not in err


@pytest.mark.parametrize(
    "command", [("apply", "last"), ("apply", "last", "--revert"), ("diff", "last"), ("log", "last")]
)
def test_a_run_that_is_called_by_a_path_is_refused(site, command):
    """An id that leads to files of ours, made to look like our record, writes nothing into a git directory."""
    evil = b"#!/bin/sh\necho obeyed\n"
    digest = sha256(evil).hexdigest()
    step = {"path": ".git/hooks/pre-commit", "contentHash": "0" * 64, "status": "deleted", "baseHash": digest}
    place = site.folder / "doc" / sha256(str(site.folder).encode()).hexdigest()[:16]
    (place / "old").mkdir(parents=True)
    (site.folder / ".git" / "hooks").mkdir(parents=True)
    (place / "old" / digest).write_bytes(evil)
    pending = [{**step, "baseMode": "100755", "baseBytes": len(evil)}]
    told = {"target": str(site.folder), "state": "applying", "pending": pending}
    (place / "record.json").write_text(json.dumps(told))
    name = str(site.folder / "doc")
    lines = [{**line, "id": name, "runId": name} for line in site.plane.site.plane.history(1)]
    site.plane.twist = on("/v1/runs", lambda _: {"runs": lines})

    code, out, err = site.said(*command)

    assert (code, out) == (65, "")
    assert "is not the id of one" in err
    assert list((site.folder / ".git" / "hooks").iterdir()) == []


def test_reverting_asks_the_plane_for_no_folder(site):
    """What is undone is what our own record says: without one there is nothing to undo, whatever the plane tells."""
    asked: list[str] = []

    def twist(one, said):
        asked.append(one.path)
        return said

    site.plane.twist = twist

    code, _, err = site.said("apply", site.plane.run_id, "--revert")

    assert code == 64
    assert "was not applied to" in err
    assert asked == []


@pytest.mark.parametrize("keyed", [True, False])
def test_an_approval_is_of_the_contract_that_was_shown(site, keyed, tmp_path):
    """Between the question and the answer the plane tells of another run: what is sent is the hash that was shown."""
    first, other = site.plane.waits
    if keyed:
        save(PrivateKey.generate(), tmp_path / "home" / "keys", "boris")
    site.plane.twist = on(f"/v1/runs/{first}", lambda _: {**site.plane.site.plane.run(other), "id": first})
    shown = site.plane.site.plane.run(first)["contractHash"]

    code, _, err = site.said("approve", first, "--yes", *(["--key", "boris"] if keyed else []))

    assert code == 0, err
    ((path, body),) = site.plane.posted
    assert path == f"/v1/runs/{first}/approve"
    assert body["contractHash"] == shown
    assert (body["approval"]["contractHash"] if keyed else shown) == shown
    assert "actor" not in body


def test_a_contract_that_is_not_the_planes_is_not_approved(site):
    """A contract of somebody in between is neither shown nor approved."""
    first = site.plane.waits[0]

    def swapped(said):
        for one in said["waiting"]:
            one["contract"]["execution"]["args"] = ["other"]
        return said

    site.plane.twist = on("/v1/approvals", swapped)

    for command in (("approvals",), ("approve", first, "--yes"), ("deny", first)):
        code, out, _ = site.said(*command)
        assert (code, out) == (65, "")
    assert site.plane.posted == []
