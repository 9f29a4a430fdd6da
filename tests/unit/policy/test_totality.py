"""Whatever a request holds there is a decision, and whatever a file holds there is a policy or our error."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tipstaff.errors import PolicyError
from tipstaff.model import Request, parse_request
from tipstaff.policy import Facts, decide, judge
from tipstaff.policy.load import policy_from_value

HOSTILE = st.text(alphabet=st.characters(), max_size=12) | st.sampled_from(
    [
        "\0",
        "\ud800",
        "*",
        "...",
        "\\",
        "..",
        "/",
        "127.1",
        "0x7f.1",
        "a" * 70_000,
        "[",
        "(?:",
        "-",
        "\n",
        "%s{}",
        "__WARRANT_SECRET__:x",
    ]
)
OPEN = policy_from_value(
    {
        "version": "tipstaff.policy.v1",
        "name": "open",
        "principals": [{"id": "*"}],
        "rules": [
            {"id": "everything", "effect": "allow", "when": "any"},
            {"id": "glob", "effect": "deny", "when": {"argv": [["*a*b*", "..."]]}},
        ],
        "restricted": ["rm"],
        "network": {"hosts": [{"host": "*", "inspect": True, "paths": ["/*"]}]},
        "secrets": [{"name": "*"}],
        "env": {"inherit": ["*"]},
        "files": {"workspaces": ["/**"], "readable": ["/*/**"]},
    }
)


@st.composite
def hostile_requests(draw: st.DrawFn) -> Request:
    """Draw a request whose every string may be anything that the model takes."""
    text = HOSTILE.filter(bool).map(lambda value: value[:255])
    environment = {
        "inherit": draw(st.lists(HOSTILE, max_size=3)),
        "vars": draw(st.dictionaries(HOSTILE, HOSTILE, max_size=3)),
    }
    kind = draw(st.sampled_from(["argv", "shell", "python"]))
    bodies: dict[str, dict[str, Any]] = {
        "argv": {"command": draw(HOSTILE.filter(bool)), "args": draw(st.lists(HOSTILE, max_size=3))},
        "shell": {"script": draw(HOSTILE)},
        "python": {"source": draw(HOSTILE)},
    }
    way: dict[str, Any] = {
        "host": draw(text),
        "paths": draw(st.lists(HOSTILE, max_size=2)),
        "methods": draw(st.lists(HOSTILE, max_size=2)),
    }
    return parse_request(
        {
            "requestedBy": {"kind": "agent", "id": draw(text)},
            "door": draw(text),
            "tool": draw(HOSTILE),
            "pool": draw(text),
            "purpose": draw(HOSTILE),
            "secretNames": draw(st.lists(text, max_size=3)),
            "network": {"allowHosts": draw(st.lists(text, max_size=3))},
            "egress": {
                "rules": [way | {"addresses": draw(st.lists(HOSTILE, max_size=2)), "maxBytes": draw(st.integers())}]
            },
            "files": {"workspace": draw(HOSTILE), "readable": draw(st.lists(HOSTILE, max_size=2))},
            "budget": {"maxDurationMin": draw(st.floats() | st.integers()), "maxSpendUsd": draw(st.floats())},
            "isolation": draw(HOSTILE),
            "workspace": draw(st.none() | st.dictionaries(HOSTILE, st.integers() | st.floats() | HOSTILE, max_size=2)),
            "execution": {"kind": kind, "cwd": draw(HOSTILE), "env": environment} | bodies[kind],
        }
    )


@settings(suppress_health_check=list(HealthCheck))
@given(
    hostile_requests(),
    st.builds(Facts, authenticated=st.none() | HOSTILE, protected=st.lists(HOSTILE, max_size=2).map(tuple)),
)
def test_deciding_never_raises(request_, facts):
    """Whatever stands in the strings there is a decision, its words can be shown and its remedies asked for."""
    judgement = judge(request_, OPEN, facts)

    assert judgement.decision.rules
    assert all(reason.message.isprintable() for reason in judgement.decision.reasons)
    assert len(judgement.remedies) >= (judgement.decision.effect == "deny")


@pytest.mark.parametrize(("wishes", "rules"), [(1000, ("glob",)), (20_000, ("builtin.request", "glob"))])
def test_long_lists_are_decided_too(wishes, rules):
    """A hundred thousand arguments and variables are judged, and more hosts and secrets than anybody has refused."""
    request = parse_request(
        {
            "requestedBy": {"kind": "agent", "id": "builder"},
            "network": {"allowHosts": [f"h{number}.example" for number in range(wishes)]},
            "secretNames": [f"S{number}" for number in range(wishes)],
            "execution": {
                "kind": "argv",
                "command": "ab",
                "args": ["x"] * 100_000,
                "env": {"vars": dict.fromkeys(map("V{}".format, range(20_000)), "x")},
            },
        }
    )

    assert decide(request, OPEN).rules == rules


@pytest.mark.parametrize(
    "fields",
    [
        {"network": {"allowHosts": ["a.example"] * 1025}},
        {"egress": {"rules": [{"host": "a.example"}] * 1025}},
        {"egress": {"rules": [{"host": "a.example", "paths": ["/x"] * 1025}]}},
        {"secretNames": ["TOKEN"] * 1025},
        {"files": {"readable": ["/srv"] * 1025}},
    ],
)
def test_each_list_of_wishes_is_bounded(ask, fields):
    """A list that would be compared with every grant is refused when it is longer than 1024."""
    decision = ask({"secrets": [{"name": "*"}], "files": {"readable": ["/**"]}}, **fields)

    assert decision.rules == ("builtin.request",)


KEYS = st.sampled_from(["rules", "network", "hosts", "when", "argv", "id", "limits", "time", "max", "tiers", "name"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | HOSTILE, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_a_policy_or_our_error(value):
    """Plain values from outside either make a policy or raise our own error."""
    head = {"version": "tipstaff.policy.v1", "name": "x"}
    for candidate in (value, head | value if isinstance(value, dict) else value):
        try:
            policy_from_value(candidate)
        except PolicyError:
            continue
