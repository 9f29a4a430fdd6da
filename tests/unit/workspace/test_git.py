"""Git on a directory of ours."""

import os

import pytest

from tests.unit.workspace.shelf import git as users_git
from tipstaff.workspace.git import Git, GitError, complaint, split


@pytest.mark.parametrize(("object_format", "digits"), [("sha1", 40), ("sha256", 64)])
def test_a_made_directory_works(tmp_path, object_format, digits):
    """A directory made by hand takes objects and gives them back, in both formats."""
    git = Git.make(tmp_path / "own", object_format=object_format)

    name = git.run("hash-object", "-w", "--stdin", stdin=b"content").decode().strip()

    assert len(name) == digits
    assert git.run("cat-file", "blob", name) == b"content"


def test_a_failure_is_one_sentence(tmp_path):
    """What git says on its way out becomes the message of a GitError."""
    with pytest.raises(GitError, match="git cat-file: Not a valid object name nothing"):
        Git.make(tmp_path / "own").run("cat-file", "blob", "nothing")


def test_nobody_else_s_configuration_takes_part(tmp_path, monkeypatch):
    """Neither variables nor the files that a user's git reads reach git; what is set here does."""
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = somebody\n")
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "GIT_CONFIG_GLOBAL": str(tmp_path / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "somebody",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_TRACE": str(tmp_path / "trace"),
    }.items():
        monkeypatch.setenv(name, value)
    git = Git.make(tmp_path / "own")

    listed = git.run("config", "--list", "--name-only").decode().split()

    assert "user.name" not in listed
    assert "core.fsmonitor" in listed
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("planted", ["hook", "fsmonitor", "filter"])
def test_a_repository_s_own_configuration_and_hooks_do_not_run(tmp_path, planted):
    """A repository that would run a program when its user's git looks at it runs none when ours does."""
    canary = tmp_path / "canary"
    folder = tmp_path / "work"
    folder.mkdir()
    users_git(folder, "init", "-q")
    (folder / "a.txt").write_text("a")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    if planted == "hook":
        (folder / ".git/hooks/post-index-change").symlink_to(program)
    elif planted == "fsmonitor":
        users_git(folder, "config", "core.fsmonitor", str(program))
    else:
        (folder / ".gitattributes").write_text("*.txt filter=planted\n")
        users_git(folder, "config", "filter.planted.clean", str(program))
    users_git(folder, "add", "a.txt")
    assert canary.exists(), "the twin: the user's own git runs it"
    canary.unlink()

    own = Git.make(tmp_path / "own")
    git = Git(own.directory, objects=folder / ".git/objects", work_tree=folder)
    git.run("add", "-A")

    assert not canary.exists()
    assert split(git.run("ls-files", "-z"))[-1] == b"a.txt"


def test_a_started_command_is_read_as_it_comes(tmp_path):
    """The streams of a started command are the caller's."""
    with Git.make(tmp_path / "own").start("version") as running:
        said = running.stdout.read() if running.stdout else b""

    assert said.startswith(b"git version ")
    assert running.returncode == 0


def test_no_protocol_is_spoken(tmp_path):
    """Not even a repository on the same disk is fetched from."""
    users_git(tmp_path, "init", "-q", "other")

    with pytest.raises(GitError, match="not allowed"):
        Git.make(tmp_path / "own").run("fetch", str(tmp_path / "other"))


def test_git_runs_whatever_the_working_directory_is(tmp_path, monkeypatch):
    """A repository in the current folder has no say."""
    users_git(tmp_path, "init", "-q", "here")
    monkeypatch.chdir(tmp_path / "here")

    found = Git.make(tmp_path / "own").run("rev-parse", "--absolute-git-dir")

    assert os.fsdecode(found.strip()) == str(tmp_path / "own")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"warning: x\nfatal: it broke\n", "it broke"),
        (b"error: no\nfatal: later", "no"),
        (b"\nsomething\n", "something"),
        (b"", "it failed"),
        (b"fatal: " + b"x" * 1000, "x" * 300),
        (b"fatal: \xff", "\ufffd"),
    ],
)
def test_a_complaint_is_the_first_that_matters(said, expected):
    """Warnings are passed over, prefixes taken off, and length is bounded."""
    assert complaint(said) == expected


@pytest.mark.parametrize(
    ("listed", "expected"), [(b"", []), (b"a\0", [b"a"]), (b"a\nb\0\xff\0", [b"a\nb", b"\xff"]), (b"\0", [b""])]
)
def test_lists_are_split_at_nul(listed, expected):
    """Names are bytes, and only NUL ends one."""
    assert split(listed) == expected
