"""A requester that lies: it has a token of its own, and tries to get more. Each refusal has its permitted twin."""

import json

import pytest

from tests.wire.old_peer import OldClient
from tests.wire.stage import PATIENT, Stage, shell
from tests.wire.talking import talk

LIMITED = """
version: tipstaff.policy.v1
name: limited
principals:
  - id: "*"
rules:
  - {id: mock-agents, effect: allow, when: {agents: [mock]}}
  - {id: looking, effect: allow, when: {argv: [[ls, "..."]]}}
  - {id: asked, effect: ask, when: {principals: [careful]}, approvals: {approvers: [careful, alice]}}
pools: [default]
network:
  hosts:
    - {host: allowed.example, ports: [443]}
tiers:
  default: bwrap
  minimum: bwrap
  tolerate: {disk: weaker, memory: weaker, cpu: unenforceable}
limits:
  time: {default: 1m, max: 10m}
disclosure: [minimal-context, redacted]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A plane with a policy that allows little."""
    with Stage(tmp_path_factory.mktemp("limited")) as made:
        yield made.init_plane(policy=LIMITED, limits=PATIENT).start_plane()


@pytest.fixture(scope="module")
def mallory(site):
    """Somebody who may ask for runs."""
    return OldClient(site.url, site.token("mallory"))


@pytest.fixture(scope="module")
def anna(site):
    """Somebody else who may."""
    return OldClient(site.url, site.token("anna"))


def mock(**fields):
    """A request that this policy allows, changed."""
    return {"requestedBy": {"kind": "human", "id": "mallory"}, "agentKind": "mock", "prompt": "note", **fields}


def asked(client, request):
    """Ask for a run."""
    return client.ask("POST", "/v1/runs", {"request": request})


def tree(digest):
    """A manifest that names this blob."""
    empty: dict[str, list[str]] = {"untrackedFiles": [], "deniedPatterns": [], "deniedPaths": []}
    return {"version": "warrant.manifest.v1", "kind": "tree", "baseRef": digest, "treeHash": digest, **empty}


def test_the_twin_of_all_below_is_allowed(mallory):
    """What the policy allows is taken in: the refusals below are about what they change."""
    reply = asked(mallory, mock())

    assert (reply.status, reply.json["status"]) == (200, "created")


@pytest.mark.parametrize(
    "change",
    [
        {"execution": {"kind": "shell", "script": "id"}},
        {"execution": {"kind": "argv", "command": "id"}},
        {"execution": {"kind": "python", "source": "print(1)"}},
        {"execution": {"kind": "agent", "agent": {"kind": "command"}, "prompt": "id"}},
    ],
    ids=lambda change: str(change["execution"]["kind"]),
)
def test_flaw_2_an_execution_behind_an_allowed_agent_kind_is_judged_itself(mallory, change):
    """The label `mock` beside another execution allows nothing: what would run is what is judged."""
    reply = asked(mallory, mock(**change))

    assert (reply.status, reply.code) == (403, "policy_denied"), reply


@pytest.mark.parametrize(
    ("change", "twin"),
    [
        ({"network": {"defaultDeny": False, "allowHosts": []}}, {"network": {"defaultDeny": True, "allowHosts": []}}),
        ({"network": {"allowHosts": ["elsewhere.example"]}}, {"network": {"allowHosts": ["allowed.example"]}}),
        ({"secretNames": ["MOCK_SECRET"]}, {"secretNames": []}),
        ({"pool": "elsewhere"}, {"pool": "default"}),
        ({"disclosure": "full"}, {"disclosure": "redacted"}),
        ({"files": {"workspace": "/etc"}}, {"files": {}}),
        ({"files": {"readable": ["/etc/shadow"]}}, {"files": {"readable": []}}),
        ({"files": {"workspace": "/srv", "inPlace": True}}, {"files": {"inPlace": False}}),
    ],
)
def test_what_the_policy_does_not_grant_is_denied(mallory, change, twin):
    """Open networks, other hosts, secrets, pools, weaker tiers and folders of the runner's host are refused."""
    denied, allowed = asked(mallory, mock(**change)), asked(mallory, mock(**twin))

    assert (denied.status, denied.code) == (403, "policy_denied"), denied
    assert denied.json["reasons"]
    assert denied.json["refusal"]["signatures"]
    assert allowed.status == 200, allowed


@pytest.mark.parametrize("isolation", ["process", "bwrap", None])
def test_flaw_6_a_requester_cannot_choose_less_than_the_minimum(mallory, isolation):
    """Whatever tier is asked for, the contract has none below the policy's minimum."""
    reply = asked(mallory, mock(isolation=isolation))

    contract = mallory.ask("GET", f"/v1/runs/{reply.json['runId']}").json["contract"]
    assert (contract["tier"], contract["minimumTier"]) == ("bwrap", "bwrap")


@pytest.mark.parametrize(
    ("environment", "status"),
    [
        ({"inherit": ["AWS_SECRET_ACCESS_KEY"]}, 403),
        ({"vars": {"HTTP_PROXY": "http://elsewhere"}}, 403),
        ({"vars": {"PATH": "/opt"}}, 403),
        ({"vars": {"LD_PRELOAD": "/opt/x.so"}}, 403),
        ({"vars": {"X": "__WARRANT_SECRET__:MOCK_SECRET"}}, 403),
        ({"vars": {"X": "1"}}, 200),
    ],
)
def test_flaws_3_and_4_the_environment_is_judged(mallory, environment, status):
    """Variables of the runner's host and names that steer the sandbox are refused; another variable is not."""
    execution = {"kind": "argv", "command": "ls", "env": environment}

    reply = asked(mallory, mock(execution=execution))

    assert reply.status == status, reply


def test_flaw_4_without_a_gate_there_is_no_network(mallory):
    """Switching the gate off never opens the network: such a contract has no host, or is refused."""
    execution = {"kind": "argv", "command": "ls", "env": {"egressProxy": False}}

    reply = asked(mallory, mock(execution=execution, network={"allowHosts": ["allowed.example"]}))

    if reply.status == 200:
        contract = mallory.ask("GET", f"/v1/runs/{reply.json['runId']}").json["contract"]
        assert contract["network"]["allowHosts"] == [] or contract["execution"]["env"]["egressProxy"] is False
        assert contract["network"]["defaultDeny"] is True
    else:
        assert reply.code == "policy_denied", reply


def test_flaw_5_a_timeout_is_clamped(mallory):
    """A day is asked for, and ten minutes are granted, in every place where the contract speaks of time."""
    execution = {"kind": "argv", "command": "ls", "timeoutMs": 86_400_000}

    reply = asked(mallory, mock(execution=execution, budget={"maxDurationMin": 1440}))

    contract = mallory.ask("GET", f"/v1/runs/{reply.json['runId']}").json["contract"]
    assert (contract["execution"]["timeoutMs"], contract["limits"]["timeMs"]) == (600_000, 600_000)


def test_flaw_7_the_requester_is_the_bearer(mallory):
    """Whoever the request says that it is from, the contract says who asked."""
    reply = asked(mallory, mock(requestedBy={"kind": "service", "id": "anna"}))

    assert reply.status == 200, reply
    contract = mallory.ask("GET", f"/v1/runs/{reply.json['runId']}").json["contract"]
    assert contract["requestedBy"]["id"] == contract["principal"] == "mallory"
    assert contract["door"] == "http"


@pytest.mark.parametrize("field", [{"door": "cli"}, {"toolEffect": "read"}, {"tool": "run"}])
def test_what_only_a_site_may_say_is_not_taken_from_a_caller(mallory, field):
    """A door or a tool's effect in the request is refused or written over, never believed."""
    reply = asked(mallory, mock(execution={"kind": "shell", "script": "id"}, **field))

    assert 400 <= reply.status < 500, reply


def test_flaw_7_nobody_approves_its_own_run(site):
    """A requester who is named as an approver cannot approve its own run; another approver can."""
    careful = OldClient(site.url, site.token("careful", "admin"))
    alice = OldClient(site.url, site.token("alice", "approver"))
    run_id = asked(careful, mock()).json["runId"]

    own = careful.ask("POST", f"/v1/runs/{run_id}/approve", {})
    still = careful.ask("GET", f"/v1/runs/{run_id}").json["status"]
    other = alice.ask("POST", f"/v1/runs/{run_id}/approve", {"actor": {"kind": "human", "id": "careful"}})

    assert own.status in {403, 409, 422} or still == "awaiting_approval"
    assert still == "awaiting_approval"
    assert (other.status, careful.ask("GET", f"/v1/runs/{run_id}").json["status"]) == (200, "created")


def test_flaw_22_anothers_blob_cannot_be_named(mallory, anna):
    """A manifest may name what its requester uploaded; another's hash is refused, and reads as missing."""
    blob = anna.upload(b"the source of anna's project")

    named = asked(mallory, mock(workspace=tree(blob)))
    read = mallory.ask("GET", f"/v1/blobs/{blob}")
    own = asked(anna, mock(workspace=tree(blob)))

    assert named.status in {403, 404, 422}, named
    assert b"anna" not in named.body
    assert read.status in {403, 404}
    assert own.status == 200, own


def test_sending_the_same_bytes_does_not_lend_anothers_reach(mallory, anna):
    """Who has the bytes may send them again and then name them; who only knows the hash may not."""
    data = b"bytes that both have"
    anna.upload(data)

    reply = asked(mallory, mock(workspace=tree(mallory.upload(data))))

    assert reply.status == 200, reply


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("GET", ""),
        ("GET", "/bundle"),
        ("GET", "/why"),
        ("GET", "/output/stdout"),
        ("GET", "/follow"),
        ("POST", "/cancel"),
    ],
)
def test_anothers_run_does_not_exist(mallory, anna, method, what):
    """Every look at another's run, and every attempt to stop it, is 404, as for a run that never was."""
    run_id = asked(anna, mock()).json["runId"]

    reply = mallory.ask(method, f"/v1/runs/{run_id}{what}")
    never = mallory.ask(method, f"/v1/runs/run_00000000-0000-4000-8000-000000000000{what}")

    assert (reply.status, never.status) == (404, 404), (reply, never)
    assert anna.ask("GET", f"/v1/runs/{run_id}").status == 200
    assert run_id not in json.dumps(mallory.ask("GET", "/v1/runs").json)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/principals"),
        ("POST", "/v1/principals"),
        ("POST", "/v1/enroll-tokens"),
        ("GET", "/v1/runners"),
        ("GET", "/v1/export"),
        ("GET", "/v1/metrics"),
        ("DELETE", "/v1/principals/anna"),
        ("POST", "/v1/principals/anna/rotate"),
    ],
)
def test_a_requester_administers_nothing(site, mallory, method, path):
    """What is an admin's is 403 to a requester and 401 to nobody."""
    body = {"name": "x", "role": "admin"} if method == "POST" else None

    assert mallory.ask(method, path, body).status == 403
    assert talk(site.url, method, path, body).status == 401


def test_unknown_fields_of_a_request_are_refused(mallory):
    """A request is understood whole or not at all."""
    assert asked(mallory, mock(sudo=True)).status == 400
    assert asked(mallory, mock(execution={"kind": "argv", "command": "ls", "privileged": True})).status == 400


def test_tokens_are_never_in_the_logs(site, mallory):
    """Whatever was asked above, no token of anybody's stands in what the plane said."""
    asked(mallory, shell("true"))

    assert site.plane is not None
    assert mallory.token not in site.plane.text
    assert site.admin not in site.plane.text
