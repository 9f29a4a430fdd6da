"""The record of attempts: everything that was let out is named, and a flood stays bearable."""

from typing import Any

import pytest

from tipstaff.egress.attempt import Attempt
from tipstaff.session.attempts import OTHERS, Attempts

CONTRACT = {
    "egress": {
        "rules": [
            {"host": "*.example", "ports": [80], "rule": "many"},
            {"host": "*.a.example", "ports": [443], "rule": "many"},
        ]
    }
}


def record(attempts, most=3):
    """Write attempts down; gives the events."""
    told: list[dict[str, Any]] = []
    made = Attempts(CONTRACT, told.append, most)
    for attempt in attempts:
        made.ended(attempt, {})
    made.close()
    return told


def attempts(count, decision, **more):
    """Make attempts at places of their own."""
    return [Attempt(host=f"h{one}.a.example", port=443, decision=decision, bytes_out=2, **more) for one in range(count)]


@pytest.mark.parametrize("decision", ["allowed", "blocked"])
def test_a_flood_is_added_up(decision):
    """Beyond some events attempts are summed by place, beyond some places together; no attempt and no byte is lost."""
    told = record(2 * attempts(10, decision, rule="many"))

    assert len(told) == 3 + 3 + 1
    assert sum(said.get("count", 1) for said in told) == 20
    assert sum(said["bytesOut"] for said in told) == 40
    assert told[-1]["host"] == ("*.a.example" if decision == "allowed" else OTHERS)


@pytest.mark.parametrize("refused", [0, 50])
def test_refusals_hide_nothing_that_was_reached(refused):
    """However much was refused before, what was reached has events of its own."""
    told = record([*attempts(refused, "blocked"), *attempts(3, "allowed", rule="many")])

    assert [said["host"] for said in told if said["decision"] == "allowed"] == [f"h{one}.a.example" for one in range(3)]


def test_a_place_is_told_when_it_is_reached():
    """The first connection to a place has a word before its end, with no bytes in it; the next ones have none."""
    told: list[dict[str, Any]] = []
    made = Attempts(CONTRACT, told.append)
    for attempt in 2 * attempts(1, "allowed", rule="many"):
        made.opened(attempt, {"approval": {"sig": "x"}})

    assert told == [
        {"host": "h0.a.example", "port": 443, "rule": "many", "decision": "allowed", "opened": True,
         "approval": {"sig": "x"}}
    ]  # fmt: skip


@pytest.mark.parametrize("failed", [True, False])
def test_only_what_failed_has_a_sentence(failed):
    """A user reads of what was refused or came to nothing, with what would allow it, and of nothing else."""
    made = Attempts(CONTRACT, lambda _: None)
    made.ended(
        Attempt(host="b.example", port=80, reason="no rule", advice="--allow-host b.example:80", failed=failed), {}
    )

    assert list(made.sentences) == (["b.example:80: no rule; to allow it: --allow-host b.example:80"] if failed else [])


def test_what_was_approved_is_never_lumped_together():
    """An approval is for one place, so its event names that place, however many there were before."""
    told: list[dict[str, Any]] = []
    made = Attempts(CONTRACT, told.append, 1)
    for attempt in attempts(5, "allowed", rule="many"):
        made.ended(attempt, {"approval": {"for": attempt.host}})
    made.close()

    assert [said["approval"]["for"] for said in told] == [said["host"] for said in told]
    assert len(told) == 5
