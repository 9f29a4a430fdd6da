"""Claims about the comparison of two policies: what is said is true, and nothing that matters is left unsaid."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tipstaff.errors import PolicyError
from tipstaff.model.request import parse_request
from tipstaff.policy import decide
from tipstaff.policy.changes import changes
from tipstaff.policy.load import policy_from_value

INJECT = {"way": "inject", "header": "Authorization", "hosts": ["api.example.com"]}
BASE: dict[str, Any] = {
    "version": "tipstaff.policy.v1",
    "name": "team",
    "restricted": ["reboot"],
    "principals": [{"id": "builder", "kinds": ["agent"], "tools": {"deny": ["delete"]}}, {"id": "alice"}],
    "rules": [
        {"id": "git", "effect": "allow", "when": {"argv": [["git", ["status", "diff"], "..."]]}},
        {"id": "no-push", "effect": "deny", "when": {"argv": [["git", "push", "..."]]}},
        {
            "id": "deploy",
            "effect": "ask",
            "when": {"argv": [["deploy", "..."]]},
            "approvals": {"approvers": ["alice", "bob"], "quorum": 1},
        },
    ],
    "pools": ["default"],
    "agents": ["command"],
    "network": {"hosts": [{"host": "api.example.com", "ports": [443]}], "deny": ["metadata.internal"]},
    "secrets": [{"name": "API_TOKEN", "pools": ["default"], "uses": 10} | INJECT],
    "env": {"inherit": ["LANG"]},
    "files": {"workspaces": ["/srv/**"]},
    "limits": {"time": {"max": "1h"}, "memory": {"default": "1GiB"}},
    "tiers": {"minimum": "bwrap", "tolerate": {"pids": "weaker"}},
    "disclosure": ["none", "redacted"],
    "data_classes": [{"data_class": "code", "pools": ["default"]}],
    "contract": {"life": "1h"},
}
GONE = object()

# Where, what is put there (or GONE), and the directions of what is then said.
CASES = [
    (("safe_mode",), True, {"narrower"}),
    (("restricted",), [], {"wider"}),
    (("restricted",), {"names": ["reboot", "halt"]}, {"narrower"}),
    (("restricted",), {"names": ["reboot"]}, set()),
    (("principals", 0, "tools", "deny"), [], {"wider"}),
    (("principals", 0, "tools", "deny"), ["delete", "write"], {"narrower"}),
    (("principals", 0, "tools", "allow"), ["run"], {"wider", "narrower"}),
    (("principals", 0, "kinds"), GONE, {"wider"}),
    (("principals", 0, "kinds"), ["agent", "human"], {"wider"}),
    (("principals", 1, "kinds"), ["human"], {"narrower"}),
    (("principals",), BASE["principals"][1:], {"different"}),  # its denials go too
    (("principals",), BASE["principals"][:1], {"narrower"}),
    (("principals",), BASE["principals"][::-1], set()),
    (("rules",), BASE["rules"][::-1], set()),
    (("rules",), BASE["rules"][1:], {"narrower"}),
    (("rules",), BASE["rules"][::2], {"wider"}),
    (("rules",), BASE["rules"][:2], {"different"}),
    (("rules", 0, "effect"), "deny", {"narrower"}),
    (("rules", 1, "effect"), "allow", {"wider"}),
    (("rules", 0, "when"), "any", {"wider"}),
    (("rules", 1, "when"), "any", {"narrower"}),
    (("rules", 0, "when", "principals"), ["builder"], {"narrower"}),
    (("rules", 0, "when", "argv"), [["git", ["status", "diff"], "..."], ["ls"]], {"wider"}),
    (("rules", 1, "except"), [{"principals": ["alice"]}], {"wider"}),
    (("rules", 0, "except"), [{"principals": ["alice"]}], {"narrower"}),
    (("rules", 0, "tier"), "gvisor", {"narrower"}),
    (("rules", 0, "limits"), {"time": "1m"}, {"narrower"}),
    (("rules", 0, "reason"), "because", {"different"}),
    (("rules", 2, "approvals", "quorum"), 2, {"narrower"}),
    (("rules", 2, "approvals", "approvers"), ["alice"], {"narrower"}),
    (("rules", 2, "approvals", "separate"), False, {"wider"}),
    (("rules", 2, "approvals", "assurance"), "key", {"narrower"}),
    (("rules", 2, "approvals", "expires"), "1h", {"narrower"}),
    (("pools",), ["default", "big"], {"wider"}),
    (("agents",), GONE, {"wider"}),
    (("agents",), [], {"narrower"}),
    (("network", "default_deny"), False, {"wider"}),
    (("network", "hosts"), [], {"narrower"}),
    (("network", "hosts", 0, "ports"), [], {"narrower", "wider"}),  # its name changes with its ports
    (("network", "hosts", 0, "max_bytes"), "1MiB", {"narrower"}),
    (("network", "hosts", 0, "ask"), True, {"narrower"}),
    (("network", "hosts", 0, "principals"), ["builder"], {"narrower", "wider"}),
    (("network", "deny"), GONE, {"wider"}),
    (("secrets",), [], {"narrower"}),
    (("secrets", 0, "uses"), GONE, {"wider"}),
    (("secrets", 0, "uses"), 5, {"narrower"}),
    (("secrets", 0, "ttl"), "1m", {"narrower"}),
    (("secrets", 0, "scope"), "run", {"different"}),
    (("env", "inherit"), ["LANG", "TZ"], {"wider"}),
    (("files", "workspaces"), [], {"narrower"}),
    (("files", "readable"), ["/srv/**"], {"wider"}),
    (("limits", "time", "max"), "2h", {"wider"}),
    (("limits", "time", "max"), GONE, {"different"}),
    (("limits", "memory", "default"), "512MiB", {"narrower"}),
    (("reply",), {"lines": 10}, {"different"}),
    (("tiers", "minimum"), "gvisor", {"narrower"}),
    (("tiers", "default"), "gvisor", {"different"}),
    (("tiers", "fallback"), "bwrap", {"wider"}),
    (("tiers", "tolerate"), {}, {"narrower"}),
    (("tiers", "tolerate", "cpu"), "weaker", {"wider"}),
    (("tiers", "tolerate", "disk"), "weaker", set()),
    (("tiers", "tolerate", "disk"), "enforced", {"narrower"}),
    (("disclosure",), ["none", "redacted", "full"], {"wider"}),
    (("data_classes",), [], {"wider"}),
    (("contract", "life"), "30m", {"narrower"}),
    (("contract", "retries"), 0, {"narrower"}),
    (("contract", "retries"), 3, {"wider"}),
    (("retention",), {"receipts": "1d"}, {"different"}),
    (("name",), "other", {"different"}),
    (("description",), "text", {"different"}),
    (("examples",), [{"request": {"requestedBy": {"kind": "human", "id": "x"}}, "expect": "deny"}], {"different"}),
]


def with_change(path, new):
    """The base policy with one place changed."""
    return merged(BASE, path, new)


@pytest.mark.parametrize(("path", "new", "directions"), CASES)
def test_each_change_has_its_direction(path, new, directions):
    """What permits more is called wider, what permits less narrower, and the way back is the opposite."""
    before, after = policy_from_value(BASE), policy_from_value(with_change(path, new))

    there, back = changes(before, after), changes(after, before)

    assert {change.direction for change in there} == directions
    opposite = {"wider": "narrower", "narrower": "wider", "different": "different"}
    assert {opposite[change.direction] for change in back} == directions


def test_the_same_policy_has_no_changes():
    """A policy compared with itself differs in nothing."""
    assert changes(policy_from_value(BASE), policy_from_value(copy.deepcopy(BASE))) == ()


def test_a_change_is_said_in_words():
    """A change names its place and what was and is."""
    after = policy_from_value(with_change(("limits", "time", "max"), "2h"))

    assert changes(policy_from_value(BASE), after) == (("wider", "limits.time.max", "was 1h and is 2h"),)


REQUESTS = [
    {"requestedBy": {"kind": kind, "id": who}, "execution": {"kind": "argv", "command": command, "args": args}, **rest}
    for kind, who in (("agent", "builder"), ("human", "alice"), ("human", "carol"))
    for command, args in (("git", ["status"]), ("git", ["push"]), ("deploy", []), ("ls", []), ("reboot", []))
    for rest in (
        {},
        {"tool": "write"},
        {"pool": "big"},
        {"network": {"allowHosts": ["api.example.com"]}},
        {"network": {"allowHosts": ["metadata.internal"]}},
        {"secretNames": ["API_TOKEN"]},
        {"files": {"workspace": "/srv/a"}},
        {"disclosure": "full"},
    )
]
ORDER = ("allow", "ask", "deny")


@given(st.lists(st.sampled_from(CASES), min_size=1, max_size=4))
@settings(max_examples=settings().max_examples // 2, deadline=None)
def test_what_is_only_narrower_permits_no_more(cases):
    """If every change between two policies is narrower, no request is decided more kindly; and the other way round."""
    value = copy.deepcopy(BASE)
    try:
        for path, new, _ in cases:
            value = merged(value, path, new)
        after = policy_from_value(value)
    except (PolicyError, KeyError, IndexError, TypeError):  # changes that do not fit together
        return
    before = policy_from_value(BASE)
    directions = {change.direction for change in changes(before, after)}
    effects = [
        (decide(parse_request(one), before).effect, decide(parse_request(one), after).effect) for one in REQUESTS
    ]
    steps = {ORDER.index(new) - ORDER.index(old) for old, new in effects}

    assert directions != {"narrower"} or min(steps) >= 0
    assert directions != {"wider"} or max(steps) <= 0


def merged(value, path, new):
    """A policy with one more place changed."""
    value = copy.deepcopy(value)
    place = value
    for step in path[:-1]:
        place = place[step]
    if new is GONE:
        place.pop(path[-1])
    else:
        place[path[-1]] = copy.deepcopy(new)
    return value
