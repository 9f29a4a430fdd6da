"""Claims about remedies: the edits that a judgement offers remove the reason that they belong to."""

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from tipstaff.model import TierReport, parse_request
from tipstaff.model.tiers import at_best
from tipstaff.policy import Facts, judge
from tipstaff.policy.load import policy_from_value
from tipstaff.policy.remedy import AddKey, Append, Edit, Remove, SetValue, appended, assigned

BASE = {
    "version": "tipstaff.policy.v1",
    "name": "test",
    "principals": [{"id": "builder", "tools": {"allow": ["run"]}}],
    "rules": [{"id": "everything", "effect": "allow", "when": "any"}],
}
WHO = {"kind": "agent", "id": "builder"}
GIT = {"kind": "argv", "command": "git", "args": ["push", "a*b", "..."]}
GRANTED = {"hosts": [{"host": "a.example", "ports": [443]}]}
DENY = {"id": "no", "effect": "deny", "when": {"argv": [["git", "..."]]}}
ASK = {"id": "why", "effect": "ask", "when": "any", "approvals": {"approvers": ["alice"]}}


def applied(value: Any, edits: Iterable[Edit]) -> Any:
    """Carry out edits on plain values, as `edit` does on text."""
    value = copy.deepcopy(value)
    for edit in edits:
        *parents, last = edit.path or (None,)
        holder = value
        for step in parents:
            holder = holder[step]
        place = holder if last is None else holder[last]
        match edit:
            case Append(value=item):
                place.append(item)
            case AddKey(key=key, value=item):
                assert key not in place
                place[key] = item
            case SetValue(value=item):
                holder[last] = item
            case Remove():
                del holder[last]
    return value


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"principals": []}, {}),
    ({"principals": [{"id": "builder", "kinds": ["human"]}]}, {}),
    ({"principals": [{"id": "builder", "tools": {"allow": []}}]}, {}),
    ({"principals": [{"id": "*", "tools": {"deny": ["r*", "run"]}}]}, {}),
    ({"rules": []}, {"execution": GIT}),
    ({"rules": []}, {"execution": {"kind": "argv", "command": "python3", "args": ["x"]}}),
    ({"rules": []}, {"execution": {"kind": "argv", "command": "/opt/tool", "args": ["a\nb", "x" * 9000, ""]}}),
    ({"rules": []}, {"execution": {"kind": "shell", "script": "x"}}),
    ({"rules": []}, {"execution": None, "agentKind": "mock", "prompt": "x"}),
    ({"rules": [*BASE["rules"], DENY]}, {"execution": GIT}),
    ({"rules": [*BASE["rules"], DENY | {"except": [{"doors": ["mcp"]}]}]}, {"execution": GIT}),
    ({"rules": [*BASE["rules"], DENY]}, {"execution": GIT | {"command": "/opt/git"}}),
    ({"rules": [*BASE["rules"], ASK]}, {}),
    ({"rules": [ASK]}, {}),
    ({"safe_mode": True}, {}),
    ({"restricted": ["git"]}, {}),
    ({"restricted": {"names": ["x", "GIT"]}}, {}),
    ({}, {"pool": "gpu"}),
    ({"pools": ["a"]}, {"pool": "gpu"}),
    ({"agents": []}, {"agentKind": "mock"}),
    ({}, {"disclosure": "full"}),
    ({}, {"network": {"defaultDeny": False}}),
    ({"network": {"default_deny": True}}, {"network": {"defaultDeny": False}}),
    ({}, {"network": {"allowHosts": ["a.example"]}}),
    ({"network": GRANTED}, {"egress": {"rules": [{"host": "a.example", "ports": [80], "opaque": True}]}}),
    (
        {},
        {
            "egress": {
                "rules": [{"host": "a.example", "methods": ["GET"], "paths": ["/v1/*"], "addresses": ["10.0.0.1"]}]
            }
        },
    ),
    ({"network": {"deny": ["x", "*.example"]}}, {"network": {"allowHosts": ["a.example"]}}),
    ({}, {"secretNames": ["TOKEN"]}),
    ({"secrets": [{"name": "TOKEN", "pools": ["gpu"], "principals": ["alice"]}]}, {"secretNames": ["TOKEN"]}),
    ({}, {"execution": {"kind": "shell", "script": "x", "env": {"inherit": ["LANG"]}}}),
    ({}, {"files": {"workspace": "/srv/a*", "inPlace": True, "readable": ["/data", "/more"]}}),
]


@pytest.mark.parametrize(("sections", "fields"), CASES)
def test_the_remedies_of_a_denial_lift_it(sections, fields):
    """Applying what is offered, round by round, ends in an allowed request within a few rounds."""
    value = BASE | sections
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}} | fields)
    judgement = judge(request, policy_from_value(value))
    assert judgement.remedies

    for _ in range(8):
        if judgement.decision.effect == "allow":
            break
        value = applied(value, judgement.remedies[0].edits)
        judgement = judge(request, policy_from_value(value))

    assert judgement.decision.effect == "allow"


@pytest.mark.parametrize(
    "fields",
    [
        {"execution": {"kind": "shell", "script": "x", "cwd": ".."}},
        {"execution": {"kind": "shell", "script": "x", "env": {"vars": {"PATH": "x"}}}},
        {"network": {"allowHosts": ["127.1"]}},
        {"files": {"workspace": "/proc"}},
        {"isolation": "docker"},
    ],
)
def test_what_no_policy_can_allow_has_no_remedy(fields):
    """A built-in rule offers no edits."""
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}} | fields)
    remedies = judge(request, policy_from_value(BASE)).remedies

    assert [one.edits for one in remedies if one.reason.rule.startswith("builtin.")] == [()]


def test_an_allowed_request_needs_no_remedy():
    """There is nothing to remedy where nothing is refused."""
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}})

    assert judge(request, policy_from_value(BASE)).remedies == ()


@pytest.mark.parametrize(
    ("reports", "tolerate"),
    [
        ((at_best("bwrap"),), {"disk": "enforced"}),
        ((TierReport(name="bwrap", available=False), at_best("gvisor")), {"disk": "weaker"}),
    ],
)
def test_what_the_host_lacks_is_remedied_by_tolerance_or_fallback(reports, tolerate):
    """A weaker clause may be tolerated, and a missing tier may have a fallback that is strong enough."""
    value: dict[str, Any] = BASE | {"tiers": {"tolerate": tolerate}}
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}})
    facts = Facts(tiers=reports)
    (remedy,) = judge(request, policy_from_value(value), facts).remedies

    assert judge(request, policy_from_value(applied(value, remedy.edits)), facts).decision.effect == "allow"


def test_a_missing_tier_without_a_stronger_one_has_no_remedy():
    """Nothing weaker than the minimum is offered."""
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}})
    facts = Facts(tiers=(TierReport(name="bwrap", available=False), at_best("process")))

    assert [one.edits for one in judge(request, policy_from_value(BASE), facts).remedies] == [()]


def test_an_exception_is_exactly_as_wide_as_the_request():
    """The exception that is offered names this requester and this command line, and lets no other through."""
    value: dict[str, Any] = BASE | {"rules": [*BASE["rules"], DENY], "principals": [{"id": "*"}]}
    request = parse_request({"requestedBy": WHO, "execution": GIT})
    (remedy,) = judge(request, policy_from_value(value)).remedies
    policy = policy_from_value(applied(value, remedy.edits))

    assert judge(request, policy).decision.effect == "allow"
    for other in ({"execution": GIT | {"args": ["push", "aXb", "..."]}}, {"requestedBy": WHO | {"id": "bob"}}):
        changed = parse_request({"requestedBy": WHO, "execution": GIT} | other)
        assert judge(changed, policy).decision.effect == "deny"


def test_a_missing_section_is_made_whole():
    """An edit in a section that the file does not have adds the section, as far up as it is missing."""
    assert appended({}, ("network", "hosts"), 1) == AddKey((), "network", {"hosts": [1]})
    assert appended({"network": {}}, ("network", "hosts"), 1) == AddKey(("network",), "hosts", [1])
    assert appended({"network": {"hosts": []}}, ("network", "hosts"), 1) == Append(("network", "hosts"), 1)
    assert assigned({"a": 1}, ("a",), 2) == SetValue(("a",), 2)


@pytest.mark.parametrize(
    ("sections", "fields", "others"),
    [
        (
            {"principals": [{"id": "*", "kinds": ["human"]}]},
            {},
            [{"requestedBy": WHO | {"id": "bob"}}, {"tool": "other"}],
        ),
        ({"principals": [{"id": "*", "tools": {"allow": []}}]}, {}, [{"requestedBy": WHO | {"id": "bob"}}]),
        (
            {"principals": [{"id": "*"}]},
            {"network": {"allowHosts": ["a.example"]}},
            [{"requestedBy": WHO | {"id": "bob"}}],
        ),
        (
            {"secrets": [{"name": "*", "principals": ["alice"]}]},
            {"secretNames": ["TOKEN"]},
            [{"secretNames": ["DEPLOY_KEY"]}],
        ),
        (
            {
                "principals": [{"id": "*"}],
                "pools": ["*"],
                "secrets": [{"name": "TOKEN", "pools": ["gpu"], "principals": ["bob"]}],
            },
            {"secretNames": ["TOKEN"]},
            [{"pool": "gpu"}, {"requestedBy": WHO | {"id": "bob"}}],
        ),
        (
            {
                "network": {"hosts": [{"host": "*"}]},
                "rules": [*BASE["rules"], {"id": "net", "effect": "deny", "when": {"hosts": ["*"]}}],
            },
            {"network": {"allowHosts": ["a.example"]}},
            [{"network": {"allowHosts": ["b.example"]}}],
        ),
        (
            {"pools": ["*"], "rules": [*BASE["rules"], {"id": "no", "effect": "deny", "when": {"pools": ["prod-*"]}}]},
            {"pool": "prod-a"},
            [{"pool": "prod-b"}],
        ),
    ],
)
def test_a_remedy_is_for_this_request_alone(sections, fields, others):
    """What lifts one request's denial lifts none of another requester, host, secret, tool or pool."""
    value: dict[str, Any] = BASE | sections
    whole = {"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}} | fields
    (remedy,) = judge(parse_request(whole), policy_from_value(value)).remedies
    policy = policy_from_value(applied(value, remedy.edits))

    assert judge(parse_request(whole), policy).decision.effect == "allow"
    assert [judge(parse_request(whole | other), policy).decision.effect for other in others] == ["deny"] * len(others)


def test_a_secret_is_offered_on_the_terms_that_it_has():
    """A requester who is added to an injected secret gets it injected, not in the environment."""
    terms = {"way": "inject", "header": "Authorization", "hosts": ["a.example"], "ttl": "10m"}
    value: dict[str, Any] = BASE | {
        "secrets": [{"name": "T*", "principals": ["alice"]} | terms], "network": {"hosts": [{"host": "a.example"}]}
    }  # fmt: skip
    asked = {"secretNames": ["TOKEN"], "egress": {"rules": [{"host": "a.example"}]}}
    request = parse_request({"requestedBy": WHO, "execution": {"kind": "argv", "command": "git"}, **asked})
    (remedy,) = judge(request, policy_from_value(value)).remedies
    effective = judge(request, policy_from_value(applied(value, remedy.edits))).decision.effective

    assert effective is not None
    assert [(lease.way, lease.ttl_seconds) for lease in effective.secrets] == [("inject", 600)]
