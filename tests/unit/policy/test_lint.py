"""Claims about remarks on a policy and its description in words: each is made where it is due, and only there."""

import copy
from typing import Any

import pytest

from tipstaff.policy.describe import describe
from tipstaff.policy.lint import remarks
from tipstaff.policy.load import policy_from_value

GOOD: dict[str, Any] = {
    "version": "tipstaff.policy.v1",
    "name": "team",
    "principals": [{"id": "builder"}, {"id": "alice"}],
    "rules": [
        {"id": "git", "effect": "allow", "when": {"kinds": ["argv"], "argv": [["git", ["log", "push"], "..."]]}},
        {"id": "no-push", "effect": "deny", "when": {"argv": [["git", "push", "..."]]}},
        {
            "id": "deploy",
            "effect": "ask",
            "when": {"principals": ["builder"], "argv": [["deploy"]]},
            "approvals": {"approvers": ["alice", "bob"]},
        },
    ],
    "network": {"hosts": [{"host": "api.example.com"}]},
    "secrets": [{"name": "T", "way": "inject", "header": "Authorization", "hosts": ["api.example.com"]}],
}

CASES = [
    (("principals",), [], "nobody is named"),
    (("rules",), [GOOD["rules"][1]], "no rule allows anything"),
    (("rules", 1, "when"), "any", "refuses every request"),
    (("network", "default_deny"), False, "open network"),
    (("rules", 0, "when"), {"kinds": ["shell"]}, "does not see `git` inside scripts, which `git` lets run"),
    (("rules", 0, "when"), {"argv": [["bash", "..."]]}, "does not see `git` inside scripts"),
    (("rules", 0, "when"), {"principals": ["alice"], "argv": [["git"]]}, None),
    (("rules", 0, "when"), {"principals": ["carol"], "argv": [["git"]]}, "never matches"),
    (("rules", 0, "when"), {"principals": ["builder"], "argv": [["git"]]}, "no rule ever lets `alice` do anything"),
    (("rules", 0, "when", "argv"), [["git", "..."]], "in this order and spelling only"),
    (("rules", 0, "when"), {"kinds": ["argv"]}, "in this order and spelling only"),
    (("rules", 1, "when", "argv"), [["git", "..."]], None),
    (("rules", 0, "when", "pools"), ["big"], "`pools` has none of `big`"),
    (("rules", 2, "approvals", "approvers"), ["builder"], "can never be approved"),
    (("rules", 2, "approvals"), {"approvers": ["builder"], "separate": False}, None),
    (("rules", 2, "approvals"), {"approvers": ["sec-*"]}, None),
    (("network", "hosts", 0, "principals"), ["carol"], "granted to nobody"),
    (("network", "hosts", 0, "pools"), ["big"], "granted in no pool"),
    (("network", "deny"), ["api.example.com"], "granted here and denied"),
    (("secrets", 0, "hosts"), ["other.example.com"], "which no entry of `network.hosts` grants"),
    (("tiers",), {"default": "process"}, "always raised"),
]


def changed(path, new):
    """The good policy with one place changed."""
    value = copy.deepcopy(GOOD)
    place = value
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new
    return policy_from_value(value)


@pytest.mark.parametrize(("path", "new", "message"), CASES)
def test_what_looks_wrong_is_remarked(path, new, message):
    """What never happens, or protects less than it seems, gets a remark; its sound twin gets none."""
    found = [remark.message for remark in remarks(changed(path, new))]

    assert any(message in one for one in found) if message else found == []


def test_a_sound_policy_gets_no_remark():
    """Nothing is remarked about a policy in which everything has its use."""
    assert remarks(policy_from_value(GOOD)) == ()


def test_a_policy_is_put_in_words():
    """Every rule and every grant has its sentence."""
    words = describe(policy_from_value(GOOD))

    assert words.allows == ("git: whoever is named may run `git log|push …`",)
    assert words.asks == (
        "deploy: `builder` may run `deploy`; 1 of `alice`, `bob` must approve, by same-uid at least, within 1d",
    )
    assert words.refuses[0] == "no-push: anybody running `git push …`"
    assert "network: api.example.com at any port" in words.grants
    assert "secret: T added to Authorization for `api.example.com`" in words.grants
