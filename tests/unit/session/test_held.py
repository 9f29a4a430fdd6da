"""What a session holds of secrets, and what it lets be seen of them."""

import os

import pytest

from tipstaff.errors import SecretError, UsageError
from tipstaff.session.held import Held

VALUE = "hunter2-and-more"
KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
INJECT = {"way": "inject", "header": "x-api-key", "hosts": ["api.example.com"]}


@pytest.fixture(autouse=True)
def undumped(monkeypatch):
    """The tests' own process stays as it is."""
    monkeypatch.setattr("tipstaff.secrets.guard.no_dumps", lambda: None)


def held(released=None, **leases):
    """Hold secrets as a contract leases them."""
    secrets = [{"name": name, "scope": "session", "lease": lease} for name, lease in leases.items()]
    return Held({"secrets": secrets}, released or {}, os.urandom)


def test_a_secret_of_the_environment_is_seen_and_one_that_is_injected_is_not():
    """The command gets the value of one, and for the other a text that looks like it."""
    both = held({"TOKEN": VALUE, "KEY": KEY}, TOKEN={"way": "env"}, KEY=INJECT)

    assert both.environ["TOKEN"] == VALUE
    assert both.environ["KEY"] != KEY
    assert both.environ["KEY"].startswith("sk-ant-api03-")
    assert len(both.environ["KEY"]) == len(KEY)
    assert both.injector(lambda: 0.0) is not None


def test_without_secrets_nothing_is_touched():
    """A run without secrets has no variables of ours, no redaction and no verdict on leaks."""
    nothing = held()

    assert (dict(nothing.environ), nothing.stream("stdout"), nothing.injector(lambda: 0.0)) == ({}, None, None)
    assert nothing.redacted("events", {"a": VALUE}) == {"a": VALUE}
    assert nothing.leaks(None) is None


def test_what_was_found_is_counted():
    """Values are taken out of streams and records, also those that the sandbox never had, and the receipt says so."""
    both = held({"TOKEN": VALUE, "KEY": KEY}, TOKEN={"way": "env"}, KEY=INJECT)
    stream = both.stream("stdout")

    assert both.leaks(None) == []
    assert stream.feed(f"a {VALUE} ".encode()) + stream.end() == b"a [REDACTED:TOKEN] "
    assert both.redacted("events", {"host": f"{KEY}.evil.example"}) == {"host": "[REDACTED:KEY].evil.example"}
    assert both.leaks(None) == [
        {"secret": "KEY", "stream": "events", "count": 1},
        {"secret": "TOKEN", "stream": "stdout", "count": 1},
    ]


def test_a_contract_of_the_protocols_own_means_the_environment():
    """A secret without a lease, as older planes write it, is a variable."""
    plain = Held({"secrets": [{"name": "TOKEN", "scope": "session"}]}, {"TOKEN": VALUE}, os.urandom)

    assert plain.environ == {"TOKEN": VALUE}


@pytest.mark.parametrize(
    ("value", "lease", "error"),
    [("pin-123", {"way": "env"}, UsageError), ("two lines\nof a secret", INJECT, SecretError)],
)
def test_what_cannot_be_kept_is_refused(value, lease, error):
    """A value that could not be taken out again, or put into a header, is refused and not shown; others are held."""
    with pytest.raises(error) as caught:
        held({"TOKEN": value}, TOKEN=lease).injector(lambda: 0.0)
    assert value not in str(caught.value)
    assert held({"TOKEN": VALUE}, TOKEN=lease).environ
