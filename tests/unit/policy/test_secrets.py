"""Claims about secrets; every refusal has its permitted twin."""

import pytest

INJECT = {"way": "inject", "header": "Authorization", "hosts": ["api.example.com"], "uses": 3, "ttl": "10m"}
HOSTS = {"network": {"hosts": [{"host": "*.example.com", "opaque": True}]}}
REACHED = {
    "egress": {"rules": [{"host": "api.example.com", "opaque": True}, {"host": "www.example.com", "opaque": True}]}
}


@pytest.mark.parametrize(
    ("grant", "allowed"),
    [
        ({"name": "TOKEN"}, True),
        ({"name": "TOK*"}, True),
        ({"name": "OTHER"}, False),
        ({"name": "TOKEN", "pools": ["default"]}, True),
        ({"name": "TOKEN", "pools": ["gpu"]}, False),
        ({"name": "TOKEN", "pools": []}, False),
        ({"name": "TOKEN", "principals": ["build*"]}, True),
        ({"name": "TOKEN", "principals": ["alice"]}, False),
    ],
)
def test_a_secret_is_released_only_by_its_grant(ask, grant, allowed):
    """A secret needs a grant of its name, for this requester, in this pool."""
    assert ask({"secrets": [grant]}, secretNames=["TOKEN"]).rules == (("everything",) if allowed else ("secrets",))


def test_a_secret_that_nobody_asks_for_is_not_released(ask):
    """A grant by itself releases nothing."""
    assert ask({"secrets": [{"name": "TOKEN"}]}).effective.secrets == ()


def test_a_lease_carries_its_terms(ask):
    """The decision says how a secret may be used, as its grant has it."""
    policy = {"secrets": [{"name": "TOKEN"} | INJECT], **HOSTS}
    (lease,) = ask(policy, secretNames=["TOKEN", "TOKEN"], **REACHED).effective.secrets

    assert (lease.name, lease.way, lease.header, lease.hosts) == (
        "TOKEN",
        "inject",
        "Authorization",
        ("api.example.com",),
    )
    assert (lease.uses, lease.ttl_seconds, lease.rule) == (3, 600, "secrets:TOKEN")


@pytest.mark.parametrize("order", [1, -1])
def test_the_closer_grant_is_taken_in_any_order(ask, order):
    """Of several grants for one secret its own name beats a glob, and injecting beats the environment."""
    grants = [{"name": "*"}, {"name": "TOKEN"}, {"name": "TOKEN"} | INJECT][::order]

    (lease,) = ask({"secrets": grants, **HOSTS}, secretNames=["TOKEN"], **REACHED).effective.secrets

    assert lease.way == "inject"


def test_what_a_secret_is_put_into_is_inspected(ask):
    """A way out that a secret goes into is looked into, whatever was asked; others stay as they were."""
    policy = {"secrets": [{"name": "TOKEN"} | INJECT], **HOSTS}

    api, www = ask(policy, secretNames=["TOKEN"], **REACHED).effective.egress

    assert [(rule.host, rule.inspect, rule.opaque) for rule in (api, www)] == [
        ("api.example.com", True, False),
        ("www.example.com", False, True),
    ]


@pytest.mark.parametrize("host", ["api.example.com", "www.example.com"])
def test_a_secret_that_leads_nowhere_is_refused(ask, host):
    """A secret for hosts that the run cannot reach is a mistake that is said, not a run that fails later."""
    policy = {"secrets": [{"name": "TOKEN"} | INJECT], **HOSTS}

    decision = ask(policy, secretNames=["TOKEN"], egress={"rules": [{"host": host}]})

    assert decision.rules == (("everything",) if host == "api.example.com" else ("builtin.secrets",))


@pytest.mark.parametrize(("ttl", "time_ms"), [("10s", 10_000), ("10d", 3_600_000)])
def test_a_secret_in_the_environment_ends_with_its_run(ask, ttl, time_ms):
    """What a process has cannot be taken back: the run lasts no longer than its secret."""
    decision = ask({"secrets": [{"name": "TOKEN", "ttl": ttl}]}, secretNames=["TOKEN"])

    assert decision.effective.limits.time_ms == time_ms
