"""A runner that lies: it is enrolled, has its key and its token, and tries to do what a runner may not do."""

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wire.old_peer import OldClient, OldRunner
from tests.wire.old_words import OldChain, OldKey, hash_of, problems
from tests.wire.talking import Json, talk
from tests.wire.test_old_peers import carried_out
from tipstaff.evidence import verify

ALICE = {"kind": "human", "id": "alice"}
FORGED: dict[str, Json] = {
    "consent.granted": {"actor": ALICE},
    "consent.requested": {"requirement": "none"},
    "policy.evaluated": {"decision": "allow", "reason": "because"},
    "run.claimed": {"runnerId": "rnr_1", "runnerKeyId": "ed25519:0123456789abcdef"},
    "run.created": {},
    "run.requeued": {},
    "secret.released": {"name": "MOCK_SECRET", "scope": "session"},
    "run.failed": {"failure": "runner_lost", "message": "gone"},
    "something.new": {},
}


@pytest.fixture
def held(requester, enrolled, pool):
    """A run that a runner holds: the runner, its claim, its chain."""
    runner = enrolled(pool)
    requester.submit(requester.request("true", None, "command", pool=pool))
    claim = runner.claim()
    return runner, claim, OldChain(claim["events"])


def tell(runner, claim, links, **more):
    """Send events as a runner does."""
    body = {"claimToken": claim["claimToken"], "events": links, **more}
    return runner.post(f"/v1/runs/{claim['runId']}/events", body)


def complete(runner, claim, receipt, **more):
    """Send a receipt as a runner does."""
    body = {"claimToken": claim["claimToken"], "receipt": receipt, **more}
    return runner.post(f"/v1/runs/{claim['runId']}/complete", body)


def ordinary(claim, chain):
    """Add what an honest runner tells of a command that printed nothing."""
    script = claim["contract"]["execution"]["script"]
    hashed = {"kind": "shell", "shell": "sh", "script": script, "cwd": "."}
    return [
        chain.add("workspace.materialized", manifestHash=hash_of(claim["contract"]["workspace"])),
        chain.add("command.executed", argvHash=hash_of(hashed), exitCode=0),
        chain.add("run.completed"),
    ]


def finished(runner, claim, chain):
    """End a run as an honest runner does: whatever was tried before has done no harm."""
    links = ordinary(claim, chain)
    assert tell(runner, claim, links).status == 200
    reply = complete(runner, claim, runner.receipt(claim, chain))
    assert reply.status == 200, reply
    return reply


@pytest.mark.parametrize("kind", FORGED)
def test_flaw_18_a_runner_cannot_author_the_planes_events(held, requester, kind):
    """An event that only a plane may author, or that nobody knows, is refused; the run can still be completed."""
    runner, claim, chain = held
    forged = OldChain(chain.links)

    reply = tell(runner, claim, [forged.add(kind, **FORGED[kind])])

    assert reply.status == 403, reply
    assert reply.code == "event_not_yours"
    finished(runner, claim, chain)
    assert problems(requester.bundle(claim["runId"])) == []


@pytest.mark.parametrize("step", ["events", "renew", "complete", "log", "ask"])
def test_another_runs_token_opens_nothing(held, requester, enrolled, pool, step):
    """A claim token of one run is 401 at another's, on every route that takes one."""
    runner, claim, chain = held
    other = enrolled(f"{pool}-b")
    requester.submit(requester.request("true", None, "command", pool=other.pool))
    theirs = other.claim()

    body = {
        "claimToken": theirs["claimToken"],
        "events": [],
        "receipt": {},
        "stream": "stdout",
        "offset": 0,
        "data": "",
    }
    reply = runner.post(f"/v1/runs/{claim['runId']}/{step}", body)

    assert (reply.status, reply.code) == (401, "token_unknown"), reply
    finished(runner, claim, chain)


@pytest.mark.parametrize("token", [None, "", "x", "a.b", 5, "é.è", "A" * 10_000])
def test_a_made_up_token_is_refused(held, token):
    """Whatever is not a token of this plane is 401, and never an error of the server."""
    runner, claim, _ = held

    reply = runner.post(f"/v1/runs/{claim['runId']}/events", {"claimToken": token, "events": []})

    assert reply.status == 401, reply


def test_the_same_events_twice_are_taken_once(held, requester):
    """Events that were sent before, exactly so, change nothing: a lost reply can be asked for again."""
    runner, claim, chain = held
    links = ordinary(claim, chain)

    first, second = (tell(runner, claim, links) for _ in range(2))
    reply = complete(runner, claim, runner.receipt(claim, chain))

    assert (first.status, second.status, reply.status) == (200, 200, 200)
    assert len(requester.bundle(claim["runId"])["events"]) == len(chain.links)


def test_other_events_at_the_same_place_are_refused(held):
    """An event with a number that is taken, and another content, is a broken chain."""
    runner, claim, chain = held
    told = OldChain(chain.links)
    assert tell(runner, claim, ordinary(claim, told)).status == 200
    other = OldChain(chain.links)
    other.add("workspace.materialized", manifestHash="0" * 64)

    reply = tell(runner, claim, other.links[-1:])

    assert (reply.status, reply.code) == (400, "chain_broken")


def test_the_same_receipt_twice_gets_the_same_answer(held):
    """A receipt sent again is answered with what is kept; another one for the same run is refused."""
    runner, claim, chain = held
    first = finished(runner, claim, chain)

    again = complete(runner, claim, runner.receipt(claim, chain) | {"costUsd": 1})
    same = complete(runner, claim, {**first.json["receipt"], "signatures": first.json["receipt"]["signatures"][:1]})

    assert (again.status, again.code) == (409, "completed")
    assert (same.status, same.json) == (200, first.json)


def test_flaw_13_nothing_is_added_after_the_end(held, requester):
    """Events, blobs and renewals after the completion are refused, and the bundle stays valid."""
    runner, claim, chain = held
    finished(runner, claim, chain)
    before = requester.bundle(claim["runId"])

    late = tell(runner, claim, [chain.add("artifact.created", kind="log", hash="0" * 64)])
    renewed = runner.post(f"/v1/runs/{claim['runId']}/renew", {"claimToken": claim["claimToken"]})
    blob = talk(runner.url, "POST", "/v1/blobs", b"late", claim["claimToken"])

    assert (late.status, renewed.status) == (409, 409)
    assert blob.status in {401, 409}
    assert requester.bundle(claim["runId"]) == before
    assert problems(before) == []


def test_flaw_10_a_receipt_that_can_be_mended_may_be_sent_again(held, requester):
    """A receipt that does not verify is 422 with the reasons and burns nothing: the right one is then taken."""
    runner, claim, chain = held
    assert tell(runner, claim, ordinary(claim, chain)).status == 200
    good = runner.receipt(claim, chain)
    wrong = runner.key.signed({**{k: v for k, v in good.items() if k != "signatures"}, "eventCount": 99}, "runner")

    refused = complete(runner, claim, wrong)
    taken = complete(runner, claim, good)

    assert (refused.status, refused.code) == (422, "receipt_invalid")
    assert refused.json["reasons"]
    assert taken.status == 200
    assert problems(requester.bundle(claim["runId"])) == []


def test_a_receipt_signed_with_another_key_is_refused(held):
    """Only the enrolled key's signature counts, whatever the receipt says of its key."""
    runner, claim, chain = held
    assert tell(runner, claim, ordinary(claim, chain)).status == 200
    unsigned = {name: value for name, value in runner.receipt(claim, chain).items() if name != "signatures"}
    stranger = OldKey()
    named = {**unsigned, "runner": {**unsigned["runner"], "keyId": stranger.key_id}}

    replies = [complete(runner, claim, stranger.signed(one, "runner")) for one in (unsigned, named)]
    replies.append(complete(runner, claim, runner.key.signed(unsigned, "plane")))
    replies.append(complete(runner, claim, unsigned))

    assert [reply.status for reply in replies] == [422] * 4
    assert complete(runner, claim, runner.receipt(claim, chain)).status == 200


def test_a_receipt_for_another_run_is_refused(held, requester, enrolled, pool):
    """A receipt that was made for one run does not end another."""
    runner, claim, chain = held
    other = enrolled(f"{pool}-b")
    theirs = carried_out(requester, other, requester.request("true", None, "command"))

    reply = complete(runner, claim, {**theirs["receipt"], "signatures": theirs["receipt"]["signatures"][:1]})

    assert reply.status == 422
    finished(runner, claim, chain)


@pytest.mark.parametrize("lie", ["secretsReleased", "networkAccessed", "boundaryDisclosures", "diffHash", "startedAt"])
def test_flaw_18_a_receipts_copies_must_agree_with_the_events(held, lie):
    """A receipt that tells of secrets, hosts, disclosures or diffs which no event tells of is refused."""
    runner, claim, chain = held
    assert tell(runner, claim, ordinary(claim, chain)).status == 200
    said = {name: value for name, value in runner.receipt(claim, chain).items() if name != "signatures"}
    lies = {
        "secretsReleased": [{"name": "MOCK_SECRET", "scope": "session", "ts": chain.links[0]["ts"]}],
        "networkAccessed": [{"host": "example.com", "decision": "allowed"}],
        "boundaryDisclosures": [{"direction": "out", "contentHash": "0" * 64, "dataClass": "code-diff"}],
        "startedAt": "2020-01-01T00:00:00.000Z",
    }
    if lie == "diffHash":
        said["workspaceOut"] = {"diffHash": "0" * 64, "artifactHashes": []}
    else:
        said[lie] = lies[lie]

    reply = complete(runner, claim, runner.key.signed(said, "runner"))

    assert reply.status == 422, reply
    assert complete(runner, claim, runner.receipt(claim, chain)).status == 200


def test_an_artifact_that_was_never_sent_is_refused(held):
    """An event that names content which this run did not bring is refused; with the content it is taken."""
    runner, claim, chain = held
    chain.add("workspace.materialized", manifestHash=hash_of(claim["contract"]["workspace"]))
    absent = OldChain(chain.links)
    absent.add("artifact.created", kind="log", hash="5" * 64)

    refused = tell(runner, claim, absent.links[-2:])
    sent = talk(runner.url, "POST", "/v1/blobs", b"a log", claim["claimToken"])
    chain.add("artifact.created", kind="log", hash=sent.json["hash"])
    taken = tell(runner, claim, chain.links[-2:])

    assert 400 <= refused.status < 500, refused
    assert (sent.status, taken.status) == (200, 200)


def test_a_huge_event_is_refused(held):
    """An event of a hundred megabytes is 413, an event of two as well, and the plane answers the next request."""
    runner, claim, chain = held
    large = OldChain(chain.links)
    large.add("workspace.materialized", manifestHash="0" * 64, more="x" * 2_000_000)

    huge = talk_in_pieces(runner, f"/v1/runs/{claim['runId']}/events", 100_000_000)
    reply = tell(runner, claim, large.links[-1:])

    assert huge in {413, 0}  # 0: the plane hung up before all of it was sent
    assert (reply.status, reply.code) == (413, "event_too_large")
    finished(runner, claim, chain)


def talk_in_pieces(runner, path, size):
    """Post a body of this many bytes; gives the status, 0 where the connection was cut."""
    try:
        return talk(runner.url, "POST", path, b'{"claimToken":"' + b"x" * size + b'"}').status
    except (ConnectionError, OSError):
        return 0


def test_ten_thousand_events_at_once_are_taken(held, requester):
    """A long chain is no reason to refuse it, and it still verifies."""
    runner, claim, chain = held
    links = [chain.add("network.connected", host=f"h{n}.example", decision="blocked") for n in range(10_000)]
    reply = tell(runner, claim, links)
    assert reply.status == 200, reply.body[:300]
    assert tell(runner, claim, ordinary(claim, chain)).status == 200
    receipt = {name: value for name, value in runner.receipt(claim, chain).items() if name != "signatures"}
    receipt["networkAccessed"] = [{"host": f"h{n}.example", "decision": "blocked"} for n in range(10_000)]

    reply = complete(runner, claim, runner.key.signed(receipt, "runner"))

    assert reply.status == 200, reply.body[:300]
    assert problems(requester.bundle(claim["runId"])) == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"events":1}', b'{"a":1,"a":2}', b"\xff", b"[" * 5000])
@pytest.mark.parametrize("route", ["/v1/claims", "/v1/runners/enroll", "/v1/runs/run_x/events", "/v1/runners/drain"])
def test_what_is_not_a_request_is_refused(site, route, body):
    """Bytes that are no request of a runner are a 4xx with a sentence, never an error of the server."""
    reply = talk(site.url, "POST", route, body, Content_Type="application/json")

    assert 400 <= reply.status < 500, reply
    assert isinstance(reply.json["error"], str)


def test_a_claim_for_another_pool_is_refused(requester, enrolled, pool):
    """A runner claims from the pool that it was enrolled for, and from no other."""
    runner = enrolled(pool)
    requester.submit(requester.request("true", None, "command", pool=f"{pool}-other"))

    other = runner.post("/v1/claims", {"runnerToken": runner.token, "pool": f"{pool}-other"})
    own = runner.post("/v1/claims", {"runnerToken": runner.token, "pool": pool})

    assert (other.status, other.code) == (403, "other_pool")
    assert (own.status, own.json["empty"]) == (200, True)


def test_flaw_23_an_enrol_token_works_once(site, tmp_path):
    """A token that was used, was never given, or is for another pool is refused as 401, 401 and 403."""
    token, bound = site.enroll_token(), site.enroll_token("there")
    first, second, here = (OldRunner(site.url, tmp_path, name) for name in ("here", "here", "here"))

    replies = [first.enroll(token), second.enroll(token), second.enroll("made-up"), here.enroll(bound)]

    assert [(reply.status, reply.code) for reply in replies] == [
        (200, ""),
        (401, "enroll_token"),
        (401, "enroll_token"),
        (403, "other_pool"),
    ]


def test_one_of_eight_racing_for_an_enrol_token_gets_it(site, tmp_path):
    """Eight that use one token at the same moment: one is enrolled, seven are refused."""
    token, start = site.enroll_token(), threading.Barrier(8)

    def race(number):
        runner = OldRunner(site.url, tmp_path, f"race-{number}")
        start.wait(10)
        return runner.enroll(token).status

    with ThreadPoolExecutor(8) as racers:
        statuses = sorted(racers.map(race, range(8)))

    assert statuses == [200] + [401] * 7


def test_eight_claims_at_once_get_one_run_each(requester, enrolled, pool):
    """Eight runners that claim at the same moment never get the same run."""
    runners = [enrolled(pool) for _ in range(8)]
    wanted = {requester.submit(requester.request("true", None, "command", pool=pool))["runId"] for _ in range(6)}
    start = threading.Barrier(8)

    def race(runner):
        start.wait(10)
        return runner.post("/v1/claims", {"runnerToken": runner.token, "pool": pool}).json.get("runId")

    with ThreadPoolExecutor(8) as racers:
        got = [one for one in racers.map(race, runners) if one]

    assert sorted(got) == sorted(wanted)


def test_a_revoked_runner_gets_nothing_more(site, requester, enrolled, pool):
    """A runner that the admin revoked can claim nothing; it could before."""
    runner = enrolled(pool)
    requester.submit(requester.request("true", None, "command", pool=pool))
    before = runner.post("/v1/claims", {"runnerToken": runner.token, "pool": f"{pool}"})

    gone = site.ask("DELETE", f"/v1/runners/{runner.runner_id}")
    after = runner.post("/v1/claims", {"runnerToken": runner.token, "pool": pool})

    assert (before.status, gone.status, after.status) == (200, 200, 401)


def test_flaw_22_a_runner_reads_the_blobs_of_its_contract_only(stage):
    """With a claim token a runner reads what its contract names; another blob, or no token, is refused."""
    stage.init_plane(minimum="process").start_plane()
    anna = OldClient(stage.url, stage.token("anna"))
    mine, other = anna.upload(b"[]"), anna.upload(b"a secret of somebody's")
    manifest = {
        "version": "warrant.manifest.v1",
        "kind": "tree",
        "baseRef": mine,
        "treeHash": mine,
        "untrackedFiles": [],
        "deniedPatterns": [],
        "deniedPaths": [],
    }
    anna.submit(anna.request("true", manifest, "command"))
    runner = OldRunner(stage.url, stage.folder / "old")
    runner.enroll(stage.enroll_token())
    claim = runner.claim()

    allowed = talk(stage.url, "GET", f"/v1/blobs/{mine}", token=claim["claimToken"])
    foreign = talk(stage.url, "GET", f"/v1/blobs/{other}", token=claim["claimToken"])
    nobody = talk(stage.url, "GET", f"/v1/blobs/{mine}")

    assert (allowed.status, allowed.body) == (200, b"[]")
    assert foreign.status in {403, 404}
    assert nobody.status == 401


def test_live_output_is_bounded_and_only_the_holders(held, requester):
    """Live output is taken from the holder, odd offsets and data are refused with a sentence, nothing breaks."""
    runner, claim, chain = held
    path = f"/v1/runs/{claim['runId']}/log"
    good = {"claimToken": claim["claimToken"], "stream": "stdout", "offset": 0, "data": base64.b64encode(b"x").decode()}
    odd: list[Json] = [
        {"stream": "stdin"},
        {"offset": -1},
        {"offset": 2**70},
        {"offset": "0"},
        {"data": "@"},
        {"data": 7},
    ]

    taken = runner.post(path, good)
    refused = [runner.post(path, good | one) for one in odd]

    assert taken.status == 200, taken
    assert [400 <= reply.status < 500 for reply in refused] == [True] * len(odd)
    finished(runner, claim, chain)
    assert json.dumps(requester.bundle(claim["runId"]))


def test_a_stale_attempt_is_refused_and_kept_aside(stage):
    """Once a lease is lost the old holder's events, renewal and receipt are 409, and the lost receipt verifies."""
    stage.init_plane(minimum="process", lease_seconds=2).start_plane()
    runner = OldRunner(stage.url, stage.folder / "old")
    runner.enroll(stage.enroll_token())
    run_id = stage.submit("true")
    body = {
        "runnerToken": runner.token,
        "pool": "default",
        "knows": ["release", "renew"],
        "tiers": ["process", "bwrap"],
    }
    claim = runner.post("/v1/claims", body).json
    chain = OldChain(claim["events"])
    assert tell(runner, claim, ordinary(claim, chain)[:1], release=True).status == 200

    said = stage.until(run_id, seconds=20)
    late = [
        tell(runner, claim, chain.links[-2:]),
        runner.post(f"/v1/runs/{run_id}/renew", {"claimToken": claim["claimToken"]}),
        complete(runner, claim, runner.receipt(claim, chain), events=chain.links[-2:]),
    ]

    assert said["status"] == "failed"
    assert [reply.status for reply in late] == [409] * 3
    bundle = stage.bundle(run_id)
    assert bundle["receipt"]["ending"] == "lost"
    assert verify(bundle, [stage.plane_key().read_text()]).verdict == "valid"


def test_flaw_8_a_claim_that_was_replaced_is_worth_nothing(stage):
    """A lease that ran out before the command was released goes to another runner; the first one's token is stale."""
    stage.init_plane(minimum="process", lease_seconds=2).start_plane()
    first, second = (OldRunner(stage.url, stage.folder / name) for name in ("first", "second"))
    for runner in (first, second):
        assert runner.enroll(stage.enroll_token()).status == 200
    run_id = stage.submit("true")
    knows = {"pool": "default", "knows": ["release", "renew"], "tiers": ["process", "bwrap"]}
    stale = first.post("/v1/claims", {"runnerToken": first.token, **knows}).json
    stage.until(run_id, "claimed", seconds=5)
    stage.until(run_id, "created", seconds=10)
    claim = second.claim()

    chain = OldChain(stale["events"])
    links = ordinary(stale, chain)
    late = [
        tell(first, stale, links[:1]),
        first.post(f"/v1/runs/{run_id}/renew", {"claimToken": stale["claimToken"]}),
        complete(first, stale, first.receipt(stale, chain), events=links),
        tell(second, {**claim, "claimToken": stale["claimToken"]}, []),
    ]

    assert [(reply.status, reply.code) for reply in late] == [(409, "claim_stale")] * 4
    finished(second, claim, OldChain(claim["events"]))
    bundle = stage.bundle(run_id)
    assert [link["event"]["type"] for link in bundle["events"]].count("run.claimed") == 2
    assert bundle["receipt"]["runner"]["runnerId"] == second.runner_id
    assert verify(bundle, [stage.plane_key().read_text()]).verdict == "valid"


def test_a_renewed_lease_voids_the_token_before(site, requester, enrolled, pool):
    """After a renewal the token before it tells nothing more; asked for again, the renewal gives the same token."""
    runner = enrolled(pool)
    requester.submit(requester.request("true", None, "command", pool=pool))
    body = {"runnerToken": runner.token, "pool": pool, "knows": ["release", "renew"], "tiers": ["process", "bwrap"]}
    claim = talk(site.url, "POST", "/v1/claims", body).json
    path, chain = f"/v1/runs/{claim['runId']}/renew", OldChain(claim["events"])

    renewed, again = (runner.post(path, {"claimToken": claim["claimToken"]}) for _ in range(2))
    old = tell(runner, claim, ordinary(claim, OldChain(claim["events"])))

    assert (renewed.status, again.status) == (200, 200)
    assert (old.status, old.code) == (409, "claim_stale")
    finished(runner, {**claim, "claimToken": again.json["claimToken"]}, chain)
