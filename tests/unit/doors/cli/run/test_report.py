"""What `tipstaff run` says last about the workspace: how many names changed, and which a person edited meanwhile."""

from typing import Any

import pytest

from tipstaff.doors.cli.run.report import tell
from tipstaff.model.outcome import Outcome

Json = dict[str, Any]
CHANGES: list[Json] = [
    *({"path": f"f{number}", "status": "changed"} for number in range(7)),
    {"path": "i", "status": "added", "ignored": True},
    {"path": ".git/hooks/x", "status": "added", "withheld": "it is a hook"},
]


@pytest.fixture
def told(capfd):
    """Tell of a run that changed nine names, and give the lines about them."""

    def act(**summary: Any) -> list[str]:
        outcome = Outcome(
            run_id="run_1",
            decision="allow",
            policy="local",
            rules=("all",),
            ending="exited",
            exit_code=0,
            receipt={"changes": summary},
            changes=tuple(CHANGES),
        )
        tell(outcome)
        lines: list[str] = capfd.readouterr().err.splitlines()
        return lines[2:]

    return act


def test_what_can_be_brought_is_counted(told):
    """Ignored and withheld names are not counted, as they are not in the diff."""
    assert told() == ["tipstaff: 7 files changed, in a copy: tipstaff diff run_1, then: tipstaff apply run_1"]


@pytest.mark.parametrize(
    ("edited", "named"),
    [
        (["f1", "other", "i"], "f1"),
        ([f"f{number}" for number in range(7)], "f0, f1, f2, f3, f4 and 2 more"),
    ],
)
def test_what_was_edited_meanwhile_is_named(told, edited, named):
    """At most five names that both the run and a person changed are told."""
    assert told(edited=[{"path": name} for name in edited])[1:] == [
        f"tipstaff: edited here while it ran, so apply will refuse to write over it: {named}"
    ]


def test_an_edit_of_other_files_is_not_told(told):
    """The twin: what only the person changed is no concern of the run's."""
    assert len(told(edited=[{"path": "other"}])) == 1
