"""Contracts of older planes leave much out: a session reads them with this site's defaults, the document stays."""

import copy

import pytest

from tipstaff.runner.older import view_of

OLD = {
    "version": "warrant.contract.v1",
    "agent": {"kind": "mock"},
    "task": {"prompt": "do work"},
    "network": {"defaultDeny": True, "allowHosts": []},
    "budget": {},
    "disclosure": "minimal-context",
}
MINUTES = 60_000


def test_what_is_missing_is_filled_in_and_the_document_is_left_alone():
    """The view has every limit and a tier; the contract itself is as it was."""
    contract = copy.deepcopy(OLD)
    view = view_of(contract, ["bwrap"])

    assert contract == OLD
    assert view["tier"] == "bwrap"
    assert set(view["limits"]) == {"timeMs", "memoryBytes", "cpuMillis", "pids", "diskBytes", "outputBytes"}
    assert all(view["limits"].values())
    assert view["files"] == {}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 10 * MINUTES),
        ({"budget": {"maxDurationMin": 3}}, 3 * MINUTES),
        ({"budget": {"maxDurationMin": 0.5}}, MINUTES // 2),
        ({"budget": {"maxDurationMin": 3}, "execution": {"timeoutMs": 1500}}, 1500),
        ({"budget": {"maxDurationMin": 1}, "execution": {"timeoutMs": 30 * 24 * 60 * MINUTES}}, MINUTES),
        ({"budget": {"maxDurationMin": 90}}, 60 * MINUTES),
        ({"execution": {"timeoutMs": 61 * MINUTES}}, 60 * MINUTES),
        ({"execution": {"timeoutMs": 59 * MINUTES}}, 59 * MINUTES),
        ({"budget": {"maxDurationMin": "long"}, "execution": {"timeoutMs": -1}}, 10 * MINUTES),
        ({"limits": {"timeMs": 7, "pids": None}}, 7),
    ],
)
def test_the_time_is_the_executions_then_the_budgets_then_ten_minutes(fields, expected):
    """The time is found as the protocol says, and is never above the budget or an hour; no number says nothing."""
    view = view_of({**OLD, **fields}, ["bwrap"])

    assert view["limits"]["timeMs"] == expected
    assert view["limits"]["pids"] == 256


@pytest.mark.parametrize(
    ("isolation", "tiers", "tier"),
    [
        (None, ["bwrap"], "bwrap"),
        ("process", ["bwrap"], "bwrap"),
        ("process", ["bwrap", "process"], "process"),
        ("hermetic", ["bwrap"], "hermetic"),
        ("vercel-sandbox", ["bwrap"], "vercel-sandbox"),
        ("unheard-of", ["bwrap"], "unheard-of"),
        (7, ["bwrap"], "bwrap"),
    ],
)
def test_a_weaker_tier_is_served_by_the_sites_own_and_a_stronger_one_by_nothing_else(isolation, tiers, tier):
    """Nobody gets less than was asked for: what is not here stays named, and is refused."""
    assert view_of({**OLD, "isolation": isolation}, tiers)["tier"] == tier


def test_a_contract_that_says_everything_is_read_as_it_is():
    """What our own planes write is not changed by a word."""
    whole = view_of(OLD, ["bwrap"])

    assert view_of(whole, ["bwrap"]) == whole
