"""What git would take for its own directory is known by every spelling, and what it would execute in it is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workspace.overlaid import git
from tipstaff.workspace import internals

SPELLED = [".git", ".GIT", ".Git", ".git ", ".git.", ".git . .", "git~1", "GIT~2", ".git::$INDEX_ALLOCATION", ".git:x"]
HIDDEN = [".g\u200cit", "\ufeff.git", ".gi\u206at", "a\\.git", ".git\\hooks"]
OTHERS = ["git", ".gitignore", ".gitattributes", ".gitmodules", ".github", "x.git", ".git-keep", "git~", ".", "gi\xff"]


@pytest.mark.parametrize("part", [*SPELLED, *HIDDEN])
def test_every_spelling_of_git_is_known(part):
    """A name is `.git` when git, or a file system that folds names, takes it for that."""
    assert internals.is_git(part.encode())


@pytest.mark.parametrize("part", OTHERS)
def test_other_names_are_not_git(part):
    """A name that only looks similar is a file like any other."""
    assert not internals.is_git(part.encode())


@given(st.binary(max_size=40))
def test_any_bytes_can_be_asked_about(part):
    """Any name gets an answer."""
    assert internals.is_git(part) in {True, False}
    assert isinstance(internals.reason(b".git/" + part), str)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (b".git", "in place of the repository"),
        (b".git/hooks/post-checkout", "a hook"),
        (b".GIT/HOOKS/pre-commit", "a hook"),
        (b".git/hooks/folder/script", "a hook"),
        (b"nested/.git/hooks/pre-push", "a hook"),
        (b".git/modules/sub/hooks/update", "a hook"),
        (b".git/info/attributes", "filters"),
        (b".git/objects/info/alternates", "objects elsewhere"),
        (b".git/commondir", "another directory"),
        (b".git/worktrees/one/gitdir", "another directory"),
        (b".git/rebase-merge/git-rebase-todo", "rebase under way"),
        (b".git/sequencer/todo", "rebase under way"),
    ],
)
def test_what_git_would_execute_is_named(name, told):
    """What git would execute, or follow elsewhere, has a reason and is no noise."""
    assert told in internals.reason(name)
    assert not internals.is_noise(name)


@pytest.mark.parametrize(
    "name",
    [
        b".git/index",
        b".git/HEAD",
        b".git/objects/ab/cdef",
        b".git/logs/refs/heads/main",
        b".git/refs/heads/hooks",
        b".git/hooks/pre-commit.sample",
        b".git/COMMIT_EDITMSG",
        b".git/info/exclude",
    ],
)
def test_bookkeeping_is_noise(name):
    """What git writes for itself is only counted."""
    assert internals.is_noise(name)


@pytest.mark.parametrize("name", [b".git/config", b".git/config.worktree", b".git/modules/sub/config"])
def test_configuration_is_looked_at(name):
    """A configuration is no noise: what it sets is read."""
    assert internals.is_configuration(name)
    assert not internals.is_noise(name)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[core]\n\tfsmonitor = touch x\n", ["core.fsmonitor"]),
        ("[core] fsmonitor=x\n", ["core.fsmonitor"]),
        ("[CORE]\nHooksPath = /x\n", ["core.hookspath"]),
        ('[filter "evil"]\n\tclean = x\n\tsmudge = y\n', ["filter.evil.clean", "filter.evil.smudge"]),
        ('[diff "x"]\ntextconv = y\n[diff]\nexternal = z\n', ["diff.x.textconv", "diff.external"]),
        ("[alias]\n\tst = !sh\n", ["alias.st"]),
        ('[includeIf "gitdir:/"]\npath = /x\n', ["includeif.gitdir:/.path"]),
        ('[url "http://evil/"]\ninsteadOf = https://\n', ["url.http://evil/.insteadof"]),
        ("[credential]\nhelper = x\n", ["credential.helper"]),
        ("[a] x = 1 # \\\n[core]\nsshCommand = y\n", ["core.sshcommand"]),
        ("[a] x = \\\n[core]\nsshCommand = y\n", []),
        ("[core]\n\tbare = false\n[user]\n\tname = somebody\n", []),
        ("# [core]\n# fsmonitor = x\n", []),
    ],
)
def test_keys_that_matter_are_named(text, keys):
    """Of a configuration, those keys are named that make git execute or follow something."""
    assert internals.new_keys(b"", text.encode()) == keys


def test_keys_that_were_there_are_not_named():
    """A key that the base had already is the user's own; one with another value is the run's."""
    base = b"[core]\n\tfsmonitor = mine\n\teditor = vi\n"

    assert internals.new_keys(base, base) == []
    assert internals.new_keys(base, base.replace(b"mine", b"evil")) == ["core.fsmonitor"]


@pytest.mark.parametrize(
    "text",
    [
        '[core]\n\tbare = true\n[remote "origin"]\n\turl = "https://a#b"\n\tfetch = +refs/*:refs/*\n',
        '[a "b c"] x = 1\n[a.d]\ny = 2 ; three\n',
        "[a]\nx = one \\\n two\ny = 3\n",
        "[a]\nflag\nother = \n",
        "\ufeff[a]\r\nx = 1\r\n",
    ],
)
def test_keys_are_those_that_git_reads(tmp_path, text):
    """A configuration is read as git reads it."""
    (tmp_path / "config").write_bytes(text.encode())

    listed = git(tmp_path, "config", "-f", "config", "--name-only", "-z", "-l")

    assert [key for key, _ in internals.settings(text.encode())] == listed.decode().split("\0")[:-1]


@given(st.binary(max_size=200))
def test_any_bytes_can_be_a_configuration(text):
    """Whatever a run writes into a configuration, reading it does not fail."""
    assert isinstance(internals.new_keys(b"", text), list)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([], "git's configuration was changed"),
        (["core.editor"], "sets core.editor, which git would execute or follow"),
        (list("abcdefg"), "sets a, b, c, d, e and 2 more, which git would execute or follow"),
    ],
)
def test_a_sentence_names_some_keys(keys, said):
    """A sentence names up to five keys and counts the others."""
    assert internals.told(keys) == said
