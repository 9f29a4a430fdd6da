"""Routes about runs: asked for, looked at, decided about."""

import pytest

from tests.unit.doors.http.served import REQUEST


def test_a_run_is_asked_for_as_whoever_asks(served):
    """The token says who asks, whatever the request says; the reply has what was decided and why."""
    lying = {"requestedBy": {"kind": "human", "id": "admin"}, "door": "cli"}
    told = served.submit("requester", **lying)
    assert told["requestedBy"] == {"kind": "human", "id": "requester"}
    assert (told["status"], told["decision"], told["policy"]) == ("created", "allow", "plane")
    assert told["consentRequirements"] == told["requirements"] == []
    run = served.ask("GET", f"/v1/runs/{told['runId']}", "requester").json()
    assert (run["contractHash"], run["door"]) == (told["contractHash"], "http")
    assert [link["event"]["type"] for link in run["events"]][:2] == ["run.created", "policy.evaluated"]
    assert run["position"] >= 0


def test_a_denied_request_says_why_and_gives_the_refusal(served):
    """What policy denies is 403 with code, reasons, rules and the signed refusal, which can be fetched again."""
    reply = served.ask("POST", "/v1/runs", "requester", json={"request": {**REQUEST, "secretNames": ["X"]}})
    told = reply.json()
    assert (reply.status_code, told["code"]) == (403, "policy_denied")
    assert told["rules"] == ["secrets"]
    assert told["reasons"]
    path = f"/v1/refusals/{told['refusal']['id']}"
    assert served.ask("GET", path, "requester").json() == told["refusal"]
    assert served.ask("GET", path, "approver").status_code == 200
    listed = served.ask("GET", "/v1/runs?refused=true", "requester").json()["runs"]
    assert told["refusal"]["id"] in [one["id"] for one in listed]
    assert told["refusal"]["id"] not in [one["id"] for one in served.ask("GET", "/v1/runs").json()["runs"]]


@pytest.mark.parametrize("request_", [REQUEST, {**REQUEST, "secretNames": ["X"]}])
def test_a_dry_run_tells_and_keeps_nothing(served, request_):
    """The report says what would be decided, allowed or denied, and no run comes of it."""
    before = served.ask("GET", "/v1/runs?refused=1").json()
    reply = served.ask("POST", "/v1/runs", "requester", json={"dryRun": True, "request": request_})
    assert reply.status_code == 200
    assert reply.json()["policyDecision"]["decision"] == ("deny" if "secretNames" in request_ else "allow")
    assert served.ask("GET", "/v1/runs?refused=1").json() == before


@pytest.mark.parametrize(
    "body",
    [{}, {"request": []}, {"request": {"promt": "x"}}, {"request": REQUEST, "dryRun": 1}, {"request": {"pool": 7}}],
)
def test_a_malformed_request_is_400(served, body):
    """What is no request is told with what is wrong."""
    reply = served.ask("POST", "/v1/runs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (400, "malformed")
    assert reply.json()["issues"]


def test_runs_are_listed_in_pages(served):
    """Pages follow each other without gap or repetition, newest first."""
    made = [served.submit("requester")["runId"] for _ in range(5)]
    found, before = [], ""
    while True:
        page = served.ask("GET", f"/v1/runs?limit=2{before}", "requester").json()
        found += [one["runId"] for one in page["runs"]]
        if "next" not in page:
            break
        before = f"&before={page['next']}"
    assert found[:5] == made[::-1]
    assert len(found) == len(set(found))
    line = served.ask("GET", "/v1/runs?limit=1", "requester").json()["runs"][0]
    assert {"agentKind", "prompt", "requestedBy", "hasReceipt", "pool", "consentRequirements"} <= set(line)


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "limit=1&limit=2", "refused=maybe", "limit=-1"])
def test_an_odd_query_is_400(served, query):
    """A query that cannot be meant is refused, never guessed."""
    assert served.ask("GET", f"/v1/runs?{query}").status_code == 400
    assert served.ask("GET", "/v1/runs?limit=1&refused=false").status_code == 200


def test_people_approve_and_deny_by_their_own_name(served):
    """What waits is told in sentences and objects; the one who approves is the one whose token it is."""
    told = served.submit(pool="deploy")
    assert told["consentRequirements"] == ["ask-for-deploys: 1 of *"]
    assert told["requirements"][0]["rule"] == "ask-for-deploys"
    run = told["runId"]
    waiting = served.ask("GET", "/v1/approvals", "approver").json()["waiting"]
    assert (waiting[-1]["runId"], waiting[-1]["consentRequirements"]) == (run, told["consentRequirements"])
    lying = {"actor": {"kind": "human", "id": "admin"}}
    assert served.ask("POST", f"/v1/runs/{run}/approve", "approver", json=lying).json()["status"] == "created"
    events = served.ask("GET", f"/v1/runs/{run}").json()["events"]
    granted = next(link["event"] for link in events if link["event"]["type"] == "consent.granted")
    assert granted["actor"]["id"] == "approver"
    other = served.submit(pool="deploy")["runId"]
    assert served.ask("POST", f"/v1/runs/{other}/deny", "approver", json={"reason": "not now"}).status_code == 200
    assert served.ask("POST", f"/v1/runs/{other}/approve", "approver").status_code == 409
    assert "not now" in served.ask("GET", f"/v1/runs/{other}/why", "requester").text


def test_a_run_is_stopped_by_its_requester(served):
    """Its own run a requester may cancel; nobody's run is nowhere."""
    run = served.submit()["runId"]
    assert served.ask("POST", f"/v1/runs/{run}/cancel", "requester").json()["status"] == "cancelled"
    assert served.ask("POST", "/v1/runs/run_none/cancel", "requester").status_code == 404
    assert served.ask("GET", f"/v1/runs/{run}/bundle", "requester").status_code == 404
    assert served.ask("GET", f"/v1/runs/{run}/output/stdout", "requester").status_code == 404


def test_ids_are_found_by_their_beginning(served):
    """A beginning gives the ids that the asker may see."""
    run = served.submit("admin")["runId"]
    assert served.ask("GET", f"/v1/names?beginning={run[:12]}&limit=5").json()["names"] == [run]
    assert served.ask("GET", f"/v1/names?beginning={run[:12]}", "requester").json()["names"] == []


def test_export_gives_every_event_in_a_line(served):
    """The export is NDJSON, one event each; a time that is none is 400."""
    run = served.submit()["runId"]
    reply = served.ask("GET", "/v1/export", "auditor")
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    assert any(run in line for line in reply.text.splitlines())
    assert served.ask("GET", "/v1/export?since=2999-01-01T00:00:00.000Z", "auditor").text == ""
    assert served.ask("GET", "/v1/export?since=yesterday", "auditor").status_code == 400


def test_metrics_are_json_or_prometheus(served):
    """Numbers are JSON, or text for Prometheus where it asks for that."""
    served.submit()
    assert served.ask("GET", "/v1/metrics", "auditor").json()["metrics"]["runs"]["created"] >= 1
    reply = served.ask("GET", "/v1/metrics", "auditor", headers={"accept": "text/plain;version=0.0.4"})
    assert reply.headers["content-type"].startswith("text/plain")
    assert '\ntipstaff_runs{key="created"} ' in reply.text
    assert "tipstaff_store_bytes " in reply.text


def test_the_policy_is_there_to_be_read(served):
    """Who may read the policy gets it with its hash."""
    told = served.ask("GET", "/v1/policy", "requester").json()
    assert told["policy"]["name"] == "plane"
    assert len(told["policyHash"]) == 64
