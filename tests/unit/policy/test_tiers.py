"""Claims about tiers: never below the minimum, never what the host cannot enforce, and every change is said."""

from typing import Any

import pytest

from tipstaff.model import TierReport, Verdict
from tipstaff.model.tiers import at_best
from tipstaff.policy import Facts

DISK = {"tolerate": {"disk": "weaker"}}
ALL = Facts(tiers=tuple(at_best(name) for name in ("process", "bwrap", "hermetic", "gvisor", "microvm")))
MISSING = TierReport(name="bwrap", available=False, missing="install bubblewrap")


def tiers(**fields: Any) -> dict[str, Any]:
    """Make a tiers section."""
    return {"tiers": DISK | fields}


@pytest.mark.parametrize(
    ("section", "asked", "tier", "said"),
    [
        ({}, None, "bwrap", False),
        ({}, "gvisor", "gvisor", False),
        ({}, "process", "bwrap", True),
        ({"minimum": "gvisor"}, None, "gvisor", True),
        ({"minimum": "gvisor"}, "bwrap", "gvisor", True),
        ({"minimum": "gvisor"}, "microvm", "microvm", False),
        ({"minimum": "process", "default": "process"}, None, "process", False),
        ({"minimum": "hermetic"}, "bwrap", "gvisor", True),
        ({"default": "auto"}, None, "bwrap", False),
        ({}, "auto", "bwrap", False),
    ],
)
def test_a_tier_is_raised_to_the_minimum(ask, section, asked, tier, said):
    """A requester's choice counts only above the minimum, and a raise is a reason."""
    decision = ask(tiers(**section), isolation=asked)

    assert decision.effective.tier == tier
    assert ("tiers.minimum" in decision.rules) is said


def test_a_rule_raises_the_minimum_for_what_it_matches(ask):
    """The strongest of the policy's minimum and the matching rules' is the minimum."""
    rules = [
        {"id": "everything", "effect": "allow", "when": "any"},
        {"id": "careful", "effect": "allow", "when": {"kinds": ["shell"]}, "tier": "microvm"},
    ]
    shell = ask({"rules": rules}, execution={"kind": "shell", "script": "x"}).effective

    assert (shell.tier, shell.minimum_tier) == ("microvm", "microvm")
    assert ask({"rules": rules}).effective.minimum_tier == "bwrap"


@pytest.mark.parametrize("name", ["docker", "vercel-sandbox", "", "BWRAP", "bwrap\0"])
def test_an_unknown_tier_is_refused(ask, name):
    """A tier that is not ours is a denial; an empty name is none and takes the default."""
    decision = ask({}, isolation=name)

    assert decision.rules == (("builtin.tier",) if name else ("everything",))


@pytest.mark.parametrize(
    ("execution", "tier"),
    [({"kind": "shell", "script": "x"}, "gvisor"), ({"kind": "python", "source": "x"}, "gvisor")],
)
def test_auto_is_the_least_tier_that_enforces_everything(ask, execution, tier):
    """Bubblewrap's disk and hermetic's share are weaker, so the next tier is taken; a host with less gets less."""
    assert ask(tiers(), ALL, isolation="auto", execution=execution).effective.tier == tier
    only = Facts(tiers=(at_best("bwrap"),))
    assert ask(tiers(), only, isolation="auto", execution=execution).effective.tier == "bwrap"


def test_auto_takes_hermetic_for_python_alone(ask):
    """A tier that runs only Python is never chosen for a command."""
    full = [verdict.clause for verdict in at_best("hermetic").verdicts]
    hermetic = TierReport(
        name="hermetic", verdicts=tuple(Verdict(clause=clause, strength="enforced") for clause in full)
    )
    facts = Facts(tiers=(at_best("gvisor"), hermetic))

    assert (
        ask(tiers(), facts, isolation="auto", execution={"kind": "python", "source": "x"}).effective.tier == "hermetic"
    )
    assert ask(tiers(), facts, isolation="auto").effective.tier == "gvisor"


@pytest.mark.parametrize("reports", [(MISSING,), (at_best("gvisor"),)])
def test_a_tier_that_is_not_here_is_refused(ask, reports):
    """A tier that the host lacks is a denial, and nothing weaker or other takes its place by itself."""
    decision = ask(tiers(), Facts(tiers=reports))

    assert decision.rules == ("builtin.tier",)
    assert "not available" in decision.reasons[0].message
    assert ask(tiers(), ALL).effect == "allow"


def test_what_is_missing_is_said(ask):
    """The denial repeats what the host says about how to get the tier."""
    assert "install bubblewrap" in ask(tiers(), Facts(tiers=(MISSING,))).reasons[0].message


def test_a_named_fallback_is_used_and_said(ask):
    """Where the policy names a fallback that is here and tolerable, it is used and the reason says so."""
    section: dict[str, Any] = {
        "minimum": "process",
        "fallback": "process",
        "tolerate": dict.fromkeys(("network", "hosts"), "unenforceable"),
    }
    section["tolerate"] |= dict.fromkeys(("memory", "cpu", "pids", "disk", "files", "secrets"), "weaker")
    decision = ask({"tiers": section}, Facts(tiers=(MISSING, at_best("process"))))

    assert (decision.effective.tier, decision.effective.fallback) == ("process", "process")
    assert "tiers.fallback" in decision.rules
    assert ask({"tiers": section}, Facts(tiers=(MISSING,))).effect == "deny"


def test_a_fallback_must_be_tolerable(ask):
    """A fallback that leaves a clause open is refused unless the policy tolerates that."""
    section = {"minimum": "process", "fallback": "process"} | DISK
    decision = ask({"tiers": section}, Facts(tiers=(MISSING, at_best("process"))))

    assert decision.rules == ("tiers.tolerate",)
    assert any("network only as unenforceable" in reason.message for reason in decision.reasons)


def test_a_rule_that_demands_more_takes_the_fallback_away(ask):
    """A fallback below the minimum of a matching rule is no fallback."""
    rules = [{"id": "everything", "effect": "allow", "when": "any", "tier": "gvisor"}]
    policy = {"tiers": DISK | {"fallback": "bwrap"}}
    facts = Facts(tiers=(at_best("bwrap"), TierReport(name="gvisor", available=False)))

    assert ask(policy | {"rules": rules}, facts).rules == ("builtin.tier",)
    assert ask(policy | {"rules": rules}).effective.fallback is None
    assert ask(policy).effective.fallback == "bwrap"


@pytest.mark.parametrize(
    ("tolerate", "allowed"),
    [
        ({}, True),
        ({"disk": "weaker"}, True),
        ({"disk": "unenforceable"}, True),
        ({"disk": "enforced"}, False),
        ({"cpu": "weaker", "disk": "enforced"}, False),
    ],
)
def test_a_weaker_clause_must_be_tolerated(ask, tolerate, allowed):
    """A clause that the tier holds only in part refuses the run unless the policy tolerates that much."""
    decision = ask({"tiers": {"tolerate": tolerate}}, ALL)

    assert decision.rules == (("everything",) if allowed else ("tiers.tolerate",))


def test_silence_is_not_enforcement(ask):
    """A tier that says nothing about a clause does not enforce it."""
    decision = ask(tiers(), Facts(tiers=(TierReport(name="bwrap"),)))

    assert decision.rules == ("tiers.tolerate",)


def test_only_clauses_in_play_are_asked(ask):
    """Hosts and secrets count when the run has them, and every verdict is in the decision."""
    policy = tiers() | {"network": {"hosts": [{"host": "a.example"}]}, "secrets": [{"name": "TOKEN"}]}
    plain = ask(policy, ALL).effective.verdicts
    more = ask(policy, ALL, network={"allowHosts": ["a.example"]}, secretNames=["TOKEN"]).effective.verdicts

    assert {verdict.clause for verdict in more} - {verdict.clause for verdict in plain} == {"hosts", "secrets"}
    assert ask(policy).effective.verdicts == ()


@pytest.mark.parametrize(
    ("execution", "mask", "strength"),
    [
        ({"kind": "argv", "command": "ls"}, False, "weaker"),
        ({"kind": "argv", "command": "ls"}, True, "enforced"),
        ({"kind": "shell", "script": "ls"}, False, "weaker"),
        ({"kind": "python", "source": "x"}, False, "weaker"),
        ({"kind": "shell", "script": "ls"}, True, "enforced"),
    ],
)
def test_restricted_names_are_held_as_well_as_is_said(ask, execution, mask, strength):
    """What a program may start inside is weaker, unless the names are masked there."""
    policy = {"restricted": {"names": ["rm"], "mask": mask}}
    verdicts = ask(policy, ALL, execution=execution).effective.verdicts

    assert next(verdict.strength for verdict in verdicts if verdict.clause == "restricted") == strength


def test_a_tier_that_cannot_mask_does_not_claim_to(ask):
    """The process tier cannot hide a program, whatever the policy says."""
    tolerate = dict.fromkeys(("network", "hosts"), "unenforceable")
    tolerate |= dict.fromkeys(("memory", "cpu", "pids", "disk", "files", "secrets", "restricted"), "weaker")
    policy = {
        "restricted": {"names": ["rm"], "mask": True},
        "tiers": {"default": "process", "minimum": "process", "tolerate": tolerate},
    }
    verdicts = ask(policy, ALL, execution={"kind": "shell", "script": "x"}).effective.verdicts

    assert next(verdict.strength for verdict in verdicts if verdict.clause == "restricted") == "weaker"


def demanded(decision):
    """Say how well each clause must hold in the sandbox."""
    return {demand.clause: demand.strength for demand in decision.effective.demands}


@pytest.mark.parametrize("facts", [None, ALL])
def test_every_clause_in_play_is_demanded(ask, facts):
    """Each clause of the run, and no other, has its least strength, whether or not the host was asked before."""
    policy = tiers() | {"network": {"hosts": [{"host": "a.example"}]}, "secrets": [{"name": "TOKEN"}]}
    plain = demanded(ask(policy, facts))
    more = demanded(ask(policy, facts, network={"allowHosts": ["a.example"]}, secretNames=["TOKEN"]))

    assert plain == {
        clause: "weaker" if clause == "disk" else "enforced"
        for clause in ("network", "memory", "cpu", "pids", "disk", "time", "output", "files")
    }
    assert more == plain | {"hosts": "enforced", "secrets": "enforced"}


@pytest.mark.parametrize(("tolerate", "strength"), [({}, "enforced"), ({"network": "unenforceable"}, "unenforceable")])
def test_a_demand_is_as_low_as_the_policy_tolerates_and_no_lower(ask, tolerate, strength):
    """What the policy tolerates is what is demanded; a policy that says nothing demands enforcement."""
    assert demanded(ask({"tiers": {"tolerate": tolerate}}))["network"] == strength


def test_a_demand_and_a_denial_agree(ask):
    """A host whose verdicts all meet the demands is allowed; one that misses any of them is denied."""
    wanted = ask({}).effective.demands
    enough = TierReport(
        name="bwrap", verdicts=tuple(Verdict(clause=one.clause, strength=one.strength) for one in wanted)
    )
    assert ask({}, Facts(tiers=(enough,))).effect == "allow"
    for missing in wanted:
        rest = tuple(one for one in enough.verdicts if one.clause != missing.clause)
        assert ask({}, Facts(tiers=(TierReport(name="bwrap", verdicts=rest),))).rules == ("tiers.tolerate",)
