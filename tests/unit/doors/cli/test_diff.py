"""`tipstaff diff`: the change as it is for a pipe, harmless for a terminal, and everything that is not in it."""

import json

import pytest

from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import BECOMES, WAS, Thing, Tree, fill, ran
from tipstaff.doors.cli import main
from tipstaff.doors.cli.diffstat import rights
from tipstaff.model.changes import FILE
from tipstaff.workspace.collect.gathering import MOST_NAMED

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


def test_paths_may_stand_behind_options(said, capfdbinary):
    """A path is one before an option and behind it; without a run the sentence asks for a run alone."""
    before, behind = said("a", "--stat", diff=DIFF), said("--stat", "a", diff=DIFF)

    assert before[:2] == behind[:2]
    assert before[0] == 0
    assert main(["diff"]) == 64
    assert b"required: RUN;" in capfdbinary.readouterr().err


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
        " 3 changed, +1 -1 lines",
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
    summary = {"files": 1, "ignored": {"files": 3, "bytes": 2048, "kept": True}, "git": {"files": 1, "named": 3}}

    _, _, err = said(flags={"withheld": "it is a hook", "kept": False}, summary=summary)

    lines = err.decode().splitlines()
    assert "tipstaff: not brought: a: it is a hook" in lines
    assert "tipstaff: 3 files that the repository ignores (2.0 KiB): see --ignored" in lines
    assert "tipstaff: 1 file of git's own bookkeeping in .git: never brought" in lines


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        ({"diffProblem": "it took too long"}, "the diff is not whole: it took too long"),
        ({"ignoredProblem": "git is not there"}, "nothing counts as ignored by the repository: git is not there"),
        ({"ignored": {"files": 1, "bytes": 9, "kept": False}}, "1 file that the repository ignores (9 B) are not kept"),
    ],
)
def test_what_went_wrong_is_told(said, summary, line):
    """A diff that is not whole, and ignored files that are not kept, are told behind it."""
    assert f"tipstaff: {line}" in said(diff=DIFF, summary=summary)[2].decode().splitlines()
    assert line not in said(diff=DIFF)[2].decode()


def test_nothing_that_would_be_brought_is_out_of_sight(said):
    """Rights that git has no word for, and large files, are named, in quotes where need be; `--stat` counts them."""
    becomes: Tree = {
        **WAS,
        b"a": Thing(b"was a\n", FILE | 0o666),
        b"b": Thing(b"is b\n", FILE | 0o600),
        b"big ": Thing(b"large"),
    }
    diff = b"diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-was b\n+is b\n"
    summary = {"files": 3, "large": [{"path": "big "}]}

    _, out, err = said("--stat", becomes=becomes, diff=diff, summary=summary)

    assert err.decode().splitlines() == [
        "tipstaff: rights: a: 644 => 666",
        "tipstaff: rights: b: 644 => 600",
        "tipstaff: added, but not shown, because it is large (5 B): 'big '",
    ]
    assert out.decode().splitlines() == [
        " b      | 2 +- rights 644 => 600",
        " a      | rights 644 => 666",
        " 'big ' | not in the diff",
        " 3 changed, +1 -1 lines",
    ]


@pytest.mark.parametrize(("was", "now", "said"), [(0o644, 0o755, ""), (0o664, 0o664, ""), (0o664, 0o644, "664 => 644")])
def test_rights_that_git_spells_are_not_told_twice(was, now, said):
    """Rights are told only where they differ, and where the diff does not tell them."""
    (change,) = ran({b"a": Thing(b"x", FILE | was)}, {b"a": Thing(b"y", FILE | now)}).changes

    assert rights(change) == said


@pytest.mark.parametrize(("mode", "said"), [(0o644, ""), (0o755, ""), (0o777, "777"), (0o600, "600")])
def test_rights_of_new_files_are_told_where_git_does_not(mode, said):
    """A new file's rights are told unless they are those that git knows."""
    (change,) = ran({}, {b"a": Thing(b"y", FILE | mode)}).changes

    assert rights(change) == said


def test_what_was_edited_meanwhile_is_named(said):
    """A file that somebody edited while the run went on is named, since apply will refuse it; the others are not."""
    summary = {"files": 2, "edited": [{"path": "a"}, {"path": "c/d"}]}

    err = said(diff=DIFF, summary=summary)[2].decode()

    assert err == (
        "tipstaff: apply will refuse: a: it was edited here while the run went on,"
        " so what the run began with is not known\n"
    )


def test_a_record_without_room_for_every_edit_counts_for_all(said):
    """Where as many edits are listed as there is room for, every file that was there counts as edited."""
    summary = {"files": 2, "edited": [{"path": f"other{number}"} for number in range(MOST_NAMED)]}

    err = said(diff=DIFF, summary=summary)[2].decode()

    assert [line.split(":")[2] for line in err.splitlines()] == [" a", " b"]


@pytest.mark.parametrize("edited", [7, [7], [{"path": "../a"}], {"path": "a"}])
def test_a_receipt_that_lists_no_names_is_an_error(said, edited):
    """What a runner wrote in the place of names is refused, not passed over."""
    assert said(diff=DIFF, summary={"edited": edited})[0] == 65


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


def test_json_says_that_it_is_not_kept(said):
    """With --json the names come all the same, with the reason and the exit code."""
    code, out, _ = said("--json", becomes=BECOMES, summary={"problem": "too large"})

    told = json.loads(out)
    assert (code, told["notKept"].split(": ")[1]) == (66, "too large; its content is not kept")
    assert len(told["changes"]) == 4
    assert json.loads(said("--json", diff=DIFF)[1])["notKept"] is None
