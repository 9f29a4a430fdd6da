"""Roles: every role at every route, and nobody at all."""

import pytest

from tests.unit.doors.http.served import ROLES
from tipstaff.doors.http.app import all_routes
from tipstaff.doors.http.routes import Route

ROUTES = {route.name: route for route in all_routes()}
BEARER = sorted(name for name, route in ROUTES.items() if route.proof == "bearer")
OPEN = sorted(name for name, route in ROUTES.items() if route.proof == "none")
BODIES = {"submit": {"request": {"prompt": "true"}, "dryRun": True}, "issue": {"name": "", "role": "none"}}
ALL = frozenset(ROLES)
READERS = frozenset({"admin", "requester", "approver", "auditor"})
ASKERS = frozenset({"admin", "requester"})
APPROVERS = frozenset({"admin", "approver"})
AUDITORS = frozenset({"admin", "auditor"})
ADMIN = frozenset({"admin"})
MAY = {
    **dict.fromkeys(("submit", "cancel", "bringBlob"), ASKERS),
    **dict.fromkeys(("approve", "deny", "answer"), APPROVERS),
    **dict.fromkeys(("listRuns", "showRun", "bundle", "why", "output", "follow", "approvals", "names"), READERS),
    **dict.fromkeys(("refusal", "fetchBlobOfRun", "policy"), READERS),
    **dict.fromkeys(("fetchBlob", "lookForBlob"), ALL),  # each their own
    **dict.fromkeys(("metrics", "export", "principals"), AUDITORS),
    **dict.fromkeys(("issue", "revoke", "rotate", "revokeRunner", "drainRunner"), ADMIN),  # everybody rotates their own
    "enrollToken": frozenset({"admin", "enroller"}),
    "runners": frozenset({"admin", "enroller", "auditor"}),
}
DIGEST = "0" * 64
PARTS = {"runId": "run_none", "hash": DIGEST, "stream": "stdout", "name": "nobody", "runnerId": "rnr_none"}


def path_of(route: Route) -> str:
    """Fill in a path, with things that are not there."""
    path = route.path
    for name, value in {**PARTS, "refusalId": "ref_none"}.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def test_the_table_has_every_route():
    """A new route must say who may use it."""
    assert sorted(MAY) == BEARER


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", BEARER)
def test_a_role_may_what_the_table_says(served, name, role):
    """A role that may gets past the door, one that may not is 403, code forbidden."""
    route = ROUTES[name]
    more = {"content": b"x"} if name == "bringBlob" else {"json": BODIES.get(name, {})} if route.body else {}
    reply = served.ask(route.method, path_of(route), role, **more)
    if role in MAY[name]:
        assert reply.status_code in {200, 400, 404}, reply.text
    else:
        assert (reply.status_code, reply.json()["code"]) == (403, "forbidden"), reply.text


@pytest.mark.parametrize("name", BEARER)
@pytest.mark.parametrize("token", [None, "wrong"])
def test_nobody_may_anything(served, name, token):
    """Without a token, or with a wrong one, every such route is 401."""
    route = ROUTES[name]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    reply = served.http.request(route.method, path_of(route), headers=headers, content=b"{}" if route.body else None)
    assert reply.status_code == 401


@pytest.mark.parametrize("name", OPEN)
def test_what_needs_no_token_takes_none(served, name):
    """Health, readiness, keys and the description are for everybody."""
    assert served.ask("GET", ROUTES[name].path, None).status_code == 200


def test_a_token_that_was_replaced_or_revoked_is_void_at_once(served):
    """Rotation and revocation hold for the very next request; the new token works."""
    made = served.ask("POST", "/v1/principals", json={"name": "temporary", "role": "requester"}).json()

    def status(token: str) -> int:
        return int(served.http.get("/v1/runs", headers={"authorization": f"Bearer {token}"}).status_code)

    assert status(made["token"]) == 200
    rotated = served.ask("POST", "/v1/principals/temporary/rotate").json()
    assert (status(made["token"]), status(rotated["token"])) == (401, 200)
    assert served.ask("DELETE", "/v1/principals/temporary").status_code == 200
    assert status(rotated["token"]) == 401
    assert served.ask("POST", "/v1/principals", json={"name": "temporary", "role": "admin"}).status_code == 409


def test_somebody_elses_run_is_not_there(served):
    """A requester sees its own runs and no other's; who may read all sees it."""
    run = served.submit("admin")["runId"]
    for path in ("", "/bundle", "/why", "/output/stdout", "/follow"):
        assert served.ask("GET", f"/v1/runs/{run}{path}", "requester").status_code == 404
    assert served.ask("POST", f"/v1/runs/{run}/cancel", "requester").status_code == 404
    assert served.ask("GET", f"/v1/runs/{run}", "auditor").status_code == 200
    assert run not in [one["runId"] for one in served.ask("GET", "/v1/runs", "requester").json()["runs"]]
