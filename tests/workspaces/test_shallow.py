"""The `.git` of a captured workspace: a commit without its history, in which git works."""

import os
from pathlib import Path

import pytest

from tests.unit.workspace.shelf import Shelf, git
from tipstaff.canonical import digest
from tipstaff.workspace.capture.capturing import Wish, capture
from tipstaff.workspace.depot import Depot


class Project:
    """A repository with a history, and its captures."""

    def __init__(self, top: Path, object_format: str) -> None:
        self.folder = top / "project"
        self.folder.mkdir()
        self.depot = Depot(top / "workspaces")
        git(self.folder, "init", "--quiet", f"--object-format={object_format}")
        for number in range(3):
            (self.folder / f"file-{number}").write_text(f"{number}\n")
            git(self.folder, "add", "--all")
            git(self.folder, "commit", "--quiet", "--message", f"commit {number}")

    def base(self) -> Path:
        """Capture it; gives the base."""
        found = self.depot.known(digest(self.manifest()))
        assert found is not None
        return found

    def manifest(self) -> dict[str, object]:
        """Capture it; gives the manifest."""
        return capture(self.folder, Wish("lean"), self.depot, Shelf(), environ={}).manifest


@pytest.fixture(params=["sha1", "sha256"])
def project(request, tmp_path):
    """A repository of three commits, in either format."""
    return Project(tmp_path, request.param)


def test_one_commit_is_inside(project):
    """Inside there is HEAD's commit and none before it, on the same branch, and nothing is amiss."""
    base = project.base()

    assert git(base, "log", "--format=%H %s") == git(project.folder, "log", "-1", "--format=%H %s")
    assert git(base, "symbolic-ref", "HEAD") == b"refs/heads/main\n"
    assert git(base, "fsck", "--full", "--strict") == b""
    assert git(base, "count-objects", "-v").startswith(b"count: 0\n")


def test_the_state_is_that_of_the_folder(project):
    """Git inside sees what differs from HEAD, as its owner's git does, and ignores what that ignores."""
    (project.folder / ".gitignore").write_text("*.log\n")
    git(project.folder, "add", ".gitignore")
    (project.folder / "file-0").unlink()
    (project.folder / "file-1").write_text("changed\n")
    (project.folder / "new").write_text("new\n")
    (project.folder / "a.log").write_text("")
    (project.folder / ".git/info/exclude").write_text("secret-notes\n")
    (project.folder / "secret-notes").write_text("x")

    base = project.base()
    (base / "secret-notes").write_text("made by the run")

    assert git(base, "status", "--porcelain").splitlines() == [b" D file-0", b" M file-1", b"?? .gitignore", b"?? new"]
    assert git(base, "diff", "HEAD", "file-1") == git(project.folder, "diff", "HEAD", "file-1")


def test_a_clean_folder_is_clean_inside(project):
    """Nothing differs where nothing was changed."""
    assert git(project.base(), "status", "--porcelain") == b""


def test_commits_can_be_made_inside(project, tmp_path):
    """Git inside can commit: it knows who, and has the commit before."""
    base = project.base()
    copy = tmp_path / "copy"
    os.system(f"cp -a '{base}' '{copy}'")  # noqa: S605 - two folders of this test
    (copy / "note").write_text("x")
    git(copy, "add", "note")
    git(copy, "commit", "--quiet", "--message", "inside")

    assert git(copy, "log", "--format=%s") == b"inside\ncommit 2\n"
    assert git(base, "log", "--format=%s") == b"commit 2\n"


def test_nothing_of_the_owner_is_inside(project):
    """No remote, hook, credential or configuration of the repository comes along."""
    git(project.folder, "remote", "add", "origin", "https://token@example.org/x")
    git(project.folder, "config", "user.name", "Somebody Particular")
    git(project.folder, "config", "credential.helper", "store")
    (project.folder / ".git/hooks").mkdir(exist_ok=True)
    (project.folder / ".git/hooks/post-checkout").write_text("#!/bin/sh\n")

    inside = project.base() / ".git"

    found = b"".join(path.read_bytes() for path in inside.rglob("*") if path.is_file() and path.suffix != ".pack")
    assert b"token" not in found
    assert b"Particular" not in found
    assert b"credential" not in found
    assert sorted(path.name for path in inside.iterdir()) == sorted(
        ["HEAD", "config", "hooks", "index", "info", "objects", "packed-refs", "refs", "shallow"]
    )
    assert list((inside / "hooks").iterdir()) == []


def test_a_detached_head_stays_detached(project):
    """Without a branch outside there is none inside."""
    git(project.folder, "checkout", "--quiet", "--detach", "HEAD~1")

    base = project.base()

    assert git(base, "rev-parse", "--abbrev-ref", "HEAD") == b"HEAD\n"
    assert git(base, "log", "--format=%s") == b"commit 1\n"


def test_a_commit_is_packed_once(project):
    """Two states of one commit share its pack; another commit has another one."""
    first, first_base = project.manifest(), project.base()
    (project.folder / "new").write_text("x")
    second, second_base = project.manifest(), project.base()
    git(project.folder, "commit", "--quiet", "--allow-empty", "--message", "more")
    third = project.manifest()

    packs = [next((base / ".git/objects/pack").glob("*.pack")).stat().st_ino for base in (first_base, second_base)]
    assert first_base != second_base
    assert packs[0] == packs[1]
    assert first["git"]["packHash"] == second["git"]["packHash"] != third["git"]["packHash"]


def test_a_pack_that_no_base_has_is_removed(project):
    """Tidying up removes the packs of commits whose bases are gone, and no other."""
    project.base()
    packs = project.depot.root / "packs"

    project.depot.tidy(0, now=1e12)
    assert len(list(packs.iterdir())) == 1

    for path in (project.depot.root / "bases").iterdir():
        (path / "source").write_bytes(b"")
    project.depot.tidy(0, now=1e12)
    assert list(packs.iterdir()) == []
    assert git(project.base(), "status", "--porcelain") == b""


def test_a_repository_with_an_odd_branch_is_detached(project):
    """A HEAD that is no branch is captured without one, and its commit is still there."""
    commit = git(project.folder, "rev-parse", "HEAD").decode().strip()
    git(project.folder, "update-ref", "refs/odd/one", commit)
    git(project.folder, "symbolic-ref", "HEAD", "refs/odd/one")

    captured = capture(project.folder, Wish("lean"), project.depot, Shelf(), environ={})

    assert captured.manifest["git"]["ref"] is None
    assert captured.manifest["git"]["commit"] == commit
    assert "which is no branch" in captured.notices[0]
