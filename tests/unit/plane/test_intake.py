"""A request becomes a refusal, a contract, or a contract that waits; each is signed, chained and in the journal."""

import json

import pytest

from tests.unit.plane.embedded import ANNA, ASKING, PLANE, REQUEST, START
from tipstaff.canonical import digest
from tipstaff.errors import InputError
from tipstaff.evidence import verify
from tipstaff.evidence.seal import payload_digest
from tipstaff.model import Egress, EgressRule
from tipstaff.model.facts import Facts
from tipstaff.model.times import timestamp
from tipstaff.plane import Queued, Refused, Waiting

DENYING = {"rules": [{"id": "no-make", "effect": "deny", "when": "any", "reason": "not here"}]}
MANIFEST = {"version": "warrant.manifest.v1", "baseRef": "c0ffee", "bundleHash": "1" * 64, "dirtyDiffHash": None}


def test_a_denied_request_leaves_a_signed_refusal(make_site):
    """A denial gives a refusal that verifies, names its rules and is in the journal; there is no run."""
    site = make_site(DENYING)
    outcome = site.plane.submit(REQUEST)

    assert isinstance(outcome, Refused)
    assert outcome.refusal["rules"] == ["no-make"]
    assert outcome.refusal["reasons"] == ["no-make: not here"]
    assert verify(outcome.refusal, [PLANE.public]).verdict == "valid"
    assert [line["id"] for line in site.plane.history()] == [outcome.refusal["id"]]
    assert site.plane.refusals() == [outcome.refusal]
    assert site.plane.journal()["entries"][0]["digest"] == payload_digest(outcome.refusal)


def test_an_allowed_request_becomes_a_contract(site):
    """An allowed request gives a signed contract that can be claimed, with its first two events."""
    outcome = site.plane.submit(REQUEST)

    assert isinstance(outcome, Queued)
    run = site.plane.run(outcome.run_id)
    assert run["status"] == "created"
    assert [link["event"]["type"] for link in run["events"]] == ["run.created", "policy.evaluated"]
    assert run["events"][0]["prev"] == payload_digest(outcome.contract)
    assert site.plane.journal()["entries"][0]["digest"] == payload_digest(outcome.contract)


def test_a_request_that_policy_asks_about_waits(make_site):
    """Where policy asks, the contract is there and cannot be claimed."""
    site = make_site(ASKING)
    outcome = site.plane.submit(REQUEST)

    assert isinstance(outcome, Waiting)
    assert outcome.contract_hash == payload_digest(outcome.contract)
    assert [one.rule for one in outcome.requirements] == ["ask-boris"]
    events = [link["event"] for link in site.plane.run(outcome.run_id)["events"]]
    assert events[2] == {"type": "consent.requested", "requirement": "ask-boris: 1 of boris@example.com"}
    assert site.claim() == {"empty": True}


def test_the_journal_tells_of_everything(make_site):
    """Refusals and contracts stand in one journal that verifies at any moment."""
    site = make_site()
    for command in ("make", "ls", "git"):
        site.submit(execution={"kind": "argv", "command": command})
        assert verify(site.plane.journal(), [PLANE.public]).verdict == "valid"


@pytest.mark.parametrize("request_", [{}, {"requestedBy": ANNA, "surprise": 1}, [], None, "run this"])
def test_a_malformed_request_is_an_error_and_leaves_nothing(site, request_):
    """What does not parse is refused with its place, and nothing is written down."""
    with pytest.raises(InputError, match="the request is malformed"):
        site.plane.submit(request_)
    assert site.plane.journal() is None


@pytest.mark.parametrize("manifest", [{}, {"version": "warrant.manifest.v1"}, {**MANIFEST, "version": "v2"}])
def test_a_workspace_that_is_no_manifest_is_an_error(site, manifest):
    """A manifest that no verifier could read is not signed."""
    with pytest.raises(InputError, match="workspace"):
        site.plane.submit({**REQUEST, "workspace": manifest or {"a": 1}})


def test_the_manifest_is_signed_as_it_came(site):
    """Not a null of the caller's manifest is changed, because its hash is known to others."""
    outcome = site.plane.submit({**REQUEST, "workspace": MANIFEST})

    assert outcome.contract["workspace"] == MANIFEST


def test_without_a_manifest_the_workspace_is_an_empty_tree(site):
    """A run without a workspace has a manifest all the same."""
    contract = site.plane.submit(REQUEST).contract

    assert (contract["workspace"]["kind"], contract["workspace"]["baseRef"]) == ("tree", digest([]))


def test_the_contract_says_what_was_decided_not_what_was_asked(make_site):
    """Clamped limits, granted egress rules, leases and tiers stand in the contract; wishes beyond them do not."""
    site = make_site(
        {
            "limits": {"time": {"default": "1m", "max": "2m"}},
            "network": {"hosts": [{"id": "api", "host": "*.example.com", "ports": [443]}]},
            "secrets": [{"name": "TOKEN", "scope": "session"}],
            "env": {"inherit": ["LANG"]},
            "contract": {"life": "10m"},
        }
    )
    request = {
        **REQUEST,
        "execution": {
            "kind": "argv",
            "command": "make",
            "timeoutMs": 86_400_000,
            "env": {"inherit": ["LANG"], "vars": {"A": "1"}},
        },
        "egress": {"rules": [{"host": "api.example.com", "ports": [443]}]},
        "secretNames": ["TOKEN"],
        "tool": "run",
        "door": "cli",
    }
    outcome = site.plane.submit(request)
    contract = outcome.contract

    assert contract["execution"]["timeoutMs"] == contract["limits"]["timeMs"] == 120_000
    assert contract["budget"]["maxDurationMin"] == 2
    assert contract["execution"]["env"]["inherit"] == ["LANG"]
    assert contract["network"] == {"defaultDeny": True, "allowHosts": ["api.example.com"]}
    assert contract["egress"]["rules"][0]["ports"] == [443]
    assert contract["secrets"][0]["name"] == "TOKEN"
    assert contract["secrets"][0]["lease"]["way"] == "env"
    assert (contract["tier"], contract["minimumTier"]) == ("bwrap", "bwrap")
    assert (contract["principal"], contract["tool"], contract["door"]) == ("anna@example.com", "run", "cli")
    assert contract["policyHash"] == site.authority.policy.hash
    assert contract["expiresAt"] == timestamp(START + 600_000)
    assert "null" not in json.dumps(contract)
    assert Egress(rules=(EgressRule(host="api.example.com"),)).rules  # the wish was of that form


def test_the_contract_says_how_well_each_clause_must_hold(make_site):
    """Every clause in play has its least strength in the contract, as low as the policy tolerates and no lower."""
    contract = make_site({"tiers": {"tolerate": {"memory": "weaker"}}}).plane.submit(REQUEST).contract
    demanded = {demand["clause"]: demand["strength"] for demand in contract["demands"]}

    assert demanded["memory"] == "weaker"
    assert demanded["network"] == "enforced"
    assert {"hosts", "secrets", "restricted"}.isdisjoint(demanded)


def test_the_agent_is_the_one_that_would_run(site):
    """A label beside an explicit execution does not reach the contract."""
    contract = site.plane.submit({**REQUEST, "agentKind": "claude-code"}).contract

    assert contract["agent"] == {"kind": "command"}


def test_an_agent_keeps_its_prompt(site):
    """An agent's run names its kind, its version and its prompt."""
    run = {"kind": "agent", "agent": {"kind": "codex", "version": "1"}, "prompt": "mend it"}
    contract = site.plane.submit({**REQUEST, "execution": run}).contract

    assert contract["agent"] == {"kind": "codex", "version": "1"}
    assert contract["task"] == {"prompt": "mend it"}


def test_expiry_covers_the_wait(make_site):
    """Where people are asked, the contract lasts for their time and its own."""
    outcome = make_site(ASKING).plane.submit(REQUEST)

    assert outcome.contract["expiresAt"] == timestamp(START + 86_400_000 + 3_600_000)


def test_what_was_decided_can_be_replayed(make_site):
    """The request and the policy are kept under the digests that the contract, or the refusal, names."""
    allowed = make_site().plane.submit(REQUEST).contract
    site = make_site(DENYING)
    refused = site.plane.submit(REQUEST).refusal

    for document in (allowed, refused):
        policy = json.loads(site.store.blobs.get(document["policyHash"]))
        assert digest(policy) == document["policyHash"]
        assert json.loads(site.store.blobs.get(document["requestHash"]))["requestedBy"] == ANNA


def test_the_doors_facts_are_heard(site):
    """A request in another's name than the door proved is refused, and the twin in the own name is not."""
    assert isinstance(site.plane.submit(REQUEST, Facts(authenticated="eve@example.com")), Refused)
    assert isinstance(site.plane.submit(REQUEST, Facts(authenticated="anna@example.com")), Queued)


def test_what_has_no_canonical_form_is_refused(site):
    """A request with text that no hash can cover is denied, and the denial is kept."""
    outcome = site.plane.submit({**REQUEST, "purpose": "\ud800"})

    assert isinstance(outcome, Refused)
    assert verify(outcome.refusal, [PLANE.public]).verdict == "valid"
