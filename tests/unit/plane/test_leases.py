"""A run is one runner's at a time; whoever comes with an old claim is turned away."""

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    COMPLETED,
    PLANE,
    RUNNER,
    STRANGER,
    carry_out,
    executed,
    follow,
    materialized,
    receipt,
)
from tipstaff.errors import InputError, PlaneError
from tipstaff.evidence import verify

SECRETS = {"secrets": [{"name": "*"}]}


def append(site, claim, *events, **options):
    """Send events as the claim's runner."""
    return site.plane.append(claim["claimToken"], follow(claim, list(events), site.clock()), **options)


def test_the_oldest_run_is_claimed_first(site):
    """Runs are given out in the order of intake, each once, until there is none."""
    submitted = [site.submit() for _ in range(3)]

    assert [site.claim()["runId"] for _ in range(3)] == submitted
    assert site.claim() == {"empty": True}


def test_a_claim_tells_everything(site):
    """A claim has the contract, the chain so far with its own event, the fencing number and the lease."""
    run_id = site.submit()
    claim = site.claim()

    assert claim["contract"]["runId"] == run_id
    assert claim["attempt"] == 1
    assert claim["leaseMs"] == 60_000
    assert claim["events"][-1]["event"]["type"] == "run.claimed"
    assert claim["events"][-1]["event"]["runnerKeyId"] == RUNNER.public.key_id
    assert site.plane.run(run_id)["status"] == "claimed"


def test_a_runner_that_cannot_renew_gets_its_time(site):
    """A lease without renewal lasts for the run's own time and some slack."""
    site.submit()
    claim = site.claim(knows=[])

    assert claim["leaseMs"] == claim["contract"]["limits"]["timeMs"] + 60_000


@pytest.mark.parametrize(("late", "claimed"), [(3_600_000, True), (3_600_001, False)])
def test_an_expired_contract_is_not_claimed(site, late, claimed):
    """A contract can be claimed until the moment it expires, and not after."""
    site.submit()
    site.clock.now += late

    assert ("runId" in site.claim()) is claimed


@pytest.mark.parametrize(("tiers", "claimed"), [(["process"], False), (["process", "bwrap"], True)])
def test_a_run_fits_the_tiers_of_the_host(site, tiers, claimed):
    """A runner that names its tiers gets only runs of these."""
    site.submit()

    assert ("runId" in site.claim(tiers=tiers)) is claimed


def test_another_pool_is_not_served(make_site):
    """A runner claims in the pool that it was enrolled for, and in no other."""
    site = make_site({"pools": ["*"]})
    site.submit(pool="gpu")
    token = site.plane.enroll(RUNNER.public.pem, "gpu")["runnerToken"]

    assert site.claim() == {"empty": True}
    with pytest.raises(PlaneError, match="enrolled for the pool 'default'"):
        site.claim(pool="gpu")
    assert "runId" in site.plane.claim({"runnerToken": token, "pool": "gpu"})


def test_enrolling_again_changes_nothing(site):
    """The same key in the same pool keeps its id and its token, so that two processes share one runner."""
    assert site.plane.enroll(RUNNER.public.pem, "default")["runnerToken"] == site.token


@pytest.mark.parametrize("pem", ["", "no key", PLANE.public.pem])
def test_a_bad_runner_key_is_not_enrolled(site, pem):
    """What is no key, or the plane's own, cannot become a runner's."""
    with pytest.raises(InputError, match="key"):
        site.plane.enroll(pem, "default")
    assert site.plane.enroll(STRANGER.public.pem, "default")["runnerId"].startswith("rnr_")


def test_a_revoked_runner_claims_nothing(site):
    """The token of a runner that was revoked is worth nothing."""
    run_id = site.submit()
    site.store.runners.revoke(site.plane.enroll(RUNNER.public.pem, "default")["runnerId"], 1)

    with pytest.raises(PlaneError, match="not enrolled any more"):
        site.claim()
    assert site.plane.run(run_id)["status"] == "created"


@pytest.mark.parametrize("token", [None, "", "x", "e30=.00", 7, "ü.ü", "a.b.c"])
def test_a_forged_token_is_refused(site, token):
    """A token that this plane did not make is nobody's, as a runner's and as a claim's."""
    site.submit()

    with pytest.raises(PlaneError) as refused:
        site.claim(runnerToken=token)
    assert refused.value.status == 401
    with pytest.raises(PlaneError) as refused:
        site.plane.append(token, [])
    assert refused.value.status == 401


def test_a_token_of_one_kind_is_not_one_of_another(site):
    """A claim's token does not pass as a runner's."""
    site.submit()
    claim = site.claim()

    with pytest.raises(PlaneError, match="not a runner token"):
        site.claim(runnerToken=claim["claimToken"])


def test_another_planes_token_is_refused(make_site, tmp_path):
    """Two planes with the same keys have different secrets for their tokens."""
    one = make_site(random=lambda size: b"1" * size)
    (tmp_path / "other").mkdir()
    other = make_site(folder=tmp_path / "other", random=lambda size: b"2" * size)
    other.submit()

    with pytest.raises(PlaneError, match="not a runner token"):
        other.claim(runnerToken=one.token)
    assert "runId" in other.claim()


def test_renewal_replaces_the_token(site):
    """After a renewal the new token works and the old one does not."""
    site.submit()
    claim = site.claim()
    renewed = site.plane.renew(claim["claimToken"])
    links = follow(claim, [materialized(claim)], site.clock())

    with pytest.raises(PlaneError, match="has been replaced"):
        site.plane.append(claim["claimToken"], links)
    assert site.plane.append(renewed["claimToken"], links) == {"ok": True}


def test_a_lost_renewal_can_be_repeated(site):
    """A runner whose renewal was answered into nowhere asks again with its old token, and holds the run."""
    site.submit()
    claim = site.claim()
    site.plane.renew(claim["claimToken"])
    again = site.plane.renew(claim["claimToken"])

    assert site.plane.append(again["claimToken"], follow(claim, [materialized(claim)], site.clock()))["ok"]


def test_a_stale_attempt_is_refused(site):
    """A runner that lost its lease to another can neither write nor complete nor renew; the other can."""
    site.submit()
    late = site.claim()
    site.clock.now += 60_001
    assert site.plane.close_lost()[0]["how"] == "requeued"
    current = site.claim()
    assert current["attempt"] == 2

    steps = (
        lambda: append(site, late, materialized(late)),
        lambda: site.plane.renew(late["claimToken"]),
        lambda: site.plane.complete(late["claimToken"], receipt(late, site.clock())),
    )
    for step in steps:
        with pytest.raises(PlaneError) as refused:
            step()
        assert (refused.value.status, refused.value.code) == (409, "claim_stale")
    assert carry_out(site, current)["status"] == "completed"
    assert verify(site.plane.bundle(current["runId"]), [PLANE.public]).verdict == "valid"


def test_secrets_are_released_with_the_claim(make_site):
    """The values go to the runner and nowhere else; the chain tells of names."""
    site = make_site(SECRETS, read_secret={"TOKEN": "hunter2"}.get)
    run_id = site.submit(secretNames=["TOKEN"])
    claim = site.claim()

    assert claim["secrets"] == [{"name": "TOKEN", "value": "hunter2"}]
    assert claim["events"][-1]["event"] == {"type": "secret.released", "name": "TOKEN", "scope": "session"}
    assert "hunter2" not in str(site.plane.run(run_id))
    carry_out(site, claim)
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"
    assert b"hunter2" not in b"".join(path.read_bytes() for path in site.folder.glob("store.sqlite*"))


def test_a_missing_secret_ends_the_run_and_tells_of_no_release(make_site):
    """A secret that is not there is found before anything is written: the run ends refused, the next one is given."""
    site = make_site(SECRETS, read_secret={"TOKEN": "hunter2"}.get)
    run_id, after = site.submit(secretNames=["TOKEN", "GONE"]), site.submit()
    claim = site.claim()

    run = site.plane.run(run_id)
    assert claim["runId"] == after
    assert run["status"] == "failed"
    assert [link["event"]["type"] for link in run["events"]][2:] == ["run.failed"]
    assert run["refusal"]["reasons"] == ["there is no secret GONE; see: tipstaff secrets list"]
    assert verify(run["refusal"], [PLANE.public]).verdict == "valid"


def test_a_waiting_run_is_cancelled_at_once(site):
    """A run that no runner holds ends with a refusal, and is not claimed."""
    run_id = site.submit()

    assert site.plane.cancel(run_id, {"actor": ANNA})["status"] == "cancelled"
    assert site.claim() == {"empty": True}
    assert verify(site.plane.run(run_id)["refusal"], [PLANE.public]).verdict == "valid"


def test_a_running_run_is_told_to_stop(site):
    """A runner hears of a cancellation at its next word, and ends the run itself."""
    run_id = site.submit()
    claim = site.claim()
    assert site.plane.cancel(run_id, {"actor": ANNA})["status"] == "claimed"

    assert append(site, claim, materialized(claim), release=True)["cancel"] == ANNA
    claim["claimToken"] = (reply := site.plane.renew(claim["claimToken"]))["claimToken"]
    assert reply["cancel"] == ANNA
    append(site, claim, {"type": "run.cancelled", "actor": ANNA})
    site.plane.complete(claim["claimToken"], receipt(claim, site.clock(), "cancelled", ending="cancelled"))
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_an_ended_run_cannot_be_cancelled(site):
    """Cancelling what has ended changes nothing, and says how it ended."""
    run_id = site.submit()
    carry_out(site, site.claim())

    assert site.plane.cancel(run_id, {"actor": ANNA})["status"] == "completed"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "consent.granted", "actor": ANNA},
        {"type": "secret.released", "name": "TOKEN", "scope": "session"},
        {"type": "run.requeued"},
        {"type": "run.failed", "failure": "runner_lost", "message": "me"},
        {"type": "tea.served"},
        {"type": 7},
        {},
    ],
)
def test_a_runner_writes_only_its_own_events(site, event):
    """Events of the plane's, and of no known type, are refused from a runner."""
    site.submit()
    claim = site.claim()

    with pytest.raises(PlaneError) as refused:
        append(site, claim, event)
    assert (refused.value.status, refused.value.code) == (403, "event_not_yours")


def test_events_are_kept_once_however_often_they_come(site):
    """The same events sent again, alone or with new ones, are taken once."""
    run_id = site.submit()
    claim = site.claim()
    first = follow(claim, [materialized(claim)], site.clock())
    second = follow(claim, [executed()], site.clock())
    for links in (first, first, first + second, second, []):
        assert site.plane.append(claim["claimToken"], links) == {"ok": True}

    assert site.plane.run(run_id)["events"] == claim["events"]


def test_a_broken_chain_is_refused_whole(site):
    """Gaps, other predecessors, changed content and rewritten history are refused, and nothing of them is kept."""
    run_id = site.submit()
    claim = site.claim()
    before = list(claim["events"])
    good = follow(claim, [materialized(claim), executed()], site.clock())
    rewritten = [{**good[0], "seq": 0}]
    cases = (
        good[1:],
        [{**good[0], "prev": "0" * 64}],
        [{**good[0], "event": executed(1)}],
        [{**good[0], "extra": 1}],
        [good[0], good[0]],
        rewritten,
        [{**good[0], "seq": -1}],
        [{**good[0], "ts": "2026-02-31T00:00:00.000Z" * 2}],
        ["no event"],
        "no list",
        None,
        [{**good[0], "event": {**good[0]["event"], "x": float("nan")}}],
    )
    for links in cases:
        with pytest.raises(PlaneError) as refused:
            site.plane.append(claim["claimToken"], links)
        assert refused.value.status == 400, links
        assert site.plane.run(run_id)["events"] == before
    assert site.plane.append(claim["claimToken"], good) == {"ok": True}


def test_the_state_follows_the_events(site):
    """A run is provisioning when its workspace stands, and running once its command is released."""
    run_id = site.submit()
    claim = site.claim()
    append(site, claim, materialized(claim))
    assert site.plane.run(run_id)["status"] == "provisioning"
    append(site, claim, release=True)
    assert site.plane.run(run_id)["status"] == "running"


def test_an_event_too_large_is_refused(site):
    """One event has a bound; a large one below it is taken."""
    site.submit()
    claim = site.claim()
    append(site, claim, {"type": "file.changed", "path": "x" * 500_000, "contentHash": "0" * 64})

    with pytest.raises(PlaneError) as refused:
        append(site, claim, {"type": "file.changed", "path": "x" * 2_000_000, "contentHash": "0" * 64})
    assert refused.value.status == 413


def test_events_after_completion_are_refused(site):
    """Nothing is added to a run that has its receipt, so that its bundle stays valid."""
    run_id = site.submit()
    claim = site.claim()
    carry_out(site, claim)

    with pytest.raises(PlaneError) as refused:
        append(site, claim, executed())
    assert refused.value.status == 409
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_events_after_an_ending_are_refused(site):
    """A runner that has said how the run ended adds only the receipt."""
    site.submit()
    claim = site.claim()
    append(site, claim, materialized(claim), executed(), COMPLETED)
    now = site.clock()

    with pytest.raises(PlaneError, match="after the end"):
        append(site, {**claim, "events": list(claim["events"])}, executed())
    assert site.plane.complete(claim["claimToken"], receipt(claim, now))["receipt"]["status"] == "completed"
