"""Claims about approvals; every refusal has its permitted twin."""

from typing import Any

import pytest

from tipstaff.model import Actor, Requirement
from tipstaff.model.noun import VERSION_APPROVAL
from tipstaff.model.records import Approval
from tipstaff.policy.approvals import approved

CONTRACT = "c" * 64
NOW = "2026-01-01T12:00:00.000Z"
REQUESTER = Actor(kind="human", id="bob")


def requirement(**fields: Any) -> Requirement:
    """Make a requirement of one approval by alice or carol."""
    demand: dict[str, Any] = {"rule": "ask", "approvers": ("alice", "carol", "bob"), "expires_seconds": 7200}
    return Requirement(**demand | fields)


def approval(who: str = "alice", **fields: Any) -> Approval:
    """Make an approval that is good for an hour."""
    given: dict[str, Any] = {
        "version": VERSION_APPROVAL, "contract_hash": CONTRACT, "actor": Actor(kind="human", id=who),
        "key_id": "ed25519:" + "0" * 16, "assurance": "key", "expires_at": "2026-01-01T13:00:00.000Z", "sig": "",
    }  # fmt: skip
    return Approval(**given | fields)


def count(requirements: list[Requirement], approvals: list[Approval]) -> int:
    """Count the requirements that are not met."""
    return len(approved(requirements, approvals, requested_by=REQUESTER, contract_hash=CONTRACT, now=NOW))


@pytest.mark.parametrize(
    ("demand", "given", "met"),
    [
        ({}, [], False),
        ({}, [approval()], True),
        ({}, [approval("mallory")], False),
        ({"approvers": ("sec-*",)}, [approval("sec-1")], True),
        ({}, [approval(contract_hash="d" * 64)], False),
        ({}, [approval("bob")], False),
        ({"separate": False}, [approval("bob")], True),
        ({"quorum": 2}, [approval(), approval(sig="again")], False),
        ({"quorum": 2}, [approval(), approval("carol")], True),
        ({"quorum": 2}, [approval(), approval("bob")], False),
        ({"assurance": "key"}, [approval(assurance="console")], False),
        ({"assurance": "key"}, [approval(assurance="key")], True),
        ({"assurance": "key"}, [approval(assurance="hardware")], True),
        ({}, [approval(expires_at=NOW)], False),
        ({}, [approval(expires_at="2026-01-01T12:00:00.001Z")], True),
        ({}, [approval(expires_at="2026-01-02T12:00:00.000Z")], False),
        ({}, [approval(expires_at="2026-02-31T12:00:00.000Z")], False),
        ({}, [approval(actor=Actor(kind="agent", id="alice"))], False),
        ({}, [approval(actor=Actor(kind="service", id="alice"))], True),
        ({"quorum": 2}, [approval(), approval(actor=Actor(kind="service", id="alice"))], False),
    ],
)
def test_an_approval_counts_when_it_is_the_right_one(demand, given, met):
    """An approval counts by a listed actor, over this contract, sure enough, in time, and not by the requester."""
    assert (count([requirement(**demand)], given) == 0) is met


def test_each_requirement_is_met_by_itself():
    """One approval does not meet a requirement that lists somebody else."""
    both = [requirement(rule="one", approvers=("alice",)), requirement(rule="two", approvers=("carol",))]

    assert count(both, [approval()]) == 1
    assert count(both, [approval(), approval("carol")]) == 0


def test_a_shortfall_says_what_is_missing_and_why():
    """The sentence names the rule, the approvers and what was wrong with the approvals at hand."""
    (short,) = approved([requirement()], [approval("bob")], requested_by=REQUESTER, contract_hash=CONTRACT, now=NOW)

    assert short.message == "ask needs 1 approval(s) by alice or carol or bob and has 0 ('bob' asked for it)"


def test_without_requirements_nothing_is_missing():
    """A contract that asks nobody needs no approvals."""
    assert count([], []) == 0
