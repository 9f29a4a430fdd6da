"""Bytes in, bytes out: what a runner sends is read strictly, and every refusal has HTTP's word for it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.plane.embedded import COMPLETED, KNOWS, PLANE, executed, follow, materialized, receipt
from tipstaff.evidence import verify
from tipstaff.plane import answer
from tipstaff.plane.wire import MOST_BODY_BYTES


@pytest.fixture
def post(site):
    """Send one body."""

    def send(path, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, reply = answer(site.plane, path, data)
        return status, json.loads(reply)

    return send


def test_a_whole_run_goes_through_as_bytes(site, post):
    """Claim, events, renewal and receipt, each as a body, give a valid bundle."""
    run_id = site.submit()
    status, claim = post("/v1/claims", {"runnerToken": site.token, "pool": "default", "knows": KNOWS})
    assert status == 200
    path, token = f"/v1/runs/{run_id}", claim["claimToken"]
    links = follow(claim, [materialized(claim)], site.clock())
    assert post(f"{path}/events", {"claimToken": token, "events": links, "release": True}) == (200, {"ok": True})
    token = post(f"{path}/renew", {"claimToken": token})[1]["claimToken"]
    links = follow(claim, [executed(), COMPLETED], site.clock())
    sent = {"claimToken": token, "events": links, "receipt": receipt(claim, site.clock())}
    status, reply = post(f"{path}/complete", sent)

    assert (status, reply["receipt"]["status"]) == (200, "completed")
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_an_empty_queue_is_said_so(site, post):
    """Without a run the answer is `empty`, as older runners expect it."""
    assert post("/v1/claims", {"runnerToken": site.token, "pool": "default"}) == (200, {"empty": True})


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/claims", b"", 400),
        ("/v1/claims", b"[]", 400),
        ("/v1/claims", b'{"pool":1,"pool":2}', 400),
        ("/v1/claims", b"\xff", 400),
        ("/v1/claims", {}, 401),
        ("/v1/claims", {"runnerToken": "x.y", "pool": "default"}, 401),
        ("/v1/nothing", {}, 404),
        ("/v1/runs/run_1/dance", {}, 404),
        ("/v1/runs/run_1/events", {"claimToken": "x.y"}, 401),
        ("/v1/runs/run_1/complete", {}, 401),
        ("/v1/runs/run_1/ask", {"claimToken": "x.y", "host": "a.test", "port": 443, "rule": "r"}, 401),
        ("/v1/claims", b"x" * (MOST_BODY_BYTES + 1), 413),
    ],
)
def test_a_bad_body_has_its_status(post, path, body, status):
    """What is malformed, unknown, unauthorised or too large is refused as such."""
    found, reply = post(path, body)

    assert found == status
    assert reply["error"]


def test_a_token_is_good_for_its_own_run_only(site, post):
    """A claim's token at another run's address is refused."""
    site.submit()
    other = site.submit()
    claim = site.claim()

    assert post(f"/v1/runs/{other}/events", {"claimToken": claim["claimToken"], "events": []})[0] == 401
    assert post(f"/v1/runs/{claim['runId']}/events", {"claimToken": claim["claimToken"], "events": []})[0] == 200


def test_a_refusal_tells_its_reasons(site, post):
    """A receipt that does not verify is answered with every problem."""
    site.submit()
    claim = site.claim()
    body = {"claimToken": claim["claimToken"], "receipt": receipt(claim, site.clock())}
    status, reply = post(f"/v1/runs/{claim['runId']}/complete", body)

    assert (status, reply["code"]) == (422, "receipt_invalid")
    assert any(reason.startswith("10.") for reason in reply["reasons"])


@pytest.mark.parametrize("events", [None, 7, True, "abc", {"a": 1}, [None], [[]]])
@pytest.mark.parametrize("step", ["events", "complete"])
def test_events_that_are_no_list_of_events_are_refused(site, post, step, events):
    """Whatever stands where events should, at either step, is a broken chain and changes nothing; none is fine."""
    run_id = site.submit()
    claim = site.claim()
    body = {"claimToken": claim["claimToken"], "receipt": {}, "events": events}
    status, reply = post(f"/v1/runs/{run_id}/{step}", body)

    assert (status, reply["code"]) == (400, "chain_broken")
    assert site.plane.run(run_id)["events"] == claim["events"]
    assert post(f"/v1/runs/{run_id}/events", {**body, "events": []})[0] == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "events": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"seq": JSON, "ts": JSON, "prev": JSON, "event": JSON, "hash": JSON, "version": JSON}
            ),
            max_size=2,
        ),
        "receipt": JSON,
        "release": JSON,
        "knows": JSON,
        "tiers": JSON,
        "pool": JSON,
    },
)


@given(step=st.sampled_from(["events", "complete", "claim"]), fields=FIELDS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_of_a_runner_breaks_the_plane(site, step, fields):
    """Whatever a runner with a good token sends, the answer is a status, and the chain stays whole."""
    run_id = site.submit()
    claim = site.claim()
    body = {"claimToken": claim["claimToken"], "runnerToken": site.token, **fields}
    path = "/v1/claims" if step == "claim" else f"/v1/runs/{run_id}/{step}"
    status, _ = answer(site.plane, path, json.dumps(body).encode())

    assert status in {200, 400, 403, 413, 422}
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], site.clock()))
