"""What is said of a sandbox without namespaces."""

import msgspec
import pytest

from tests.unit.isolation.test_verdicts import FACTS as NAMESPACED
from tests.unit.isolation.test_verdicts import PLAN, STATUS
from tipstaff.isolation import narrowed
from tipstaff.model.tiers import CLAUSES

TOLD = {"landlock": 7, "listed": False, "sockets": []}
FACTS = {**NAMESPACED, "told": TOLD, "ours": 0, "mode": "root"}
OURSELVES = {**FACTS, "ours": 1879048192, "mode": "plain"}


def strengths(facts):
    """The strength of every clause."""
    return {verdict.clause: verdict.strength for verdict in narrowed.judge(PLAN, facts)}


def test_one_as_it_should_be_has_no_breach():
    """Nothing is found where all is well, with a uid of its own or as ourselves behind Landlock."""
    assert narrowed.breaches(PLAN, FACTS) == []
    assert narrowed.breaches(PLAN, OURSELVES) == []


@pytest.mark.parametrize(
    "change",
    [
        {"status": {**STATUS, "Uid": "0\t0\t0\t0"}},
        {"status": {**STATUS, "CapEff": "0000000000000400"}},
        {"status": {**STATUS, "NoNewPrivs": "0"}},
        {"status": {**STATUS, "Seccomp": "0"}},
        {"told": {**TOLD, "sockets": [1]}},
        {"told": {**TOLD, "listed": True}},
        {"told": {}},
    ],
)
def test_what_is_missing_is_a_breach(change):
    """Root, capabilities, ways to more, no filter, sockets, and a Landlock that does not hold each stop the run."""
    assert narrowed.breaches(PLAN, {**FACTS, **change}) != []


def test_keys_in_reach_are_a_breach():
    """Without Landlock a command that runs as ourselves is refused; one with a uid of its own is only judged weaker."""
    without = {**TOLD, "landlock": 0, "listed": True}

    assert narrowed.breaches(PLAN, {**OURSELVES, "told": without}) == [narrowed.KEYS_IN_REACH]
    assert narrowed.breaches(PLAN, {**FACTS, "told": without}) == []
    assert strengths({**FACTS, "told": without})["files"] == "unenforceable"


def test_every_clause_is_judged_and_promised():
    """Both the verdicts of a run and the promise before it name every clause once."""
    settled = {"groups": {"version": 1, "controllers": ["memory"]}, "mode": "user", "landlock": 7}

    assert sorted(strengths(FACTS)) == sorted(CLAUSES)
    assert sorted(verdict.clause for verdict in narrowed.promised(settled)) == sorted(CLAUSES)


def test_less_is_said_where_less_holds():
    """As ourselves without groups, counts and time are weaker than with a uid and a group of its own."""
    bare = {**OURSELVES, "group": {}, "told": {**TOLD, "landlock": 5}}

    assert {name: strengths(FACTS)[name] for name in ("memory", "cpu", "pids", "time")} == dict.fromkeys(
        ("memory", "cpu", "pids", "time"), "enforced"
    )
    assert {name: strengths(bare)[name] for name in ("memory", "cpu", "pids", "time")} == {
        "memory": "weaker", "cpu": "unenforceable", "pids": "weaker", "time": "weaker",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sockets", "on_trust", "holds"), [([2, 10], True, True), ([2], False, False), ([1, 2], True, False)]
)
def test_only_who_is_trusted_with_the_network_has_sockets(sockets, on_trust, holds):
    """Sockets of the internet are for runs that were granted hosts; the host's services are out of reach for all."""
    plan = msgspec.structs.replace(PLAN, port=3128, on_trust=on_trust)

    assert (narrowed.breaches(plan, {**FACTS, "told": {**TOLD, "sockets": sockets}}) == []) is holds


def test_what_is_on_trust_is_said_to_be():
    """With hosts granted neither they nor the network are enforced; without, both are."""
    plan = msgspec.structs.replace(PLAN, port=3128, on_trust=True)
    trusted = {verdict.clause: verdict.strength for verdict in narrowed.judge(plan, FACTS)}

    assert (trusted["network"], trusted["hosts"]) == ("unenforceable", "unenforceable")
    assert (strengths(FACTS)["network"], strengths(FACTS)["hosts"]) == ("enforced", "enforced")
