"""Policies and decisions in one line: a policy that allows everything to everybody, with some sections replaced."""

from collections.abc import Callable
from typing import Any

import pytest

from tipstaff.model import Decision, parse_request
from tipstaff.policy import Facts, Policy, decide
from tipstaff.policy.load import policy_from_value

OPEN = {
    "version": "tipstaff.policy.v1",
    "name": "test",
    "principals": [{"id": "*"}],
    "rules": [{"id": "everything", "effect": "allow", "when": "any"}],
}
WHOAMI = {"requestedBy": {"kind": "agent", "id": "builder"}, "execution": {"kind": "argv", "command": "git"}}

MakePolicy = Callable[..., Policy]
Ask = Callable[..., Decision]


def open_policy(**sections: Any) -> Policy:
    """Make the open policy with `sections` in the place of its own."""
    return policy_from_value(OPEN | sections)


@pytest.fixture(scope="session")
def make_policy() -> MakePolicy:
    """Make a policy from sections."""
    return open_policy


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Decide a request, given by its fields, under a policy, given by its sections."""

    def decided(policy: dict[str, Any] | Policy, facts: Facts | None = None, **fields: Any) -> Decision:
        ready = policy if isinstance(policy, Policy) else open_policy(**policy)
        return decide(parse_request(WHOAMI | fields), ready, facts or Facts())

    return decided
