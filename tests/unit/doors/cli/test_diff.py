"""`tipstaff diff`: the change as it is for a pipe, harmless for a terminal, and everything that is not in it."""

import json

import pytest

from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import BECOMES, WAS, Thing, Tree, fill
from tipstaff.doors.cli import main

DIFF = (
    b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-was a\n+is a \x1b]0;evil\x07\n"
    b"diff --git a/b b/sub/b\nsimilarity index 100%\nrename from b\nrename to sub/b\n"
    b"diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n"
    b"diff --git a/x.png b/x.png\nGIT binary patch\nliteral 1\nIcmZ?\n\n"
)
BECAME: Tree = {b"a": Thing(b"is a \x1b]0;evil\x07\n"), b"sub/b": Thing(b"was b\n"), b"c/d": WAS[b"c/d"]}


@pytest.fixture
def said(tmp_path, monkeypatch, capfdbinary):
    """Leave a run as told, and run a command about it."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    folder = fill(tmp_path / "folder", WAS)

    def act(*words: str, was: Tree = WAS, becomes: Tree = BECAME, **more):
        leave(tmp_path / "home", folder, was, becomes, **more)
        code = main(["diff", "last", *words])
        return (code, *capfdbinary.readouterr())

    return act


def test_a_pipe_gets_the_diff_as_it_is(said):
    """Into a pipe go the bytes that git wrote."""
    assert said(diff=DIFF)[:2] == (0, DIFF)


def test_colours_come_with_escapes(said):
    """Where colours are asked for, what the agent wrote cannot add sequences of its own."""
    _, out, _ = said("--color", "always", diff=DIFF)

    assert b"\x1b[32m+is a \\x1b]0;evil\\x07\x1b[m\n" in out
    assert b"\x1b]" not in out


@pytest.mark.parametrize("wish", ["a", "sub", "./sub/"])
def test_a_path_chooses_sections(said, wish):
    """A name, or a folder, leaves only its own sections; one that fits nothing is an error."""
    code, out, _ = said(wish, diff=DIFF)

    assert (code, out.count(b"diff --git")) == (0, 1)


def test_a_path_that_fits_nothing_is_an_error(said):
    """A name that the run did not change is told."""
    assert said("nothing", diff=DIFF)[0] == 64


def test_stat_says_how_much(said):
    """With --stat there is a line for each file: counts, renames, modes and binary files."""
    _, out, _ = said("--stat", diff=DIFF)

    assert out.decode().splitlines() == [
        " a          | 2 +-",
        " b => sub/b | 0",
        " tool       | 0  mode 100644 => 100755",
        " x.png      | binary",
        " 4 changed, +1 -1 lines",
    ]


def test_json_has_everything(said):
    """With --json there is each change with its lines, and the hazards."""
    becomes = {**BECAME, b".envrc": Thing(b"x")}

    told = json.loads(said("--json", diff=DIFF, becomes=becomes)[1])

    assert [(one["path"], one["status"]) for one in told["changes"]] == [
        (".envrc", "added"),
        ("a", "changed"),
        ("b", "deleted"),
        ("sub/b", "added"),
    ]
    assert told["changes"][1]["lines"] == {"added": 1, "deleted": 1, "binary": False}
    assert [one["path"] for one in told["hazards"]] == [".envrc"]


def test_nothing_changed_is_no_error(said):
    """A run that changed nothing says so."""
    code, out, err = said(becomes=WAS)

    assert (code, out) == (0, b"")
    assert b"changed nothing" in err


def test_what_is_not_in_the_diff_is_named(said):
    """Withheld names come with their sentence, and ignored files with their number."""
    summary = {"files": 1, "ignored": {"files": 3, "bytes": 2048, "kept": True}, "large": [{"path": "big"}]}

    _, _, err = said(flags={"withheld": "it is a hook", "kept": False}, summary=summary)

    lines = err.decode().splitlines()
    assert "tipstaff: not brought: a: it is a hook" in lines
    assert "tipstaff: not shown, because it is large: big" in lines
    assert "tipstaff: 3 files that the repository ignores (2.0 KiB): see --ignored" in lines


def test_ignored_changes_are_listed_when_asked_for(said):
    """With --ignored it lists what the repository ignores."""
    _, _, err = said("--ignored", flags={"ignored": True})

    assert "tipstaff: ignored: changed a" in err.decode().splitlines()


@pytest.mark.parametrize(
    ("more", "why"),
    [({"flags": {"kept": False}}, b"whose content is not kept"), ({"summary": {"problem": "too large"}}, b"too large")],
)
def test_a_change_that_is_not_kept_says_why(said, more, why):
    """A diff that was not kept is an error with its reason."""
    code, _, err = said(becomes=BECOMES, **more)

    assert code == 66
    assert why in err
