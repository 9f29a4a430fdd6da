"""Claims about the policies that are shipped, beyond the examples that they carry themselves."""

import re
from typing import Any

import pytest

from tipstaff.errors import NotFoundError
from tipstaff.model import parse_request
from tipstaff.model.tiers import at_best
from tipstaff.policy import Facts, decide
from tipstaff.policy.load import parse_policy
from tipstaff.policy.shipped import DEFAULTS, NAMES, READY, ready_form, shipped, text_of

HOST = Facts(tiers=(at_best("bwrap"), at_best("process")))
SHELL = {"kind": "shell", "script": "ls"}


def ask(name: str, facts: Facts = HOST, **fields: Any) -> Any:
    """Decide a request under a shipped policy, on a host that has bubblewrap."""
    return decide(
        parse_request({"requestedBy": {"kind": "human", "id": "me"}, "execution": SHELL} | fields), shipped(name), facts
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_policy_holds_its_own_examples(name):
    """Each shipped policy loads, which checks its examples, and has some to check."""
    policy = shipped(name)

    assert policy.name == name
    assert len(policy.document.examples) >= 4
    assert any(rule.match for rule in policy.document.rules)
    assert {example.expect for example in policy.document.examples} >= {"deny"}
    assert text_of(name).startswith("# The default")


@pytest.mark.parametrize("name", READY)
def test_a_ready_policy_is_its_file(root, name):
    """What is kept as plain values is what the file says now, checked and hashed the same."""
    kept, read = shipped(name), parse_policy(text_of(name), shipped(name).source)

    assert (root / "src" / "tipstaff" / "policies" / f"{name}.json").read_text() == ready_form(text_of(name))
    assert kept.tree is None
    assert (kept.value, kept.hash, kept.document) == (read.value, read.hash, read.document)


@pytest.mark.parametrize("name", NAMES)
def test_no_shipped_policy_falls_back(name):
    """None of them ever runs anything outside a sandbox, or opens the network by itself."""
    document = shipped(name).document

    assert document.tiers.fallback is None
    assert document.tiers.minimum == "bwrap"
    assert document.network.default_deny
    assert set(DEFAULTS.values()) == set(NAMES)


def test_another_name_is_not_there():
    """A policy that is not shipped is said not to be."""
    with pytest.raises(NotFoundError, match="no shipped policy"):
        shipped("../../etc/passwd")


def test_local_grants_what_a_person_names():
    """On one's own machine a named host, secret and folder are granted, at the port that was named."""
    egress = {"rules": [{"host": "db.example.com", "ports": [5432]}]}
    decision = ask(
        "local", egress=egress, secretNames=["TOKEN"], files={"workspace": "/srv/job", "readable": ["/srv/data"]}
    )

    assert decision.effect == "allow"
    assert [(rule.host, rule.ports) for rule in decision.effective.egress] == [("db.example.com", (5432,))]


def test_local_reaches_nothing_by_itself():
    """Without a named host there is no way out, and an open network is not to be had."""
    assert ask("local").effective.egress == ()
    assert ask("local", network={"defaultDeny": False}).rules == ("network.default-deny",)


@pytest.mark.parametrize("protected", ["/srv/home", "/srv/home/policy.yaml"])
def test_local_protects_the_home(protected):
    """A folder that holds what the door protects is refused even here; another is not."""
    facts = Facts(tiers=HOST.tiers, protected=(protected,))

    assert ask("local", facts, files={"workspace": "/srv"}).rules == ("builtin.files",)
    assert ask("local", facts, files={"workspace": "/other"}).effect == "allow"


@pytest.mark.parametrize(
    ("twin", "tool", "allowed"),
    [
        ("twin-aegis", "anything", True),
        ("twin-aegis", "command_exec", True),
        ("twin-aegis", "rm", False),
        ("twin-aegis", "Shutdown", False),
        ("twin-sentinel", "file_write", True),
        ("twin-sentinel", "command_exec", True),
        ("twin-sentinel", "vector_query", True),
        ("twin-sentinel", "other", False),
        ("twin-trace", "vector_query", True),
        ("twin-trace", "file_write", False),
        ("twin-other", "vector_query", False),
        ("twin-aegis/../twin-trace", "vector_query", False),
    ],
)
def test_twins_have_their_tools(twin, tool, allowed):
    """Each twin has the tools that it had, and nobody runs a restricted name."""
    facts = Facts(tiers=HOST.tiers, tool_bound=True)
    decision = ask("twins", facts, door="grpc", requestedBy={"kind": "agent", "id": twin}, tool=tool)

    assert (decision.effect == "allow") is allowed


def test_twins_have_the_services_limits():
    """Ten seconds, 200 lines and 32 KiB, as the service had, and the names masked inside."""
    facts = Facts(tiers=HOST.tiers, tool_bound=True)
    effective = ask("twins", facts, door="grpc", requestedBy={"kind": "agent", "id": "twin-aegis"}, tool="x").effective

    assert (effective.limits.time_ms, effective.reply.lines, effective.reply.bytes) == (10_000, 200, 32_768)
    assert effective.mask
    assert set(effective.restricted) == {"rm", "delete", "format", "shutdown", "reboot"}


def test_the_inbox_asks_a_person():
    """Every request of the inbox asks, in a machine of its own unless it names another tier."""
    decision = ask("inbox", Facts(), door="inbox", execution={"kind": "argv", "command": "python3", "args": ["job.py"]})

    assert decision.effect == "ask"
    assert decision.effective.tier == "microvm"
    assert decision.requirements[0].separate


def test_ecs_bounds_its_tools():
    """Thirty seconds and ten thousand characters, and no network."""
    effective = ask("ecs", door="ecs", tool="bash").effective

    assert (effective.limits.time_ms, effective.reply.characters) == (30_000, 10_000)
    assert ask("ecs", door="ecs", network={"allowHosts": ["example.com"]}).effect == "deny"


def test_mcp_asks_for_the_network():
    """A command runs, and one that reaches a host asks first."""
    assert ask("mcp", door="mcp").effect == "allow"
    assert ask("mcp", door="mcp", network={"allowHosts": ["example.com"]}).effect == "ask"


@pytest.mark.parametrize("name", ["local", "ecs", "mcp"])
def test_a_weaker_tier_is_not_a_requesters_choice(name):
    """Asking for the process tier gives bubblewrap, and says so."""
    decision = ask(name, door=name, isolation="process")

    assert decision.effective.tier == "bwrap"
    assert "tiers.minimum" in decision.rules


def test_what_the_planes_policy_offers_in_comments_holds():
    """The lines that an operator is invited to uncomment give a policy that holds, with its examples."""
    text = text_of("plane")
    offered = re.sub(r"(?m)^  # (- id: ask-for|  (?:effect|reason|when|match|approvals):)", r"  \1", text)
    offered = re.sub(r"(?m)^# (network:|  hosts:|    - \{id|secrets:|  - \{name)", r"\1", offered)
    policy = parse_policy(offered)
    assert len(policy.document.rules) == len(shipped("plane").document.rules) + 1
    assert policy.document.network.hosts
    assert policy.document.secrets
