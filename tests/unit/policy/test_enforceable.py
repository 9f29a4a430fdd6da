"""Claims about what a tier makes of a policy."""

from tipstaff.model import TierReport
from tipstaff.model.tiers import CLAUSES, at_best
from tipstaff.policy.enforceable import enforceable


def answers(policy, report):
    """Give the answer for each clause."""
    return {one.clause: one.answer for one in enforceable(policy, report)}


def test_every_clause_is_answered(make_policy):
    """There is one answer for each clause there is, in the order of the contract."""
    assert [one.clause for one in enforceable(make_policy(), at_best("bwrap"))] == list(CLAUSES)


def test_a_weaker_clause_is_refused_unless_tolerated(make_policy):
    """Bubblewrap's disk bound is refused by a policy that says so, and tolerated by others."""
    strict = make_policy(tiers={"tolerate": {"disk": "enforced"}})

    assert answers(strict, at_best("bwrap"))["disk"] == "refused"
    assert answers(make_policy(), at_best("bwrap"))["disk"] == "tolerated"
    assert answers(make_policy(tiers={"tolerate": {"cpu": "weaker"}}), at_best("bwrap"))["disk"] == "tolerated"
    assert answers(make_policy(), at_best("gvisor"))["disk"] == "holds"


def test_what_a_policy_does_not_grant_needs_no_clause(make_policy):
    """Hosts, secrets and restricted names count only where the policy has them."""
    plain = answers(make_policy(), at_best("process"))
    more = answers(
        make_policy(network={"hosts": [{"host": "a.example"}]}, secrets=[{"name": "TOKEN"}], restricted=["rm"]),
        at_best("process"),
    )

    assert {plain[clause] for clause in ("hosts", "secrets", "restricted")} == {"not-needed"}
    assert [more[clause] for clause in ("hosts", "secrets", "restricted")] == ["refused", "refused", "tolerated"]


def test_masked_names_hold_where_the_tier_can_mask(make_policy):
    """With `mask` the names hold in bubblewrap, and still not in the process tier; a strict policy refuses that."""
    strict = {"tolerate": {"restricted": "enforced"}}
    masked = make_policy(restricted={"names": ["rm"], "mask": True}, tiers=strict)

    assert answers(masked, at_best("bwrap"))["restricted"] == "holds"
    assert answers(masked, at_best("process"))["restricted"] == "refused"
    assert answers(make_policy(restricted=["rm"], tiers=strict), at_best("bwrap"))["restricted"] == "refused"
    assert answers(make_policy(restricted=["rm"]), at_best("bwrap"))["restricted"] == "tolerated"


def test_silence_holds_nothing(make_policy):
    """A tier that says nothing about a clause does not enforce it, and each answer is a sentence."""
    found = enforceable(make_policy(), TierReport(name="bwrap"))

    assert {one.answer for one in found if one.answer != "not-needed"} == {"refused"}
    assert found[0].message == "network: unenforceable, so runs that need it are refused (the tier does not say)"
