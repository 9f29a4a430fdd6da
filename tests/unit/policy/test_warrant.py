"""Claims about the protocol's own policy document: its fields are enforced, and an export says what it loses."""

import json
from typing import Any

import pytest

from tipstaff.canonical import digest
from tipstaff.errors import PolicyError
from tipstaff.model import parse_request
from tipstaff.policy import decide, load_policy
from tipstaff.policy.load import policy_from_value
from tipstaff.policy.warrant import exported

DOCUMENT: dict[str, Any] = {
    "version": "warrant.policy.v1",
    "runners": {"allowPools": ["default", "gpu"]},
    "agents": {"allow": ["command", "mock"]},
    "dataClasses": [{"dataClass": "code-diff", "allowPools": ["default"]}],
    "network": {"defaultDeny": True, "allowHosts": ["api.example.com"]},
    "secrets": {"releasable": [{"name": "TOKEN", "scope": "session", "pools": ["default"]}]},
    "budget": {"maxSpendUsd": 25, "maxDurationMin": 60},
    "consent": [
        {"when": "secret-release", "match": "TOKEN", "approvers": ["alice"]},
        {"when": "agent-kind", "match": "mock", "approvers": ["carol"]},
    ],
    "retention": {"receiptsDays": 30, "artifactsDays": 7},
}
SHELL = {"kind": "shell", "script": "ls"}


def ask(document: dict[str, Any] | None = None, **fields: Any):
    """Decide a request under the document."""
    request = parse_request(
        {"requestedBy": {"kind": "human", "id": "bob"}, "door": "protocol", "execution": SHELL} | fields
    )
    return decide(request, load_policy(json.dumps(document or DOCUMENT)))


def test_its_hash_is_that_of_the_json_itself():
    """The policy's hash is what the other implementation computes over the same document."""
    assert load_policy(json.dumps(DOCUMENT)).hash == digest(DOCUMENT)


@pytest.mark.parametrize(
    ("fields", "effect", "rule"),
    [
        ({}, "allow", "any-run"),
        ({"pool": "gpu"}, "allow", "any-run"),
        ({"pool": "other"}, "deny", "pools"),
        ({"agentKind": "codex"}, "deny", "agents"),
        ({"execution": None, "agentKind": "codex", "prompt": "x"}, "deny", "agents"),
        ({"execution": None, "agentKind": "mock", "prompt": "x"}, "ask", "consent-2"),
        ({"agentKind": "mock"}, "allow", "any-run"),
        ({"network": {"allowHosts": ["api.example.com"]}}, "allow", "any-run"),
        ({"network": {"allowHosts": ["example.com"]}}, "deny", "network.hosts"),
        ({"network": {"defaultDeny": False}}, "deny", "network.default-deny"),
        ({"secretNames": ["TOKEN"]}, "ask", "consent-1"),
        ({"secretNames": ["OTHER"]}, "deny", "secrets"),
        ({"secretNames": ["TOKEN"], "pool": "gpu"}, "deny", "secrets"),
        ({"files": {"readable": ["/srv"]}}, "deny", "files"),
        ({"execution": SHELL | {"env": {"inherit": ["LANG"]}}}, "deny", "env.inherit"),
    ],
)
def test_every_field_of_it_is_enforced(fields, effect, rule):
    """Pools, agents, hosts, secrets and consents each decide, and what the format cannot say is not granted."""
    decision = ask(**fields)

    assert decision.effect == effect
    assert rule in decision.rules


def test_its_numbers_are_enforced():
    """Budget, data classes and retention are in the effective terms."""
    effective = ask(budget={"maxSpendUsd": 99, "maxDurationMin": 999}, pool="gpu").effective

    assert (effective.budget.max_spend_usd, effective.limits.time_ms) == (25, 3_600_000)
    assert effective.withheld_classes == ("code-diff",)
    assert (effective.retention.receipts_days, effective.retention.artifacts_days) == (30, 7)


def test_approvers_are_taken_literally():
    """A star in an approver's name is a star, not everybody."""
    document = DOCUMENT | {"consent": [{"when": "any-run", "approvers": ["*"]}]}
    (requirement,) = ask(document).requirements

    assert requirement.approvers == (r"\*",)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"network": {"defaultDeny": True}},
        {"consent": [{"when": "any-run", "approvers": []}]},
        {"consent": [{"when": "sometimes", "approvers": ["alice"]}]},
        {"network": {"defaultDeny": True, "allowHosts": ["0x7f.1"]}},
        {"budget": {"maxDurationMin": "60"}},
    ],
)
def test_a_document_that_is_wrong_is_refused(change):
    """Unknown fields, missing ones, empty approver lists and odd hosts are errors; the document itself loads."""
    with pytest.raises(PolicyError):
        load_policy(json.dumps(DOCUMENT | change))
    load_policy(json.dumps(DOCUMENT))


def test_the_export_says_what_it_loses(make_policy):
    """What the format has no word for is listed, one sentence each."""
    policy = make_policy(
        safe_mode=True,
        restricted=["rm"],
        rules=[
            {"id": "no", "effect": "deny", "when": "any"},
            {"id": "git", "effect": "allow", "when": {"argv": [["git"]]}},
        ],
        network={"hosts": [{"host": "*.example.com", "ports": [443]}]},
    )
    value, lost = exported(policy)

    assert value["network"]["allowHosts"] == []
    text = "\n".join(lost)
    for words in ("safe_mode", "restricted", "`no` denies", "`git` allows only", "wildcard", "agents"):
        assert words in text


@pytest.mark.parametrize("change", [{}, {"consent": [{"when": "any-run", "approvers": ["alice"]}]}, {"budget": {}}])
def test_reading_and_writing_loses_nothing(change):
    """A document that was read is written as it was, and nothing is called lost."""
    document = DOCUMENT | change

    value, lost = exported(load_policy(json.dumps(document)))

    assert (digest(value), lost) == (digest(document), ())


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize(("section", "key"), [("budget", "maxDurationMin"), ("retention", "receiptsDays")])
def test_a_number_that_json_has_not_is_refused(section, key, number):
    """A document that was never JSON and holds such a number is an error of ours; with a number it loads."""
    with pytest.raises(PolicyError):
        policy_from_value(DOCUMENT | {section: {key: number}})
    policy_from_value(DOCUMENT | {section: {key: 1}})


SAYABLE = {"agents": ["command"], "disclosure": ["none", "metadata-only", "redacted", "minimal-context", "full"]}
EVERYTHING = {"id": "everything", "effect": "allow", "when": "any"}
HOST = {"host": "a.example", "opaque": True}
SECRET = {"name": "TOKEN", "pools": ["default"]}
CONSENT = {"id": "first", "effect": "ask", "when": "any", "approvals": {"approvers": ["alice", "bob"]}}


@pytest.mark.parametrize(
    ("section", "said", "unsaid"),
    [
        ("network", {"hosts": [HOST]}, {"hosts": [HOST], "deny": ["a.example"]}),
        ("network", {"hosts": [HOST]}, {"hosts": [HOST | {"principals": ["alice"]}]}),
        ("network", {"hosts": [HOST | {"id": "api"}]}, {"hosts": [HOST | {"ask": True}]}),
        ("network", {"hosts": [HOST]}, {"hosts": [HOST | {"max_bytes": 1}]}),
        ("secrets", [SECRET], [SECRET | {"principals": ["alice"]}]),
        ("secrets", [SECRET], [SECRET | {"ttl": "1m"}]),
        ("rules", [EVERYTHING], []),
        ("rules", [EVERYTHING | {"reason": "why not"}], [EVERYTHING | {"except": [{"kinds": ["shell"]}]}]),
        ("rules", [EVERYTHING], [EVERYTHING | {"tier": "microvm"}]),
        (
            "rules",
            [EVERYTHING, CONSENT],
            [EVERYTHING, CONSENT | {"approvals": {"approvers": ["alice", "bob"], "quorum": 2}}],
        ),
        ("rules", [EVERYTHING, CONSENT], [EVERYTHING, CONSENT | {"approvals": {"approvers": ["*"]}}]),
        ("limits", {"time": {"max": "10m"}}, {"memory": {"max": "1MiB"}}),
        ("pools", ["default"], ["gpu-*"]),
    ],
)
def test_an_export_is_never_wider_in_silence(make_policy, section, said, unsaid):
    """Whatever does not come back when the export is read again is told; what does come back is not."""
    assert exported(make_policy(**SAYABLE | {section: said})).lost == ()
    assert {sentence.split(":")[0] for sentence in exported(make_policy(**SAYABLE | {section: unsaid})).lost} == {
        section
    }
