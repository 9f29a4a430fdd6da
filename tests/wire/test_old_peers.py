"""A client and a runner of the other implementation against our plane: every route as they call it."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.acceptance.repositories import git, grow
from tests.wire.conftest import SECRET
from tests.wire.old_peer import OldClient, OldRunner
from tests.wire.old_words import hash_of, key_id, payload, problems, signed_by
from tests.wire.talking import talk
from tipstaff.evidence import verify

CLAIM_FIELDS = {"runId", "contract", "claimToken", "events", "secrets"}


@pytest.fixture
def repository(tmp_path) -> Path:
    """A repository with something uncommitted, something unknown to git, and something that nobody should see."""
    folder = grow(tmp_path / "repository")
    (folder / "README.md").write_text("# Notes, changed\n")
    (folder / "new.txt").write_text("new\n")
    (folder / ".env").write_text("TOKEN=1\n")
    return folder


def carried_out(requester, runner, request):
    """Submit a request, have the runner carry it out, and give the bundle."""
    said = requester.submit(request | {"pool": runner.pool})
    assert said["status"] == "created"
    assert said["consentRequirements"] == []
    claim = runner.claim()
    assert claim["runId"] == said["runId"]
    reply = runner.carry_out(claim)
    assert reply.status == 200, reply
    bundle = requester.bundle(said["runId"])
    assert bundle["receipt"] == reply.json["receipt"]
    return bundle


@pytest.mark.parametrize("name", ["command-shell", "mock-fails", "mock-with-secret"])
def test_the_old_verifier_takes_the_other_implementations_bundles(root, name):
    """The emulated verifier finds nothing wrong with the other implementation's own bundles, and sees a change."""
    bundle = json.loads((root / "tests" / "vectors" / "other" / f"{name}.bundle.json").read_text())

    assert problems(bundle) == []
    bundle["events"][3]["ts"] = bundle["events"][4]["ts"]
    assert 8 in problems(bundle)


def test_health_and_readiness_need_no_token(site):
    """Whoever asks hears that the plane lives and is ready."""
    health, ready = (talk(site.url, "GET", f"/v1/{name}") for name in ("health", "ready"))

    assert (health.status, health.json["ok"]) == (200, True)
    assert (ready.status, ready.json["ready"]) == (200, True)


def test_an_old_runner_carries_out_a_mock_on_a_repository(site, requester, enrolled, pool, repository):
    """A repository captured by git comes to an old runner, our plane countersigns its receipt; both verifiers agree."""
    manifest = requester.capture(repository)

    bundle = carried_out(requester, enrolled(pool), requester.request("add a note", manifest))

    assert bundle["receipt"]["status"] == "completed"
    assert problems(bundle) == []
    assert verify(bundle, [site.plane_key().read_text()]).verdict == "valid"
    changed = {link["event"]["path"] for link in bundle["events"] if link["event"]["type"] == "file.changed"}
    assert changed == {"MOCK_AGENT.md", "README.md", "new.txt"}
    assert bundle["contract"]["workspace"]["deniedPaths"] == [".env"]
    assert bundle["contract"]["workspace"] == manifest


def test_an_old_runner_carries_out_a_command(requester, enrolled, pool):
    """The agent kind `command` without an execution is a shell script, as the old runner runs it."""
    bundle = carried_out(requester, enrolled(pool), requester.request("echo hi > out.txt; echo done", None, "command"))

    assert bundle["contract"]["execution"]["kind"] == "shell"
    assert bundle["receipt"]["status"] == "completed"
    assert problems(bundle) == []


def test_an_old_runner_gets_the_secret_that_the_contract_names(requester, enrolled, pool, repository):
    """A secret is released at the claim, and its release stands in the chain and in the receipt."""
    runner = enrolled(pool)
    request = requester.request("do work", requester.capture(repository), secretNames=["MOCK_SECRET"], pool=pool)
    run_id = requester.submit(request)["runId"]

    claim = runner.claim()
    reply = runner.carry_out(claim)

    assert claim["secrets"] == [{"name": "MOCK_SECRET", "value": SECRET}]
    assert reply.status == 200, reply
    bundle = requester.bundle(run_id)
    assert [one["name"] for one in bundle["receipt"]["secretsReleased"]] == ["MOCK_SECRET"]
    assert problems(bundle) == []
    assert SECRET not in json.dumps(bundle)


def test_an_old_runners_failing_run_is_a_failed_receipt(requester, enrolled, pool, repository):
    """A mock that is told to fail ends as session_failed with the protocol's message."""
    bundle = carried_out(requester, enrolled(pool), requester.request("please fail", requester.capture(repository)))

    assert bundle["receipt"]["status"] == "failed"
    assert bundle["events"][-1]["event"]["failure"] == "session_failed"
    assert bundle["events"][-1]["event"]["message"] == "agent exited with code 1"
    assert problems(bundle) == []


def test_an_old_runner_gets_a_lease_for_the_whole_timeout(requester, enrolled, pool):
    """A runner that knows no renewal holds the run for its timeout and more, and finds every field that it reads."""
    runner = enrolled(pool)
    requester.submit(requester.request("true", None, "command", budget={"maxDurationMin": 7}, pool=pool))

    claim = runner.claim()

    assert claim.keys() >= CLAIM_FIELDS
    assert claim["leaseMs"] > 7 * 60_000
    assert [link["event"]["type"] for link in claim["events"]][:2] == ["run.created", "policy.evaluated"]
    assert claim["events"][0]["prev"] == payload(claim["contract"])
    assert runner.carry_out(claim).status == 200


def test_an_old_runner_is_given_nothing_that_demands_a_sandbox(stage):
    """A run whose minimum is a sandbox never goes to a runner that names no tiers; one that demands none does."""
    stage.init_plane(minimum="bwrap").start_plane()
    runner = OldRunner(stage.url, stage.folder / "old")
    assert runner.enroll(stage.enroll_token()).status == 200
    run_id = stage.submit("true")

    reply = runner.post("/v1/claims", {"runnerToken": runner.token, "pool": "default"})

    assert reply.json["empty"] is True
    assert stage.seen(run_id)["status"] == "created"


def test_approval_by_an_actor_in_the_body_counts_for_the_bearer(site, enrolled, pool, requester):
    """An old approver sends an actor; the plane takes the bearer's own name, and the run becomes claimable."""
    careful = OldClient(site.url, site.token("careful"))
    alice = OldClient(site.url, site.token("alice", "approver"))
    runner = enrolled(pool)
    said = careful.submit(careful.request("true", None, "command", pool=pool))
    assert said["status"] == "awaiting_approval"
    assert [type(one) for one in said["consentRequirements"]] == [str]
    assert runner.post("/v1/claims", {"runnerToken": runner.token, "pool": pool}).json["empty"] is True

    body = {"actor": {"kind": "human", "id": "the-pope@example.com"}}
    refused = requester.ask("POST", f"/v1/runs/{said['runId']}/approve", body)
    reply = alice.ask("POST", f"/v1/runs/{said['runId']}/approve", body)

    assert refused.status == 403
    assert (reply.status, reply.json["runId"]) == (200, said["runId"])
    assert runner.carry_out(runner.claim()).status == 200
    bundle = careful.bundle(said["runId"])
    granted = [link["event"] for link in bundle["events"] if link["event"]["type"] == "consent.granted"]
    assert [one["actor"]["id"] for one in granted] == ["alice"]
    assert problems(bundle) == []


def test_the_list_and_the_run_have_the_old_fields(requester, enrolled, pool):
    """The list and a single run give an old client every field that it reads, typed as it reads them."""
    run_id = carried_out(requester, enrolled(pool), requester.request("true", None, "command"))["contract"]["runId"]

    line = next(one for one in requester.ask("GET", "/v1/runs").json["runs"] if one["runId"] == run_id)
    run = requester.ask("GET", f"/v1/runs/{run_id}").json

    assert {"status", "agentKind", "pool", "requestedBy", "createdAt", "updatedAt", "hasReceipt"} <= line.keys()
    assert (line["status"], line["hasReceipt"], line["consentRequirements"]) == ("completed", True, [])
    assert {"runId", "status", "createdAt", "updatedAt", "consentRequirements", "events"} <= run.keys()
    assert run["events"][-1]["event"]["type"] == "run.completed"


def test_a_waiting_run_can_be_cancelled(requester, pool):
    """An old client cancels a run that nobody has claimed, with an empty body or none."""
    for body in ({}, None, {"actor": {"kind": "human", "id": "x"}}):
        run_id = requester.submit(requester.request("true", None, "command", pool=pool))["runId"]
        reply = requester.ask("POST", f"/v1/runs/{run_id}/cancel", body)
        assert (reply.status, reply.json["status"]) == (200, "cancelled"), reply


def test_a_dry_run_keeps_nothing(requester, pool):
    """A dry run says what would be decided, and no run comes of it."""
    before = requester.ask("GET", "/v1/runs").json["runs"]
    body = {"dryRun": True, "request": requester.request("true", None, "command", pool=pool)}

    reply = requester.ask("POST", "/v1/runs", body)

    assert reply.status == 200, reply
    assert requester.ask("GET", "/v1/runs").json["runs"] == before


def test_a_refusal_has_the_old_shape(site, requester, pool):
    """What policy denies is 403 with the code and the reasons; what cannot be read is 400; who is unknown is 401."""
    asked = {"request": requester.request("true", None, "command", pool=pool, secretNames=["MOCK_SECRET"])}
    asked["request"]["network"] = {"defaultDeny": False, "allowHosts": []}

    denied = requester.ask("POST", "/v1/runs", asked)
    malformed = requester.ask("POST", "/v1/runs", b"{")
    unknown = talk(site.url, "POST", "/v1/runs", asked, "nobody")

    assert (denied.status, denied.json["code"]) == (403, "policy_denied")
    assert denied.json["reasons"]
    assert (malformed.status, unknown.status) == (400, 401)
    assert all(isinstance(one.json["error"], str) for one in (denied, malformed, unknown))


def test_blobs_are_whole_and_named_by_their_hash(requester):
    """A blob comes back to who sent it as it was; its name is its hash."""
    data = bytes(range(256)) * 5_000

    name = requester.upload(data)
    reply = requester.ask("GET", f"/v1/blobs/{name}")

    assert (reply.status, hashlib.sha256(reply.body).hexdigest()) == (200, name)


def test_administration_has_the_old_routes(site):
    """Policy, principals, enrol tokens, runners, export and metrics answer the admin as the protocol says."""
    policy = site.ask("GET", "/v1/policy")
    made = site.ask("POST", "/v1/principals", {"name": "newcomer", "role": "requester"})
    token = site.ask("POST", "/v1/enroll-tokens")
    lists = {name: site.ask("GET", f"/v1/{name}") for name in ("principals", "runners", "metrics")}
    export = site.ask("GET", "/v1/export?since=2026-01-01T00:00:00.000Z")

    assert policy.json.keys() >= {"policy", "policyHash"}
    assert (made.status, bool(made.json["token"])) == (200, True)
    assert (token.status, bool(token.json["token"])) == (200, True)
    assert all(reply.status == 200 and reply.json[name] is not None for name, reply in lists.items())
    assert export.status == 200
    assert all(isinstance(json.loads(line), dict) for line in export.body.splitlines())


def test_the_published_key_is_the_one_that_signs(site, requester, enrolled, pool):
    """The plane's key at /v1/keys signs contracts and receipts, and its id is made as the protocol says."""
    key = talk(site.url, "GET", "/v1/keys").json["keys"][0]

    bundle = carried_out(requester, enrolled(pool), requester.request("true", None, "command"))

    assert key["keyId"] == key_id(key["publicKeyPem"]) == bundle["contract"]["issuer"]["keyId"]
    assert signed_by(bundle["contract"], "plane", key["publicKeyPem"])
    assert signed_by(bundle["receipt"], "plane", key["publicKeyPem"])


def test_a_git_history_is_what_travels(requester, repository, enrolled, pool):
    """The commit that the manifest names is what the old runner checks out."""
    manifest = requester.capture(repository)

    bundle = carried_out(requester, enrolled(pool), requester.request("note", manifest))

    assert manifest["baseRef"] == git(repository, "rev-parse", "HEAD")
    assert bundle["receipt"]["workspaceIn"] == {"baseRef": manifest["baseRef"], "manifestHash": hash_of(manifest)}
