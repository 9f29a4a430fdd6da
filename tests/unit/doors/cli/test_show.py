"""`tipstaff show`: what happened to each name in the workspace, in a word."""

import pytest

from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import WAS, Thing, Tree, fill
from tipstaff.doors.cli import main
from tipstaff.model.changes import FILE

BECAME: Tree = {
    b"a": Thing(b"is a\n"),
    b"b": Thing(b"was b\n", FILE | 0o666),
    b"new ": Thing(b"x"),
    b"odd\xff": Thing(b"x"),
}


@pytest.fixture
def shown(tmp_path, monkeypatch, capfd):
    """Leave a run as told, and show it."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    folder = fill(tmp_path / "folder", WAS)

    def act(**more) -> list[str]:
        leave(tmp_path / "home", folder, WAS, BECAME, **more)
        assert main(["show", "last"]) == 0
        return [line.strip() for line in capfd.readouterr().out.splitlines()]

    return act


def test_each_name_has_its_word(shown):
    """Added, changed, deleted and rights are told apart; a name whose end cannot be seen is quoted."""
    lines = shown()

    first = lines.index("changed:   a")
    assert lines[first : first + 5] == [
        "changed:   a",
        "rights:    b, 644 => 666",
        "deleted:   c/d",
        "added:     'new '",
        "added:     odd\\xff",
    ]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({"withheld": "it is a hook", "kept": False}, "withheld:  changed a: it is a hook"),
        ({"ignored": True}, "ignored:   changed a"),
        ({"redacted": True, "kept": False}, "changed:   a (a secret was in it)"),
        ({"origin": b"old"}, "renamed:   old => a"),
    ],
)
def test_what_is_special_about_a_name_is_told(shown, flags, line):
    """Names that are withheld, ignored, renamed, or lost a secret say so."""
    assert line in shown(flags=flags)


def test_a_change_that_is_not_kept_is_told(shown):
    """Why nothing can be applied stands behind the names."""
    assert "changes:   too much; nothing of it can be applied" in shown(summary={"problem": "too much"})


def test_another_writers_events_are_told_as_far_as_they_go(shown):
    """An event of the protocol that says no more than a name and a digest is a change."""
    event = {"type": "file.changed", "path": "z", "contentHash": "0" * 64}

    assert "changed:   z" in shown(extra=[event])
