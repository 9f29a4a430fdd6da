"""The policy faults of the systems that Tipstaff replaces, tried on ours; each attack has its permitted twin."""

import json
from typing import Any

import pytest

from tipstaff.errors import PolicyError
from tipstaff.model import Actor, parse_request
from tipstaff.model.noun import VERSION_APPROVAL
from tipstaff.model.records import Approval
from tipstaff.model.tiers import at_best
from tipstaff.policy import Facts, decide, load_policy
from tipstaff.policy.approvals import approved
from tipstaff.policy.shipped import shipped

WARRANT: dict[str, Any] = {
    "version": "warrant.policy.v1",
    "runners": {"allowPools": ["default"]},
    "agents": {"allow": ["mock"]},
    "dataClasses": [{"dataClass": "code-diff", "allowPools": ["eu"]}],
    "network": {"defaultDeny": True, "allowHosts": ["api.example.com"]},
    "secrets": {"releasable": []},
    "budget": {"maxSpendUsd": 5, "maxDurationMin": 10},
    "consent": [],
    "retention": {"receiptsDays": 30, "artifactsDays": 7},
}
BASE: dict[str, Any] = {
    "version": "tipstaff.policy.v1",
    "name": "site",
    "principals": [{"id": "builder"}, {"id": "alice", "kinds": ["human"]}],
    "rules": [{"id": "everything", "effect": "allow", "when": "any"}],
}
SHELL = {"kind": "shell", "script": "id"}
MOCK = {"kind": "agent", "agent": {"kind": "mock"}, "prompt": "work"}


def ask(document: dict[str, Any], facts: Facts | None = None, **fields: Any) -> Any:
    """Decide a request of the builder under a policy document."""
    request = {"requestedBy": {"kind": "agent", "id": "builder"}, "execution": SHELL} | fields
    return decide(parse_request(request), load_policy(json.dumps(document)), facts or Facts())


@pytest.mark.parametrize(("asked", "effect"), [(False, "deny"), (True, "allow")])
def test_a_request_cannot_open_the_network(asked, effect):
    """Flaw 1: `defaultDeny: false` in a request is refused under a policy that denies by default."""
    network = {"defaultDeny": asked, "allowHosts": ["api.example.com"]}

    decision = ask(WARRANT, agentKind="mock", execution=MOCK, network=network)

    assert decision.effect == effect
    assert effect == "deny" or decision.effective.default_deny


@pytest.mark.parametrize(
    ("execution", "label", "effect"),
    [
        (MOCK, "mock", "allow"),
        (SHELL, "mock", "deny"),
        ({"kind": "argv", "command": "id"}, "mock", "deny"),
        (MOCK, "command", "deny"),
    ],
)
def test_a_label_does_not_carry_another_execution(execution, label, effect):
    """Flaw 2: the agent kind of the execution is judged, and the label besides it too."""
    assert ask(WARRANT, agentKind=label, execution=execution).effect == effect


@pytest.mark.parametrize(("execution", "effect"), [(SHELL, "ask"), (MOCK, "allow")])
def test_a_consent_rule_sees_the_execution(execution, effect):
    """Flaw 2: a rule that asks for commands asks whatever the label says."""
    rule = {"id": "commands", "effect": "ask", "when": {"agents": ["command"]}, "approvals": {"approvers": ["alice"]}}

    assert ask(BASE | {"rules": [*BASE["rules"], rule]}, agentKind="mock", execution=execution).effect == effect


@pytest.mark.parametrize(("name", "effect"), [("AWS_SECRET_ACCESS_KEY", "deny"), ("LANG", "allow")])
def test_the_hosts_variables_are_not_for_the_asking(name, effect):
    """Flaw 3: only names that the policy lists are inherited."""
    execution = SHELL | {"env": {"inherit": [name]}}

    assert ask(BASE | {"env": {"inherit": ["LANG"]}}, execution=execution).effect == effect


@pytest.mark.parametrize(
    ("environment", "effect"),
    [
        ({"egressProxy": False}, "allow"),
        ({"vars": {"HTTP_PROXY": "http://evil.example"}}, "deny"),
        ({"vars": {"https_proxy": "x"}}, "deny"),
        ({"vars": {"PATH": "/srv"}}, "deny"),
        ({"vars": {"HOME": "/root"}}, "deny"),
        ({"vars": {"SSL_CERT_FILE": "/srv/ca"}}, "deny"),
        ({"secrets": [{"env": "LD_PRELOAD", "secretName": "TOKEN"}]}, "deny"),
        ({"vars": {"DEBUG": "1"}}, "allow"),
    ],
)
def test_the_gate_cannot_be_turned_off_or_around(environment, effect):
    """Flaw 4: without the proxy there is no network at all, and no request sets the variables that lead to it."""
    decision = ask(BASE | {"network": {"default_deny": False}}, execution=SHELL | {"env": environment})

    assert decision.effect == effect
    if not environment.get("egressProxy", True):
        assert (decision.effective.default_deny, decision.effective.egress) == (True, ())


@pytest.mark.parametrize(("proxied", "effect"), [(True, "allow"), (False, "deny")])
def test_there_is_no_way_out_beside_the_gate(proxied, effect):
    """Flaw 4: hosts without the proxy are a contradiction and refused, not a network without a gate."""
    document = BASE | {"network": {"hosts": [{"host": "api.example.com"}]}}
    execution = SHELL | {"env": {"egressProxy": proxied}}

    assert ask(document, execution=execution, network={"allowHosts": ["api.example.com"]}).effect == effect


@pytest.mark.parametrize(
    ("timeout", "minutes", "granted"),
    [(3_600_000, None, 600_000), (3_600_000, 2, 120_000), (60_000, 5, 60_000), (None, 99, 600_000)],
)
def test_a_timeout_stays_below_the_ceiling(timeout, minutes, granted):
    """Flaw 5: the execution's own timeout is compared with the budget and with the policy's maximum."""
    execution = MOCK | ({"timeoutMs": timeout} if timeout else {})
    budget = {"maxDurationMin": minutes} if minutes else {}

    assert ask(WARRANT, agentKind="mock", execution=execution, budget=budget).effective.limits.time_ms == granted


@pytest.mark.parametrize(("asked", "tier"), [("process", "gvisor"), (None, "gvisor"), ("microvm", "microvm")])
def test_a_weaker_sandbox_is_not_the_requesters_choice(asked, tier):
    """Flaw 6: the policy's minimum tier holds, whatever is asked for."""
    assert ask(BASE | {"tiers": {"minimum": "gvisor"}}, isolation=asked).effective.tier == tier


def test_every_field_that_is_declared_is_enforced():
    """Flaw 6: data classes, spending, retention, disclosure and approvers all reach the decision."""
    document = WARRANT | {"consent": [{"when": "any-run", "approvers": ["alice"]}]}
    decision = ask(document, agentKind="mock", execution=MOCK, budget={"maxSpendUsd": 100})

    assert decision.effective.withheld_classes == ("code-diff",)
    assert decision.effective.budget.max_spend_usd == 5
    assert decision.effective.retention.artifacts_days == 7
    assert decision.requirements[0].approvers == ("alice",)
    assert ask(BASE, disclosure="full").effect == "deny"
    assert ask(BASE, disclosure="redacted").effective.disclosure == "redacted"


def grant(who: str, contract: str = "a" * 64) -> Approval:
    """Make an approval by a person."""
    return Approval(
        version=VERSION_APPROVAL,
        contract_hash=contract,
        actor=Actor(kind="human", id=who),
        key_id="ed25519:" + "0" * 16,
        assurance="key",
        expires_at="2026-01-01T13:00:00.000Z",
        sig="",
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ([grant("alice"), grant("carol")], 0),
        ([grant("alice")], 1),
        ([grant("admin"), grant("mallory")], 2),
        ([grant("builder"), grant("carol")], 1),
        ([grant("alice", "b" * 64), grant("carol", "b" * 64)], 2),
    ],
)
def test_an_approval_is_by_the_right_person_for_this_contract(given, missing):
    """Flaw 7: approver lists are read, one approval is not all of them, and the requester's own does not count."""
    rules = [
        {"id": "one", "effect": "ask", "when": "any", "approvals": {"approvers": ["alice", "builder"]}},
        {"id": "two", "effect": "ask", "when": "any", "approvals": {"approvers": ["carol"]}},
    ]
    decision = ask(BASE | {"rules": rules})
    short = approved(
        decision.requirements,
        given,
        requested_by=Actor(kind="human", id="builder"),
        contract_hash="a" * 64,
        now="2026-01-01T12:00:00.000Z",
    )

    assert len(short) == missing


@pytest.mark.parametrize(("proved", "effect"), [("builder", "allow"), ("mallory", "deny")])
def test_a_requester_is_the_one_who_was_proved(proved, effect):
    """Flaw 7: the requester in the body is compared with whom the door authenticated."""
    assert ask(BASE, Facts(authenticated=proved)).effect == effect


@pytest.mark.parametrize(
    ("section", "effect"),
    [
        ({"principals": []}, "deny"),
        ({"rules": []}, "deny"),
        ({"principals": [{"id": "builder", "tools": {"allow": []}}]}, "deny"),
        ({"principals": [{"id": "builder", "tools": {"allow": ["run"]}}]}, "allow"),
    ],
)
def test_an_empty_list_allows_nothing(section, effect):
    """Flaw 37: no principals, no rules and an empty allow list mean nothing, not everything."""
    assert ask(BASE | section).effect == effect


def test_a_policy_is_never_dropped_in_silence():
    """Flaw 37: a file with a key that we do not know is an error, not a policy without that key."""
    with pytest.raises(PolicyError, match="unknown key"):
        load_policy(json.dumps(BASE | {"permisions": []}))
    assert load_policy(json.dumps(BASE)).document.principals


def test_a_name_alone_is_not_matched():
    """Flaw 37: a tool's name that the caller chose does not buy what that tool may do."""
    document = BASE | {"principals": [{"id": "builder", "tools": {"allow": ["read_file"]}}]}

    assert ask(document, tool="read_file").effect == "deny"
    assert ask(document, Facts(tool_bound=True), tool="read_file").effect == "allow"


def twin(name: str, facts: Facts, **fields: Any) -> Any:
    """Decide a twin's command under the shipped policy."""
    request = {
        "door": "grpc",
        "requestedBy": {"kind": "agent", "id": name},
        "tool": "command_exec",
        "execution": SHELL,
    } | fields
    return decide(parse_request(request), shipped("twins"), facts)


@pytest.mark.parametrize(
    "name", ["../twin-aegis", "twin-aegis/../twin-trace", "*", "twin-*", "twin-aegis\0", "TWIN-AEGIS"]
)
def test_a_twin_is_a_name_and_never_a_path(name):
    """Flaw 40: an id that is a path, a star or nearly a twin's is nobody's."""
    bound = Facts(tool_bound=True)

    assert twin(name, bound).effect == "deny"
    assert twin("twin-aegis", bound).effect == "allow"


def test_a_claimed_twin_must_be_the_proved_one():
    """Flaw 40: where the door authenticates, a twin cannot speak for another."""
    assert twin("twin-aegis", Facts(tool_bound=True, authenticated="twin-trace")).effect == "deny"
    assert twin("twin-aegis", Facts(tool_bound=True, authenticated="twin-aegis")).effect == "allow"


def test_a_restricted_name_is_not_reached_through_a_script():
    """Flaw 40: the shipped policy masks the restricted names inside; one that does not says so, or refuses."""
    facts = Facts(tool_bound=True, tiers=(at_best("bwrap"),))
    masked = twin("twin-sentinel", facts, execution={"kind": "shell", "script": "rm -rf ."})
    document = BASE | {"restricted": ["rm"]}
    strict = document | {"tiers": {"tolerate": {"restricted": "enforced"}}}

    assert (masked.effect, masked.effective.mask) == ("allow", True)
    assert "rm" in masked.effective.restricted
    assert "weaker" in [one.strength for one in ask(document, facts).effective.verdicts if one.clause == "restricted"]
    assert ask(strict, facts).rules == ("tiers.tolerate",)
    assert ask(document, facts, execution={"kind": "argv", "command": "/srv/rm"}).rules == ("restricted",)


RELEASED = {"secrets": [{"name": "*"}], "network": {"hosts": [{"host": "*"}]}}
QUESTION = {"id": "first", "effect": "ask", "approvals": {"approvers": ["alice"]}}
TWO_HOSTS = {"network": {"allowHosts": ["ok.example", "evil.example"]}}


@pytest.mark.parametrize(
    ("key", "name", "harmless", "more"),
    [
        ("secrets", "HARMLESS", {"secretNames": ["HARMLESS"]}, {"secretNames": ["HARMLESS", "DEPLOY_KEY"]}),
        ("hosts", "ok.example", {"network": {"allowHosts": ["ok.example"]}}, TWO_HOSTS),
    ],
)
def test_a_permitted_thing_carries_no_other_along(key, name, harmless, more):
    """What is permitted for one secret or host is not permitted for a request that asks for another beside it."""
    excepting = [*BASE["rules"], QUESTION | {"when": {key: ["*"]}, "except": [{key: [name]}]}]
    allowing = [{"id": "only", "effect": "allow", "when": {key: [name]}}]

    for rules, effect in ((excepting, "ask"), (allowing, "deny")):
        assert ask(BASE | RELEASED | {"rules": rules}, **harmless).effect == "allow"
        assert ask(BASE | RELEASED | {"rules": rules}, **more).effect == effect


@pytest.mark.parametrize(
    ("command", "effect"),
    [("/opt/tools/bin/lint", "allow"), ("/opt/tools/../../bin/bash", "deny"), ("/opt/tools/..", "deny")],
)
def test_a_folder_of_programs_is_not_left_by_dots(command, effect):
    """A rule that allows the programs below a folder allows none that is reached by `..` from there."""
    rules = [{"id": "tools", "effect": "allow", "when": {"argv": [["/opt/tools/*", "..."]]}}]

    assert ask(BASE | {"rules": rules}, execution={"kind": "argv", "command": command}).effect == effect


@pytest.mark.parametrize(
    ("execution", "restricted"),
    [
        ({"kind": "shell", "script": "id", "shell": "bash"}, "bash"),
        ({"kind": "shell", "script": "id"}, "sh"),
        ({"kind": "python", "source": "1"}, "python3"),
        (MOCK, "mock"),
    ],
)
def test_a_restricted_interpreter_is_not_reached_by_another_kind(execution, restricted):
    """A restricted name is refused also where a script or an agent would start it; another name changes nothing."""
    assert ask(BASE | {"restricted": [restricted]}, execution=execution).rules == ("restricted",)
    assert ask(BASE | {"restricted": ["zsh"]}, execution=execution).effect == "allow"


@pytest.mark.parametrize(
    ("host", "effect"),
    [
        ("64:ff9b::a9fe:a9fe", "deny"),
        ("64:ff9b:1::a9fe:a9fe", "deny"),
        ("2002:a9fe:a9fe::1", "deny"),
        ("::169.254.169.254", "deny"),
        ("::ffff:0:169.254.169.254", "deny"),
        ("2001:db8::1", "allow"),
        ("::1", "allow"),
    ],
)
def test_a_denied_address_does_not_hide_in_another(host, effect):
    """An IPv4 address inside an IPv6 one is refused, since a denial of the first would not be seen in the second."""
    network = {"hosts": [{"host": "*"}], "deny": ["169.254.169.254"]}

    assert ask(BASE | {"network": network}, network={"allowHosts": [host]}).effect == effect


@pytest.mark.parametrize("hosts", [["*"], ["api.example.com", "*.example.com"]])
def test_a_star_of_the_protocols_policy_is_no_wildcard(hosts):
    """Hosts of a `warrant.policy.v1` are exact, so a document with a wildcard is refused; one without it loads."""
    with pytest.raises(PolicyError, match="exact"):
        load_policy(json.dumps(WARRANT | {"network": {"defaultDeny": True, "allowHosts": hosts}}))
    load_policy(json.dumps(WARRANT))


@pytest.mark.parametrize("name", ["OPENSSL_CONF", "MAKEFILES", "SVN_SSH", "CLASSPATH", "LUA_INIT", "VIMINIT"])
def test_a_variable_does_not_turn_an_allowed_command(name):
    """A variable that makes a known program load or run something else keeps an allow rule from matching."""
    rules = [{"id": "curl", "effect": "allow", "when": {"argv": [["curl", "..."]]}}]
    execution = {"kind": "argv", "command": "curl"}

    assert ask(BASE | {"rules": rules}, execution=execution | {"env": {"vars": {name: "x"}}}).effect == "deny"
    assert ask(BASE | {"rules": rules}, execution=execution | {"env": {"vars": {"MODE": "x"}}}).effect == "allow"
