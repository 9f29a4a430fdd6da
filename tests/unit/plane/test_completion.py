"""A receipt is taken if, and only if, the whole bundle verifies; taking it twice is taking it once."""

import pytest

from tests.unit.plane.embedded import (
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
from tipstaff.errors import NotFoundError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import PrivateKey


@pytest.fixture
def claim(site):
    """A claimed run whose command has run."""
    site.submit()
    taken = site.claim()
    links = follow(taken, [materialized(taken), executed(), COMPLETED], site.clock())
    site.plane.append(taken["claimToken"], links)
    return taken


def complete(site, claim, document):
    """Send a receipt as the claim's runner."""
    return site.plane.complete(claim["claimToken"], document)["receipt"]


def test_a_completed_run_has_a_valid_bundle(site):
    """Submit, claim, events and receipt give a bundle that is valid with the plane's key pinned."""
    run_id = site.submit()
    carry_out(site, site.claim())
    report = verify(site.plane.bundle(run_id), [PLANE.public])

    assert (report.verdict, report.status, report.run_id) == ("valid", "completed", run_id)
    assert site.plane.run(run_id)["status"] == "completed"


def test_another_pinned_key_proves_nothing(site):
    """The same bundle is not valid for somebody who trusts another plane."""
    run_id = site.submit()
    carry_out(site, site.claim())

    assert verify(site.plane.bundle(run_id), [STRANGER.public]).verdict != "valid"


def test_a_receipt_is_countersigned_over_the_same_payload(site, claim):
    """The plane adds its signature and nothing else."""
    sent = receipt(claim, site.clock())
    taken = complete(site, claim, sent)

    assert {**taken, "signatures": taken["signatures"][:1]} == sent
    assert [one["signer"] for one in taken["signatures"]] == ["runner", "plane"]


def test_the_same_receipt_twice_gets_the_same_answer(site, claim):
    """A runner that did not hear the answer asks again, and the journal has one entry."""
    sent = receipt(claim, site.clock())

    assert complete(site, claim, sent) == complete(site, claim, sent)
    kinds = [entry["kind"] for entry in site.plane.journal()["entries"]]
    assert kinds == ["contract", "receipt"]


def test_another_receipt_after_completion_is_refused(site, claim):
    """What has ended cannot end otherwise."""
    complete(site, claim, receipt(claim, site.clock()))

    with pytest.raises(PlaneError) as refused:
        complete(site, claim, receipt(claim, site.clock(), exitCode=0))
    assert refused.value.status == 409


@pytest.mark.parametrize(
    "lie",
    [
        lambda claim, now: receipt(claim, now, "failed"),
        lambda claim, now: receipt(claim, now, key=STRANGER),
        lambda claim, now: receipt(claim, now, eventCount=1),
        lambda claim, now: receipt(claim, now, eventsHead="0" * 64),
        lambda claim, now: receipt(claim, now, runId="run_other"),
        lambda claim, now: receipt(claim, now, exitCode=7),
        lambda claim, now: receipt(claim, now, networkAccessed=[{"host": "a.example", "decision": "allowed"}]),
        lambda claim, now: receipt(claim, now, status="failed", ending="lost"),
        lambda claim, now: {**receipt(claim, now), "endedAt": "2026-03-02T00:00:00.000Z"},
        lambda claim, now: {**receipt(claim, now), "signatures": []},
        lambda claim, now: {**receipt(claim, now), "signatures": "none"},
        lambda claim, now: signed(receipt(claim, now), PLANE, "plane"),
        lambda claim, now: signed(receipt(claim, now), STRANGER, "plane"),
        lambda claim, now: signed(receipt(claim, now), STRANGER, "org"),
        lambda _claim, _now: {},
        lambda _claim, _now: None,
        lambda _claim, _now: {"version": "\ud800"},
    ],
)
def test_a_lie_is_not_countersigned_and_burns_nothing(site, claim, lie):
    """A receipt that does not verify is refused with its problems, and the true one is taken after it."""
    with pytest.raises(PlaneError) as refused:
        complete(site, claim, lie(claim, site.clock()))
    assert (refused.value.status, refused.value.code) == (422, "receipt_invalid")
    assert refused.value.reasons
    assert site.plane.run(claim["runId"])["status"] == "running"

    complete(site, claim, receipt(claim, site.clock()))
    assert verify(site.plane.bundle(claim["runId"]), [PLANE.public]).verdict == "valid"


def test_the_last_events_may_come_with_the_receipt(site):
    """Events and receipt in one step are one transaction; events that were there already are passed over."""
    run_id = site.submit()
    taken = site.claim()
    links = follow(taken, [materialized(taken), executed(), COMPLETED], site.clock())
    site.plane.append(taken["claimToken"], links[:1])
    site.plane.complete(taken["claimToken"], receipt(taken, site.clock()), links)

    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_events_of_a_refused_receipt_are_not_kept(site):
    """When the receipt is refused, the events that came with it are as well."""
    run_id = site.submit()
    taken = site.claim()
    before = len(site.plane.run(run_id)["events"])
    links = follow(taken, [materialized(taken), executed(), COMPLETED], site.clock())

    with pytest.raises(PlaneError, match="does not verify"):
        site.plane.complete(taken["claimToken"], receipt(taken, site.clock(), exitCode=3), links)
    assert len(site.plane.run(run_id)["events"]) == before
    site.plane.complete(taken["claimToken"], receipt(taken, site.clock()), links)


def test_a_failed_run_is_a_receipt_too(site):
    """A command that failed leaves a valid bundle that says so."""
    run_id = site.submit()
    taken = site.claim()
    ending = {"type": "run.failed", "failure": "session_failed", "message": "agent exited with code 3"}
    links = follow(taken, [materialized(taken), executed(3), ending], site.clock())
    site.plane.complete(taken["claimToken"], receipt(taken, site.clock(), "failed", exitCode=3), links)

    assert verify(site.plane.bundle(run_id), [PLANE.public]).status == "failed"
    assert site.plane.run(run_id)["status"] == "failed"


def test_a_run_without_a_receipt_has_no_bundle(site):
    """A bundle is asked for in vain while the run goes on, and of a run that never was."""
    run_id = site.submit()

    with pytest.raises(NotFoundError, match="it is created"):
        site.plane.bundle(run_id)
    with pytest.raises(NotFoundError, match="there is no run"):
        site.plane.bundle("run_none")


def test_the_issuing_key_countersigns(make_site):
    """After a rotation, a run that the old key permitted is closed by the old key, and a new one by the new."""
    old = make_site()
    run_id = old.submit()
    new = PrivateKey.from_seed(b"\7" * 32)
    site = make_site(key=new, older=(PLANE,), random=lambda size: b"7" * size)
    after = site.submit()
    for _ in range(2):
        carry_out(site, site.claim())

    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"
    assert verify(site.plane.bundle(after), [new.public]).verdict == "valid"
    assert verify(site.plane.journal(), [new.public]).verdict == "valid"


def test_a_plane_without_the_issuing_key_does_not_complete(make_site):
    """Another plane's contract is not countersigned by a key that did not issue it."""
    make_site().submit()
    make_site().store.database.run("DELETE FROM journal")
    make_site().store.database.run("DELETE FROM journal_head")
    site = make_site(key=PrivateKey.from_seed(b"\7" * 32))

    with pytest.raises(PlaneError, match="that issued this contract is not here"):
        carry_out(site, site.claim())


def test_history_is_newest_first(site):
    """Runs are listed with their states, the newest first."""
    first, second = site.submit(), site.submit()
    carry_out(site, site.claim())

    assert [(line["runId"], line["status"]) for line in site.plane.history()] == [
        (second, "created"),
        (first, "completed"),
    ]
    assert [line["runId"] for line in site.plane.history(before=second)] == [first]


def test_a_removed_record_shows_in_the_journal(site, claim):
    """The journal of a run verifies; with an entry taken out, or the receipt's entry changed, it does not."""
    complete(site, claim, receipt(claim, site.clock()))
    journal = site.plane.journal()
    bundle = site.plane.bundle(claim["runId"])

    assert verify(journal, [PLANE.public]).verdict == "valid"
    digests = [entry["digest"] for entry in journal["entries"]]
    assert digests == [payload_digest(bundle["contract"]), payload_digest(bundle["receipt"])]
    for gone in range(2):
        entries = [entry for number, entry in enumerate(journal["entries"]) if number != gone]
        assert verify({**journal, "entries": entries}, [PLANE.public]).verdict == "invalid"


def test_runner_and_plane_are_two_keys(site, claim):
    """The bundle names both keys, and they differ."""
    complete(site, claim, receipt(claim, site.clock()))
    keys = site.plane.bundle(claim["runId"])["keys"]

    assert keys == {"planePublicKeyPem": PLANE.public.pem, "runnerPublicKeyPem": RUNNER.public.pem}


def synchronous(site):
    """Say how the last transaction was written: 1 survives SIGKILL, 2 power loss as well."""
    return site.store.database.one("PRAGMA synchronous")[0]


def test_power_may_fail_after_two_points(site):
    """Before the command is released, and at completion, all that was written so far survives power loss."""
    site.submit()
    assert synchronous(site) == 1
    taken = site.claim()
    assert synchronous(site) == 1
    site.plane.append(taken["claimToken"], follow(taken, [materialized(taken)], site.clock()), release=True)
    assert synchronous(site) == 2
    site.plane.append(taken["claimToken"], follow(taken, [executed()], site.clock()))
    assert synchronous(site) == 1
    links = follow(taken, [COMPLETED], site.clock())
    site.plane.complete(taken["claimToken"], receipt(taken, site.clock()), links)
    assert synchronous(site) == 2


def test_a_runner_that_releases_in_silence_gets_a_durable_claim(site):
    """For a runner that does not say when its command starts, the claim is the first durable point."""
    site.submit()
    site.claim(knows=[])

    assert synchronous(site) == 2
