"""A change becomes a commit on a new branch: nothing in the repository starts a program, and nothing else changes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.workspace.bringing import Ran, Thing, Tree, fill, link, program, ran, seen
from tipstaff.errors import NotFoundError, RefusedError, UsageError
from tipstaff.workspace.apply.branch import (
    Made,
    Message,
    Start,
    delete_branch,
    first_commit,
    make_branch,
    person,
    points_to,
    reference,
    repository,
)

WAS: Tree = {
    b"edit": Thing(b"one\n"),
    b"gone": Thing(b"bye\n"),
    b"tool": Thing(b"tool\n"),
    b"turns": Thing(b"a file\n"),
    b"fold/inner": Thing(b"inner\n"),
}
BECOMES: Tree = {
    b"edit": Thing(b"two\n"),
    b"tool": program(b"tool\n"),
    b"point": link(b"edit"),
    b"odd\n\xff": Thing(b"x\n"),
    b"turns/into": Thing(b"a folder\n"),
    b"fold": Thing(b"a file\n"),
}
MESSAGE = Message("Do it\n\nTipstaff-Run: x\n", ("Ada", "ada@example.com"))
PLAIN = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": "/"}


def git(folder: Path, *words: str) -> str:
    """Run the user's git in their repository."""
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "safe.directory=*"]
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, env=PLAIN, capture_output=True, check=True, text=True, timeout=30)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path) -> Path:
    """A repository with one commit."""
    folder = fill(tmp_path / "repo", WAS)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def made(repo: Path, run: Ran, name: str = "agent/fix", wanted: str | None = None) -> Made:
    """Make a branch of a run's change."""
    directory = repository(repo)
    start = Start(directory, reference(name), first_commit(directory, wanted))
    return make_branch(start, run.changes, run.contents, MESSAGE)


def test_the_branch_has_the_change(repo, tmp_path):
    """The new branch is one commit behind which the tree is as the run left it, modes, links and odd names too."""
    made(repo, ran(WAS, BECOMES))

    git(repo, "worktree", "add", "--quiet", str(tmp_path / "tree"), "agent/fix")
    found = seen(tmp_path / "tree")
    del found[b".git"]
    assert found == BECOMES
    assert git(repo, "log", "--format=%s|%an|%ce|%P", "agent/fix", "-1").split("|") == [
        "Do it",
        "Ada",
        "ada@example.com",
        git(repo, "rev-parse", "main"),
    ]


def test_nothing_else_changes(repo):
    """The working tree, the index and HEAD are as before."""
    index = (repo / ".git" / "index").read_bytes()

    made(repo, ran(WAS, BECOMES))

    assert (repo / ".git" / "index").read_bytes() == index
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_nothing_in_the_repository_runs(repo, tmp_path):
    """Hooks, filters, a file system monitor, signing and an editor that the repository names are not started."""
    canary = tmp_path / "canary"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    trap.chmod(0o755)
    for hook in ("reference-transaction", "post-checkout", "pre-commit", "post-commit", "post-index-change"):
        (repo / ".git" / "hooks").mkdir(exist_ok=True)
        (repo / ".git" / "hooks" / hook).symlink_to(trap)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "gpg.program", "core.editor", "diff.external"):
        git(repo, "config", key, str(trap))
    git(repo, "config", "commit.gpgSign", "true")
    (repo / ".git" / "info" / "attributes").write_text("* filter=x\n")
    canary.unlink(missing_ok=True)

    done = made(repo, ran(WAS, BECOMES))
    delete_branch(repository(repo), done.ref, done.commit)

    assert not canary.exists()


def test_a_branch_that_exists_is_refused(repo):
    """A branch is never moved; another name is taken."""
    made(repo, ran(WAS, BECOMES))
    first = git(repo, "rev-parse", "agent/fix")

    with pytest.raises(UsageError, match="the branch agent/fix exists"):
        made(repo, ran(WAS, {}))

    assert git(repo, "rev-parse", "agent/fix") == first
    assert made(repo, ran(WAS, {}), "agent/other").commit != first


@pytest.mark.parametrize("name", ["", "-d", "a..b", "a b", "a~1", "x.lock", "/a", "a/", "@{u}", "a\nb", "x" * 300])
def test_names_that_git_does_not_take_are_refused(name):
    """What is no name of a branch is told before anything happens; an ordinary one is taken."""
    with pytest.raises(UsageError, match="--branch"):
        reference(name)
    assert reference("agent/fix-1") == "refs/heads/agent/fix-1"


@pytest.mark.parametrize("name", [b".git/config", b".GIT/hooks/x", b"a/.git/x"])
def test_names_in_git_directories_are_refused_again(repo, name):
    """Nothing beneath a .git is ever committed."""
    with pytest.raises(RefusedError, match="git directory"):
        made(repo, ran({}, {name: Thing(b"x")}))

    assert points_to(repository(repo), "refs/heads/agent/fix") == ""


@pytest.mark.parametrize("name", [b".gitmodules", b"sub/.gitattributes", b".gitignore", b".Mailmap"])
def test_links_where_git_reads_files_are_refused(repo, name):
    """Git may refuse to check out such a link, so that no branch has one; a plain file of that name is taken."""
    with pytest.raises(RefusedError, match="is a link, and git may refuse to check out a link of this name"):
        made(repo, ran({}, {name: link(b"elsewhere")}))

    assert git(repo, "branch", "--list", "agent/fix") == ""
    assert made(repo, ran({}, {name: Thing(b"")})).commit


def test_it_begins_at_the_runs_own_commit(repo):
    """The commit that the run began from is the parent, though the branch went on; one that is not there is told."""
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "second")

    assert made(repo, ran(WAS, BECOMES), wanted=first).parent == first
    with pytest.raises(NotFoundError, match="the commit aaaaaaaaaaaa"):
        made(repo, ran(WAS, BECOMES), "other", "a" * 40)


def test_other_beginnings_are_named(repo):
    """Where the run began with uncommitted content, the names are told; else there are none."""
    dirty: Tree = {**WAS, b"edit": Thing(b"uncommitted\n")}

    assert made(repo, ran(dirty, BECOMES)).others == (b"edit",)
    assert made(repo, ran(WAS, BECOMES), "clean").others == ()


def test_a_branch_is_deleted_only_as_it_was_made(repo):
    """Deleting leaves a branch that went on, or that somebody works on, and takes one that did not."""
    done = made(repo, ran(WAS, BECOMES))
    directory = repository(repo)

    git(repo, "checkout", "--quiet", "agent/fix")
    assert "checked out" in delete_branch(directory, done.ref, done.commit)
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "more")
    git(repo, "checkout", "--quiet", "main")
    assert "any more" in delete_branch(directory, done.ref, done.commit)
    git(repo, "update-ref", done.ref, done.commit)
    assert delete_branch(directory, done.ref, done.commit) == ""
    assert points_to(directory, done.ref) == ""


def test_a_folder_without_a_repository_is_refused(tmp_path):
    """A folder that is no top of a working tree has no branches."""
    with pytest.raises(UsageError, match="not the top folder of a git repository"):
        repository(tmp_path)


def test_a_repository_without_commits_is_refused(tmp_path):
    """There is nothing to begin from in a repository without a commit."""
    git(tmp_path, "init", "--quiet")

    with pytest.raises(NotFoundError, match="it has no commit"):
        first_commit(repository(tmp_path), None)


def test_a_worktree_is_a_repository(repo, tmp_path):
    """A folder whose .git is a file that points to the repository is found."""
    git(repo, "worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "side")

    made(tmp_path / "tree", ran(WAS, BECOMES))

    assert git(repo, "rev-parse", "agent/fix^") == git(repo, "rev-parse", "main")


def test_the_person_comes_from_their_own_configuration(tmp_path):
    """Name and address are read from the user's files; where there are none, nobody is made up."""
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Ada L\n\temail = ada@example.com\n")

    assert person({"HOME": str(tmp_path)}) == ("Ada L", "ada@example.com")
    assert person({"HOME": str(tmp_path / "nowhere")}) == ("", "")
