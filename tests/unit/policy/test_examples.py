"""Claims about the examples in a policy file."""

from typing import Any

import pytest

from tipstaff.errors import PolicyError
from tipstaff.policy import parse_policy

RULE: dict[str, Any] = {
    "id": "read",
    "effect": "allow",
    "when": {"principals": ["builder"], "argv": [["git", ["status", "diff"], "..."]]},
    "except": [{"argv": [["git", "diff", "--ext-diff", "..."]]}, {"doors": ["grpc"]}],
}
BUILDER = {"requestedBy": {"kind": "agent", "id": "builder"}}
ALICE = {"requestedBy": {"kind": "human", "id": "alice"}}


@pytest.mark.parametrize(
    ("example", "matches"),
    [
        (["git", "status"], True),
        (["/usr/bin/git", "status"], True),
        (["/opt/git", "status"], False),
        (["git", "push"], False),
        (["git", "diff", "--ext-diff"], False),
        ("git status", False),
        (BUILDER, True),
        (ALICE, False),
        ({"door": "grpc"}, False),
        ({"door": "cli"}, True),
        (BUILDER | {"execution": {"kind": "argv", "command": "git", "args": ["status"]}}, True),
    ],
)
def test_an_example_holds_a_rule_to_its_word(make_policy, example, matches):
    """An example loads under its right key alone, and what it does not mention is taken as met."""
    right, wrong = ("match", "no_match") if matches else ("no_match", "match")

    make_policy(rules=[RULE | {right: [example]}])
    with pytest.raises(PolicyError, match="the rule `read`"):
        make_policy(rules=[RULE | {wrong: [example]}])


@pytest.mark.parametrize("example", [[], {"execution": {"kind": "argv"}}, {"unknown": 1}])
def test_a_malformed_example_is_an_error(make_policy, example):
    """An example that is no request is refused, not passed over."""
    with pytest.raises(PolicyError, match="example"):
        make_policy(rules=[RULE | {"no_match": [example]}])


def test_a_whole_policy_example_is_decided(make_policy):
    """A whole-policy example is decided as it is, and must name the rules that it lists."""
    example = {"request": ALICE, "expect": "allow", "rules": ["everything"]}

    make_policy(examples=[example])
    with pytest.raises(PolicyError, match="expects `deny` and the policy says `allow`"):
        make_policy(examples=[example | {"expect": "deny"}])
    with pytest.raises(PolicyError, match="expects the rule `other`"):
        make_policy(examples=[example | {"rules": ["other"]}])


def test_an_example_may_state_facts(make_policy):
    """A whole-policy example may say what the door would know."""
    principals = [{"id": "twin", "tools": {"allow": ["query"]}}]
    request = {
        "requestedBy": {"kind": "agent", "id": "twin"},
        "tool": "query",
        "execution": {"kind": "shell", "script": "x"},
    }
    example = {"request": request, "expect": "allow", "facts": {"toolBound": True}}

    make_policy(principals=principals, examples=[example])
    with pytest.raises(PolicyError, match="says `deny`"):
        make_policy(principals=principals, examples=[example | {"facts": {}}])


def test_a_failing_example_has_its_place():
    """The error of an example says the line and column where it stands."""
    text = (
        "version: tipstaff.policy.v1\nname: test\nrules:\n"
        "  - id: read\n    effect: allow\n    when: {argv: [[git, status]]}\n    match: [[git, push]]\n"
    )

    with pytest.raises(PolicyError) as caught:
        parse_policy(text)

    assert (caught.value.line, caught.value.column) == (7, 13)
