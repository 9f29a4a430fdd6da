"""A plane that serves several: fair turns, silent runners, a changed policy, checkpoints, signed time, late results."""

import base64

import msgspec
import pytest

from tests.unit.plane.embedded import (
    COMPLETED,
    PLANE,
    STRANGER,
    Embedded,
    carry_out,
    executed,
    follow,
    materialized,
    receipt,
)
from tests.unit.policy.conftest import open_policy
from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal
from tipstaff.plane.wire import answer

TIERS = {"tiers": ["bwrap", "process"]}
LEASE_MS = 60_000


@pytest.fixture
def shared(make_site):
    """A plane that serves several."""
    return make_site(shared=True)


def asked_by(site, name, **fields):
    """Queue a run of somebody's."""
    return site.submit(requestedBy={"kind": "human", "id": name}, **fields)


def test_requesters_take_turns(shared):
    """Who queues many does not keep who queues one waiting behind all of them; each one's own stay in order."""
    many = [asked_by(shared, "anna") for _ in range(4)]
    one = asked_by(shared, "boris")
    two = asked_by(shared, "clara")

    assert [shared.claim(**TIERS)["runId"] for _ in range(6)] == [many[0], one, two, *many[1:]]


def test_a_newcomer_does_not_overtake_those_who_waited(shared):
    """Turns begin at the one that was claimed last, not at the first that ever was."""
    many = [asked_by(shared, "anna") for _ in range(4)]
    shared.claim(**TIERS)
    shared.claim(**TIERS)
    late = [asked_by(shared, "boris") for _ in range(2)]

    assert [shared.claim(**TIERS)["runId"] for _ in range(4)] == [many[2], late[0], many[3], late[1]]


def test_the_place_in_the_queue_is_told(shared):
    """A waiting run knows how many come before it."""
    ids = [asked_by(shared, "anna") for _ in range(3)]

    assert [shared.store.runs.position(shared.store.runs.get(one)) for one in ids] == [0, 1, 2]


def test_a_runner_gets_only_what_its_tiers_can_hold(shared):
    """A runner with another tier is told that there is nothing."""
    shared.submit()

    assert shared.claim(tiers=["hermetic"])["empty"]
    assert shared.claim(tiers=[])["empty"]
    assert "runId" in shared.claim(**TIERS)


@pytest.mark.parametrize(("minimum", "given"), [("bwrap", False), ("process", True)])
def test_a_runner_that_names_no_tier_gets_what_demands_none(make_site, minimum, given):
    """An older runner isolates as a process: it is never given what must be isolated better."""
    site = make_site(
        policy={"tiers": {"default": "bwrap", "minimum": minimum, "tolerate": {"disk": "weaker"}}}, shared=True
    )
    site.submit()
    claimed = site.plane.claim({"runnerToken": site.token, "pool": "default"})

    assert ("runId" in claimed) is given


def test_a_runner_that_cannot_renew_has_its_whole_time(shared):
    """Its lease is the run's time and some slack; one that renews has the usual lease."""
    shared.submit(limits={"timeMs": 120_000})
    claim = shared.plane.claim({"runnerToken": shared.token, "pool": "default", **TIERS})

    assert claim["leaseMs"] > 120_000


def test_a_draining_runner_is_given_nothing(shared):
    """It is told so; when it drains no more it gets the run."""
    shared.submit()
    shared.plane.drain({"runnerToken": shared.token})

    assert shared.claim(**TIERS)["drain"] is True
    shared.plane.drain({"runnerToken": shared.token, "drain": False})
    assert "runId" in shared.claim(**TIERS)


def changed(site: Embedded, **sections):
    """The same plane, started again with another policy."""
    return Embedded(site.folder, policy=open_policy(**sections), clock=site.clock, shared=True)


def test_a_policy_that_denies_meanwhile_is_heeded_at_the_claim(shared):
    """A run that waited under a kinder policy ends with a refusal that says so."""
    run_id = shared.submit()
    later = changed(shared, rules=[])

    assert later.claim(**TIERS)["empty"]
    told = later.plane.run(run_id)
    assert (told["status"], told["events"][-1]["event"]["failure"]) == ("failed", "policy_denied")
    assert "has changed meanwhile" in told["failureMessage"]
    later.close()


def test_a_policy_that_grants_less_meanwhile_is_heeded_at_the_claim(shared):
    """A contract with more than the policy would grant now is not given out."""
    run_id = shared.submit(limits={"timeMs": 120_000})
    later = changed(shared, limits={"time": {"max": "1m"}})

    assert later.claim(**TIERS)["empty"]
    assert "granted otherwise" in later.plane.run(run_id)["failureMessage"]
    later.close()


def test_a_policy_that_says_the_same_in_other_words_changes_nothing(shared):
    """Another name, the same grants: the run goes on."""
    shared.submit()
    later = changed(shared, description="the same")

    assert "runId" in later.claim(**TIERS)
    later.close()


def test_what_a_revoked_principal_asked_for_is_not_run(shared):
    """A requester who may not ask any more gets nothing run any more."""
    token = shared.plane.people.issue("anna", "requester")["token"]
    run_id = shared.plane.caller(token).submit({"execution": {"kind": "argv", "command": "make"}}).run_id
    shared.plane.people.revoke("anna")

    assert shared.claim(**TIERS)["empty"]
    assert shared.plane.status(run_id) == "failed"


def test_each_reply_to_events_is_signed_for_and_the_receipt_may_carry_it(shared):
    """Checkpoints verify with the plane's key, and a bundle with them is valid."""
    run_id = shared.submit()
    claim = shared.claim(**TIERS)
    told = shared.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], shared.clock()), release=True)
    events = follow(claim, [executed(), COMPLETED], shared.clock())
    signed = receipt(claim, shared.clock(), checkpoints=[told["checkpoint"]])
    shared.plane.complete(claim["claimToken"], signed, events)

    assert told["checkpoint"]["eventCount"] == 4
    assert verify(shared.plane.bundle(run_id), [PLANE.public]).ok


def test_a_receipt_with_a_forged_checkpoint_is_not_taken(shared):
    """What the plane did not sign does not get its countersignature."""
    shared.submit()
    claim = shared.claim(**TIERS)
    told = shared.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], shared.clock()), release=True)
    events = follow(claim, [executed(), COMPLETED], shared.clock())
    forged = {**told["checkpoint"], "eventCount": 2}

    with pytest.raises(PlaneError) as refused:
        shared.plane.complete(claim["claimToken"], receipt(claim, shared.clock(), checkpoints=[forged]), events)
    assert refused.value.code == "receipt_invalid"


def test_a_claim_is_signed_over_the_runners_number(shared):
    """A runner that names a number gets the plane's word on the claim and the time; an odd number gets none."""
    shared.submit()
    shared.submit()
    claim = shared.claim(nonce="ab" * 16, **TIERS)
    told = claim["proof"]
    findings = Findings()
    Seal(told, "time", ("plane",), findings).check(2, "plane", PLANE.public)

    assert (told["nonce"], told["runId"], told["attempt"]) == ("ab" * 16, claim["runId"], 1)
    assert (told["eventCount"], told["eventsHead"]) == (len(claim["events"]), claim["events"][-1]["hash"])
    assert not findings.sorted()
    assert "proof" not in shared.claim(nonce="XY", **TIERS)


def lost(site):
    """A run whose lease ran out after its command was let go, and the claim that its runner still has."""
    run_id = site.submit()
    claim = site.claim(**TIERS)
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], site.clock()), release=True)
    site.clock.now += 2 * LEASE_MS
    assert site.plane.close_lost() == [{"runId": run_id, "how": "lost"}]
    return run_id, claim


def test_a_late_result_is_refused_and_kept_beside_the_run(shared):
    """It changes neither outcome nor chain, and whoever looks finds it."""
    run_id, claim = lost(shared)
    before = shared.plane.bundle(run_id)
    events = follow(claim, [executed(), COMPLETED], shared.clock())

    with pytest.raises(PlaneError) as refused:
        shared.plane.complete(claim["claimToken"], receipt(claim, shared.clock()), events)
    told = shared.plane.run(run_id)

    assert refused.value.status == 409
    assert shared.plane.bundle(run_id) == before
    assert verify(before, [PLANE.public]).ok
    assert [one["receipt"]["status"] for one in told["attachments"]] == ["completed"]
    assert told["ending"] == "lost"


def test_a_runner_without_a_claim_attaches_nothing(shared):
    """Only who held the run can leave something beside it."""
    run_id, claim = lost(shared)

    with pytest.raises(PlaneError):
        shared.plane.complete(claim["claimToken"][:-4] + "0000", receipt(claim, shared.clock()), [])
    assert "attachments" not in shared.plane.run(run_id)


def artifact(digest):
    """The event that names an artifact."""
    return {"type": "artifact.created", "kind": "log", "hash": digest}


def test_a_run_names_only_content_that_it_brought(shared):
    """A runner cannot have somebody else's content shown to its run's requester."""
    secret = shared.store.blobs.put(b"somebody else's")
    shared.submit()
    claim = shared.claim(**TIERS)
    shared.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], shared.clock()), release=True)
    other = {**claim, "events": list(claim["events"])}

    with pytest.raises(PlaneError, match="not uploaded"):
        shared.plane.append(claim["claimToken"], follow(other, [executed(), artifact(secret)], shared.clock()))
    writer = shared.plane.claim_writer(claim["claimToken"])
    writer.write(b"a log of mine")
    mine = writer.finish()
    told = shared.plane.append(claim["claimToken"], follow(claim, [executed(), artifact(mine)], shared.clock()))
    assert told["ok"]
    assert shared.plane.blob_for_claim(claim["claimToken"], mine).read() == b"a log of mine"
    with pytest.raises(NotFoundError):
        shared.plane.blob_for_claim(claim["claimToken"], secret)


def test_small_content_comes_with_the_events_that_name_it(shared):
    """What is inside a message is kept before its events are judged; what is no base64 is an error."""
    shared.submit()
    claim = shared.claim(**TIERS)
    path = f"/v1/runs/{claim['runId']}/events"
    links = follow(claim, [materialized(claim)], shared.clock())
    body = {"claimToken": claim["claimToken"], "events": links, "blobs": ["aGVsbG8="]}
    assert answer(shared.plane, path, msgspec.json.encode({**body, "blobs": ["!"]}))[0] == 400
    assert answer(shared.plane, path, msgspec.json.encode({**body, "blobs": ["A" * 100_000]}))[0] == 413
    assert answer(shared.plane, path, msgspec.json.encode(body))[0] == 200
    told = shared.plane.append(
        claim["claimToken"],
        follow(
            claim,
            [executed(), artifact("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")],
            shared.clock(),
        ),
    )
    assert told["ok"]


def test_an_old_runner_reads_only_what_a_claimed_run_is_made_of(shared):
    """Without a bearer nothing is given out but the workspace of a run that a runner holds."""
    token = shared.plane.people.issue("anna", "requester")["token"]
    caller = shared.plane.caller(token)
    writer = caller.blob_writer()
    writer.write(b"bundle")
    digest = writer.finish()
    manifest = {
        "version": "warrant.manifest.v1", "baseRef": "0" * 40, "bundleHash": digest, "untrackedFiles": [],
        "deniedPatterns": [], "deniedPaths": [],
    }  # fmt: skip
    with pytest.raises(NotFoundError):
        shared.plane.blob_for_old_peer(digest)
    caller.submit({"execution": {"kind": "argv", "command": "make"}, "workspace": manifest})
    with pytest.raises(NotFoundError):
        shared.plane.blob_for_old_peer(digest)
    shared.claim(**TIERS)

    assert shared.plane.blob_for_old_peer(digest).read() == b"bundle"
    with pytest.raises(NotFoundError):
        shared.plane.blob_for_old_peer(shared.store.blobs.put(b"other"))


def test_output_that_is_malformed_is_an_error(shared):
    """Each field of a piece of output is read strictly."""
    shared.submit()
    claim = shared.claim(**TIERS)
    good = {"stream": "stdout", "offset": 0, "data": "aGVsbG8="}

    for bad in ({"stream": "both"}, {"offset": -1}, {"offset": "0"}, {"data": 7}, {"data": "!"}):
        with pytest.raises(InputError):
            shared.plane.print(claim["claimToken"], {**good, **bad})
    assert shared.plane.print(claim["claimToken"], good) == {"ok": True}


def test_live_output_is_bounded_and_goes_when_the_run_has_ended(shared):
    """The beginning and the newest stay, and nothing stays behind a receipt."""
    run_id = shared.submit()
    claim = shared.claim(**TIERS)
    part = base64.b64encode(b"x" * 65_536).decode()
    for number in range(40):
        shared.plane.print(claim["claimToken"], {"stream": "stdout", "offset": number * 65_536, "data": part})
    begun = shared.store.live.since(run_id, "stdout", 0)
    newest = shared.store.live.since(run_id, "stdout", 39 * 65_536)
    (held,) = shared.store.database.one("SELECT sum(length(data)) FROM live")
    carry_out(shared, claim)

    assert held <= (1024 + 256) * 1024
    assert (begun[0][0], newest[-1][0]) == (0, 39 * 65_536)
    assert shared.store.live.since(run_id, "stdout", 0) == []


def test_output_that_overlaps_is_passed_over(shared):
    """A runner cannot pile output up by sending the same bytes again from a little further on."""
    shared.submit()
    claim = shared.claim(**TIERS)
    for offset in range(50):
        shared.plane.print(claim["claimToken"], {"stream": "stdout", "offset": offset, "data": "aGVsbG8="})

    assert shared.store.database.one("SELECT count(*) FROM live")[0] == 10


def test_a_revoked_runner_holds_nothing_any_more(shared):
    """What it had is lost at once, and its claims are void; another runner's go on."""
    token = shared.plane.people.issue("root", "admin")["token"]
    run_id, kept = shared.submit(), shared.submit()
    mine = shared.plane.enroll(STRANGER.public.pem, "default")
    claim = shared.claim(runnerToken=mine["runnerToken"], **TIERS)
    other = shared.claim(**TIERS)
    shared.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], shared.clock()), release=True)
    shared.plane.caller(token).revoke_runner(mine["runnerId"])

    assert (claim["runId"], other["runId"]) == (run_id, kept)
    assert shared.plane.status(run_id) == "failed"
    with pytest.raises(PlaneError):
        shared.plane.renew(claim["claimToken"])
    assert carry_out(shared, other)["status"] == "completed"


def test_a_lease_is_not_prolonged_for_ever(shared):
    """Behind a run's own time, and the time for contents to come and go, renewals give nothing more."""
    run_id = shared.submit(limits={"timeMs": 1000})
    claim = shared.claim(**TIERS)
    token, most = claim["claimToken"], 1000 + 1_800_000
    for _ in range(60):
        shared.clock.now += LEASE_MS // 2
        token = shared.plane.renew(token)["claimToken"]
    shared.clock.now += 2 * LEASE_MS

    assert shared.store.runs.get(run_id).lease_until <= shared.store.runs.get(run_id).plane_time + most
    assert [one["how"] for one in shared.plane.close_lost()] == ["requeued"]


def test_a_run_that_is_to_be_stopped_is_not_held_on_to(shared):
    """After a cancellation a lease ends when it would have ended, whatever the runner says."""
    shared.submit()
    claim = shared.claim(**TIERS)
    shared.plane.cancel(claim["runId"], {"actor": {"kind": "human", "id": "anna"}})
    shared.clock.now += LEASE_MS // 2
    told = shared.plane.renew(claim["claimToken"])
    shared.clock.now += LEASE_MS // 2 + 1

    assert told["cancel"]["id"] == "anna"
    assert told["leaseMs"] <= LEASE_MS // 2
    assert [one["how"] for one in shared.plane.close_lost()] == ["lost"]


def test_renewing_again_gives_the_same_token(shared):
    """Whoever lost the answer gets it again, and does not take the lease from itself."""
    shared.submit()
    claim = shared.claim(**TIERS)
    second = shared.plane.renew(claim["claimToken"])["claimToken"]

    assert shared.plane.renew(claim["claimToken"])["claimToken"] == second
    claim["claimToken"] = second
    assert carry_out(shared, claim)["status"] == "completed"


def test_whoever_waits_is_woken(make_site):
    """Every change wakes those who wait for its run; a run that can be claimed, those who wait for its pool."""
    topics: list[str] = []
    site = make_site(shared=True, wake=topics.append)
    run_id = site.submit()
    assert topics == ["queue:default"]
    carry_out(site, site.claim(**TIERS))

    assert set(topics[1:]) == {f"run:{run_id}"}
    assert len(topics) == 4
