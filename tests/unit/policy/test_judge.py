"""Claims about decisions as a whole."""

import random

import pytest

from tipstaff.canonical import digest
from tipstaff.model import Actor, Network, Request
from tipstaff.model.noun import NO_CONTENT, to_wire
from tipstaff.policy import Facts, decide, judge


def test_a_denial_lists_every_reason_at_once(ask):
    """All faults of a request are told together, sorted by rule and message."""
    decision = ask(
        {"rules": [], "principals": []},
        pool="x",
        secretNames=["A", "B"],
        network={"allowHosts": ["b.example", "a.example"]},
        isolation="?",
    )

    assert decision.rules == ("builtin.default-deny", "builtin.tier", "network.hosts", "pools", "principals", "secrets")
    pairs = [(reason.rule, reason.message) for reason in decision.reasons]
    assert pairs == sorted(set(pairs))
    assert decision.effective is None


def test_a_decision_says_by_which_policy_and_for_which_request(make_policy):
    """The decision carries the policy's name and hash, and the hash of the request."""
    policy = make_policy()
    request = Request(requested_by=Actor(kind="human", id="alice"))
    decision = decide(request, policy)

    assert (decision.policy, decision.policy_hash) == ("test", policy.hash)
    assert decision.request_hash == digest(to_wire(request))


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_what_cannot_be_recorded_is_refused(make_policy, text):
    """A request with half a character has no hash, hence no run; its whole twin has both."""
    policy = make_policy()
    broken = decide(Request(requested_by=Actor(kind="human", id="alice"), purpose=text), policy)
    whole = decide(Request(requested_by=Actor(kind="human", id="alice"), purpose="a"), policy)

    assert (broken.rules, broken.request_hash) == (("builtin.request",), NO_CONTENT)
    assert whole.effect == "allow"


@pytest.mark.parametrize("value", [2**53, 2**70, "\ud800"])
def test_a_manifest_that_cannot_be_recorded_is_refused(make_policy, value):
    """A workspace manifest with a value that JSON cannot carry exactly is refused, and one without is not."""
    actor, policy = Actor(kind="human", id="alice"), make_policy()

    assert decide(Request(requested_by=actor, workspace={"bytes": value}), policy).rules == ("builtin.request",)
    assert decide(Request(requested_by=actor, workspace={"bytes": 1}), policy).effect == "allow"


def test_the_order_of_a_file_does_not_show(make_policy):
    """Shuffling rules, grants, secrets and principals leaves every word of the decision as it was."""
    sections = {
        "rules": [
            {"id": f"rule-{number}", "effect": effect, "when": "any"}
            | ({"approvals": {"approvers": ["a"]}} if effect == "ask" else {})
            for number, effect in enumerate(["allow", "ask", "ask"])
        ],
        "principals": [{"id": "*"}, {"id": "builder"}],
        "network": {"hosts": [{"host": "a.example", "ports": [port]} for port in (80, 443, 8080)], "deny": ["x", "y"]},
        "secrets": [{"name": "*"}, {"name": "TOKEN"}, {"name": "TOK*"}],
    }
    request = Request(
        requested_by=Actor(kind="agent", id="builder"),
        secret_names=("TOKEN",),
        network=Network(allow_hosts=("a.example",)),
    )
    first, shuffler = decide(request, make_policy(**sections)), random.Random(7)  # noqa: S311 - an order, not a secret

    for _ in range(5):
        mixed = {
            key: shuffler.sample(value, len(value)) if isinstance(value, list) else value
            for key, value in sections.items()
        }
        again = decide(request, make_policy(**mixed))
        assert (again.effect, again.reasons, again.effective, again.requirements) == (
            first.effect, first.reasons, first.effective, first.requirements,
        )  # fmt: skip


def test_a_decision_is_a_value(make_policy):
    """Judging twice gives equal decisions, and `decide` is the judgement's decision."""
    policy, request = make_policy(), Request(requested_by=Actor(kind="human", id="alice"))

    assert decide(request, policy) == decide(request, policy) == judge(request, policy, Facts()).decision


def test_a_decision_travels(ask):
    """Every decision is plain JSON with a hash of its own."""
    policy = {
        "limits": {"memory": {"max": "1GiB"}},
        "reply": {"bytes": "1KiB"},
        "network": {"hosts": [{"host": "a.example", "max_bytes": "1MiB"}]},
        "secrets": [{"name": "TOKEN", "ttl": "10m"}],
    }
    decision = ask(policy, network={"allowHosts": ["a.example"]}, secretNames=["TOKEN"])

    assert len(digest(to_wire(decision))) == 64
