"""The description of the plane's HTTP door holds: whatever fits it, or does not, is answered as it says.

Schemathesis makes requests from the description; each is sent to a real server, as an admin, as nobody, and with real
tokens and ids put in where a made-up one would only be refused. No answer is a fault of the plane, and none has a
status, a type or a shape that the description does not name.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS

from tests.unit.doors.http.served import Served, serving
from tipstaff.doors.http.app import all_routes
from tipstaff.doors.http.openapi import described
from tipstaff.doors.http.settings import Limits

ROUTES = all_routes()
SCHEMA = schemathesis.openapi.from_dict(described(ROUTES))
CHECKED = CHECKS.get_by_names(
    ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)
GENEROUS = Limits(
    failures=1_000_000, principal_per_second=1_000_000, principal_burst=1_000_000, address_per_second=1_000_000,
    address_burst=1_000_000,
)  # fmt: skip
QUICK = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
LONG = {"follow"}  # ends only with its run


class World:
    """A plane with something in it, and what names it."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.run = served.submit("admin")["runId"]
        self.runner = served.enroll("other")
        claimed = served.submit("admin", pool="other")["runId"]
        claim = served.claim(self.runner)
        assert claim["runId"] == claimed
        self.claimed, self.token = claimed, claim["claimToken"]
        self.blob = served.ask("POST", "/v1/blobs", content=b"x").json()["hash"]

    def real(self, case: Any) -> None:
        """Put real names in."""
        is_runner = case.operation.definition.raw["security"] == []
        known = {"runId": self.claimed if is_runner else self.run, "hash": self.blob}
        parts = case.path_parameters or {}
        case.path_parameters = {name: known.get(name, value) for name, value in parts.items()}
        if isinstance(case.body, dict):
            tokens = {"claimToken": self.token, "runnerToken": self.runner}
            case.body = {name: tokens.get(name, value) for name, value in case.body.items() if name != "waitMs"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One plane for all."""
    with serving(tmp_path_factory.mktemp("plane") / "home", limits=GENEROUS) as served:
        yield World(served)


@pytest.mark.parametrize("who", ["nobody", "admin", "real"])
@SCHEMA.parametrize()
@QUICK
def test_every_answer_is_one_that_was_described(case, who, world):
    """No request is answered with a fault, or with anything that the description does not name."""
    if who == "real" and case.operation.definition.raw["operationId"] in LONG:
        case.path_parameters = {"runId": "run_none"}
    elif who == "real":
        world.real(case)
    headers = {"authorization": f"Bearer {world.served.tokens['admin']}"} if who != "nobody" else {}
    case.call_and_validate(base_url=world.served.url, headers=headers, checks=CHECKED, timeout=20)
