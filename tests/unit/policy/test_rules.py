"""Claims about rules: which requests they speak about, and how their effects come together."""

from typing import Any

import pytest

GIT = {"kind": "argv", "command": "git", "args": ["status"]}


def rules(*given: dict[str, Any]) -> dict[str, Any]:
    """Make a section of rules with ids of their own."""
    return {"rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(given)]}


ALLOW = {"effect": "allow", "when": "any"}
ASK = {"effect": "ask", "when": "any", "approvals": {"approvers": ["alice"]}}
DENY = {"effect": "deny", "when": "any"}


@pytest.mark.parametrize(
    ("given", "effect", "named"),
    [
        ([], "deny", ("builtin.default-deny",)),
        ([ALLOW], "allow", ("rule-0",)),
        ([ASK], "ask", ("rule-0",)),
        ([ALLOW, ASK], "ask", ("rule-1",)),
        ([ASK, ALLOW], "ask", ("rule-0",)),
        ([ALLOW, ASK, DENY], "deny", ("rule-2",)),
        ([DENY, ALLOW, DENY], "deny", ("rule-0", "rule-2")),
    ],
)
def test_the_most_restrictive_effect_wins(ask, given, effect, named):
    """Deny beats ask, ask beats allow, and where no rule matches the default denies."""
    decision = ask(rules(*given), execution=GIT)

    assert (decision.effect, decision.rules) == (effect, named)


@pytest.mark.parametrize(
    ("when", "fields", "matches"),
    [
        ({"principals": ["build*"]}, {}, True),
        ({"principals": ["alice"]}, {}, False),
        ({"principals": ["alice", "builder"]}, {}, True),
        ({"doors": ["cli"]}, {}, True),
        ({"doors": ["grpc"]}, {}, False),
        ({"kinds": ["argv"]}, {}, True),
        ({"kinds": ["shell"]}, {}, False),
        ({"kinds": ["shell"]}, {"execution": {"kind": "shell", "script": "x"}}, True),
        ({"kinds": ["python"]}, {"execution": {"kind": "python", "source": "x"}}, True),
        ({"kinds": ["agent"]}, {"execution": None, "agentKind": "mock", "prompt": "x"}, True),
        ({"kinds": ["shell"]}, {"execution": None, "agentKind": "command", "prompt": "x"}, True),
        ({"agents": ["command"]}, {}, True),
        ({"agents": ["mock"]}, {}, False),
        ({"agents": ["mock"]}, {"agentKind": "mock"}, False),
        ({"agents": ["mock"]}, {"execution": {"kind": "agent", "agent": {"kind": "mock"}, "prompt": "x"}}, True),
        ({"tools": ["run"]}, {}, True),
        ({"pools": ["default"]}, {}, True),
        ({"pools": ["gpu"]}, {}, False),
        ({"secrets": ["*"]}, {}, False),
        ({"secrets": ["TOK*"]}, {"secretNames": ["OTHER", "TOKEN"]}, True),
        ({"hosts": ["*"]}, {}, False),
        ({"hosts": ["*.example.com"]}, {"network": {"allowHosts": ["API.example.com"]}}, True),
        ({"hosts": ["*.example.com"]}, {"network": {"allowHosts": ["example.com"]}}, False),
        ({"hosts": ["example.com"]}, {"egress": {"rules": [{"host": "example.com"}]}}, True),
        ({"argv": [["git", "status"]]}, {}, True),
        ({"argv": [["git", "push"]]}, {}, False),
        ({"argv": [["ls"], ["git", "*"]]}, {}, True),
        ({"argv": [["g*", "..."]]}, {}, True),
        ({"argv": [["git", "status"]]}, {"execution": {"kind": "shell", "script": "git status"}}, False),
        ({"principals": ["builder"], "doors": ["grpc"]}, {}, False),
    ],
)
def test_every_key_of_a_condition_must_match(ask, when, fields, matches):
    """A rule that denies speaks about a request when each of its keys does, and about no other."""
    decision = ask(rules(ALLOW, DENY | {"when": when}), **{"execution": GIT} | fields)

    assert ("rule-1" in decision.rules) is matches


@pytest.mark.parametrize(
    ("command", "allowed", "denied"),
    [("git", True, True), ("/usr/bin/git", True, True), ("/home/me/git", False, True), ("./git", False, True)],
)
def test_a_program_is_known_strictly_to_permit_and_broadly_to_forbid(ask, command, allowed, denied):
    """A program of another place with the same name is not permitted by its namesake's rule, but is forbidden by it."""
    when = {"when": {"argv": [["git", "..."]]}}
    execution = {"kind": "argv", "command": command}

    assert (ask(rules(ALLOW | when), execution=execution).effect == "allow") is allowed
    assert (ask(rules(ALLOW, DENY | when), execution=execution).effect == "deny") is denied


@pytest.mark.parametrize(("command", "effect"), [("git", "allow"), ("./git", "deny")])
def test_an_exception_to_a_denial_is_strict(ask, command, effect):
    """What a deny rule excepts is the program of the system, not one that calls itself so."""
    deny = DENY | {"except": [{"argv": [["git", "..."]]}]}

    assert ask(rules(ALLOW, deny), execution={"kind": "argv", "command": command}).effect == effect


@pytest.mark.parametrize("command", ["git", "./git"])
def test_an_exception_to_a_permission_is_broad(ask, command):
    """What an allow rule excepts is the program at any path; another program is still allowed."""
    allow = ALLOW | {"except": [{"argv": [["git", "..."]]}]}

    assert ask(rules(allow), execution={"kind": "argv", "command": command}).effect == "deny"
    assert ask(rules(allow), execution={"kind": "argv", "command": "ls"}).effect == "allow"


@pytest.mark.parametrize(("name", "effect"), [("GIT_SSH_COMMAND", "deny"), ("PYTHONPATH", "deny"), ("DEBUG", "allow")])
def test_a_variable_that_steers_a_program_voids_its_permission(ask, name, effect):
    """A rule that permits a command line does not permit it with variables that make it run something else."""
    execution = GIT | {"env": {"vars": {name: "x"}}}

    mapped = GIT | {"env": {"secrets": [{"env": name, "secretName": "TOKEN"}]}}

    assert ask(rules(ALLOW | {"when": {"argv": [["git", "status"]]}}), execution=execution).effect == effect
    assert ask(rules(ALLOW | {"when": {"argv": [["git", "status"]]}}), execution=mapped).effect == effect
    assert ask(rules(ALLOW), execution=execution).effect == "allow"


def test_a_wildcard_in_a_request_meets_a_denied_host(ask):
    """A deny rule on one host sees a request for a wildcard that includes it."""
    policy = rules(ALLOW, DENY | {"when": {"hosts": ["api.example.com"]}}) | {"network": {"hosts": [{"host": "*"}]}}

    assert ask(policy, network={"allowHosts": ["*.example.com"]}).effect == "deny"
    assert ask(policy, network={"allowHosts": ["*.example.org"]}).effect == "allow"


def test_the_reason_of_a_rule_is_shown(ask):
    """The author's words are the message, and a rule without any has a sentence of its own."""
    assert ask(rules(DENY | {"reason": "not today"})).reasons[0].message == "not today"
    assert ask(rules(DENY)).reasons[0].message == "this rule forbids it"


def test_a_question_carries_its_requirement(ask):
    """Each ask rule that matches is a requirement of its own, with what the file says about approvers."""
    approvals = {"approvers": ["alice", "sec-*"], "quorum": 2, "separate": False, "assurance": "key", "expires": "2h"}
    decision = ask(rules(ASK, ASK | {"approvals": approvals}))

    assert [one.rule for one in decision.requirements] == ["rule-0", "rule-1"]
    assert decision.requirements[0].separate
    second = decision.requirements[1]
    assert (second.quorum, second.separate, second.assurance, second.expires_seconds) == (2, False, "key", 7200)
