"""Claims about secrets; every refusal has its permitted twin."""

import pytest

INJECT = {"way": "inject", "header": "Authorization", "hosts": ["api.example.com"], "uses": 3, "ttl": "10m"}


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
    (lease,) = ask({"secrets": [{"name": "TOKEN"} | INJECT]}, secretNames=["TOKEN", "TOKEN"]).effective.secrets

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

    (lease,) = ask({"secrets": grants}, secretNames=["TOKEN"]).effective.secrets

    assert lease.way == "inject"
