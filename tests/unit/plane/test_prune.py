"""Pruning removes what ended long ago and nothing else; the journal still shows everything that ever was."""

import os
from hashlib import sha256

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    ASKING,
    COMPLETED,
    PLANE,
    REQUEST,
    Counter,
    carry_out,
    executed,
    follow,
    materialized,
    receipt,
)
from tipstaff.errors import NotFoundError, StoreError
from tipstaff.evidence import verify
from tipstaff.evidence.seal import payload_digest

DAY = 86_400_000
DENYING = {"rules": [{"id": "no", "effect": "deny", "when": "any"}]}


def printing(site, content):
    """Take a run through that leaves `content` as its log; gives its id."""
    run_id = site.submit()
    claim = site.claim()
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], site.clock()), release=True)
    log = site.store.blobs.riding().put(content)
    events = [executed(), {"type": "artifact.created", "kind": "log", "hash": log}, COMPLETED]
    links = follow(claim, events, site.clock())
    streams = {"stdout": {"bytes": len(content), "sha256": log, "truncated": False, "kept": log}}
    site.plane.complete(claim["claimToken"], receipt(claim, site.clock(), streams=streams), links)
    return run_id


def ids(site):
    """List what the history shows."""
    return [line["id"] for line in site.plane.history()]


def test_what_is_older_goes_and_what_is_younger_stays(site):
    """Runs that ended before the age are gone with their bundle, younger ones still verify."""
    old = printing(site, b"old")
    site.clock.now += 2 * DAY
    young = printing(site, b"young")
    report = site.plane.prune(older_than_ms=DAY)

    assert (report["runs"], report["refusals"], report["dryRun"]) == (1, 0, False)
    assert ids(site) == [young]
    assert verify(site.plane.bundle(young), [PLANE.public]).verdict == "valid"
    with pytest.raises(NotFoundError, match=f"run {old} was pruned at 2026-03-03T00:00:00.000Z"):
        site.plane.bundle(old)


def test_the_journal_is_kept_whole_and_the_removal_is_on_record(site):
    """After pruning the journal verifies and has every digest; the line of the removal names two of them."""
    printing(site, b"out")
    bundle = site.plane.bundle(ids(site)[0])
    before = site.plane.journal()
    site.clock.now += DAY
    site.plane.prune(older_than_ms=0)

    assert site.plane.journal() == before
    assert verify(before, [PLANE.public]).verdict == "valid"
    gone = site.store.pruned.get(bundle["contract"]["runId"])
    assert (gone.contract_hash, gone.proof_digest) == tuple(entry["digest"] for entry in before["entries"])
    assert gone.proof_digest == payload_digest(bundle["receipt"])


def test_what_has_not_ended_is_never_removed(make_site):
    """Queued, claimed and waiting runs stay, whatever the age, and can still be carried out."""
    site = make_site()
    waiting = make_site(ASKING, random=Counter("asking")).plane.submit(REQUEST).run_id
    run_id = site.submit()
    claim = site.claim()
    site.clock.now += 1
    site.plane.prune(older_than_ms=0, down_to_bytes=1)

    assert set(ids(site)) == {run_id, waiting}
    assert carry_out(site, claim)["status"] == "completed"


def test_blobs_that_another_run_names_stay(site):
    """A log that two runs share goes with the second of them; a file of its own goes with its run."""
    shared, own = os.urandom(100), os.urandom(200_000)
    first, second = printing(site, shared), printing(site, shared)
    large = printing(site, own)
    site.clock.now += DAY
    young = printing(site, shared)
    file = site.store.blobs.path(sha256(own).hexdigest())
    assert file.exists()
    site.plane.prune(older_than_ms=DAY - 1)

    assert not {first, second, large} & set(ids(site))
    assert not file.exists()
    assert site.plane.output(young, "stdout") == shared
    site.clock.now += DAY
    last = printing(site, b"last")
    site.plane.prune(older_than_ms=DAY - 1)
    assert not site.store.blobs.has(sha256(shared).hexdigest())
    assert site.plane.output(last, "stdout") == b"last"


def test_what_a_run_at_work_has_just_kept_is_not_taken_away(site):
    """A blob that a run has put and not yet named survives a pruning, even where an old run named the same bytes."""
    printing(site, b"same")
    site.clock.now += DAY
    run_id = site.submit()
    claim = site.claim()
    kept = site.store.blobs.put(b"same")
    site.submit()
    site.plane.prune(older_than_ms=0)

    assert site.store.blobs.get(kept) == b"same"
    carry_out(site, claim)
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_pruning_by_size_takes_the_oldest_and_stops(site):
    """Down to a size, the oldest runs go until it is reached; the rest stays and the disk has its room back."""
    runs = [printing(site, os.urandom(1_000_000)) for _ in range(6)]
    site.store.shrink()
    held = site.store.size_bytes()
    assert held > 6_000_000
    report = site.plane.prune(down_to_bytes=held - 2_500_000)

    assert report["runs"] == 3
    assert report["bytesAfter"] == site.store.size_bytes() <= held - 2_500_000
    assert ids(site) == [run for run in reversed(runs) if run in runs[3:]]
    assert report["earlierThanRetention"] == 3


def test_a_dry_run_only_says_what_would_go(site):
    """A dry run counts and estimates, and removes nothing."""
    printing(site, os.urandom(1_000_000))
    site.clock.now += DAY
    said = site.plane.prune(older_than_ms=0, dry=True)
    assert len(ids(site)) == 1
    done = site.plane.prune(older_than_ms=0)

    assert (said["dryRun"], said["runs"], done["runs"]) == (True, 1, 1)
    assert said["bytesBefore"] - said["bytesAfter"] > 900_000
    assert ids(site) == []


@pytest.mark.parametrize(
    ("days", "kept", "logs"), [(89, True, True), (91, True, False), (364, True, False), (366, False, False)]
)
def test_without_an_age_the_contract_says_how_long(site, days, kept, logs):
    """By the contract's own retention what was printed goes after 90 days, and the rest after 365."""
    run_id = printing(site, b"printed")
    site.clock.now += days * DAY
    site.submit(purpose="something newer, so that the log is not too new to judge")
    report = site.plane.prune()

    assert (run_id in ids(site)) is kept
    if kept:
        assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"
        assert report["earlierThanRetention"] == 0
    if logs:
        assert site.plane.output(run_id, "stdout") == b"printed"
    elif kept:
        with pytest.raises(NotFoundError, match="is not kept any more"):
            site.plane.output(run_id, "stdout")
    assert site.plane.prune()["artifactsOf"] == 0


def test_refusals_are_pruned_too(make_site):
    """The refusal of a denied request goes by age, with its request, and says afterwards that it was pruned."""
    site = make_site(DENYING)
    refusal = site.plane.submit(REQUEST).refusal
    site.clock.now += DAY
    young = site.plane.submit(REQUEST).refusal
    report = site.plane.prune(older_than_ms=DAY - 1)

    assert (report["runs"], report["refusals"]) == (0, 1)
    assert site.plane.refusal(young["id"]) == young
    assert site.store.blobs.has(young["requestHash"])
    with pytest.raises(NotFoundError, match="was pruned"):
        site.plane.refusal(refusal["id"])
    assert verify(site.plane.journal(), [PLANE.public]).verdict == "valid"


def test_a_run_that_was_refused_is_pruned_with_its_refusal(make_site):
    """A run that people refused goes whole, and its line names the refusal's digest."""
    site = make_site(ASKING)
    run_id = site.plane.submit(REQUEST).run_id
    site.plane.cancel(run_id, {"actor": ANNA})
    refusal = site.plane.run(run_id)["refusal"]
    site.clock.now += DAY
    site.plane.prune(older_than_ms=0)

    assert ids(site) == []
    assert site.store.pruned.get(run_id).proof_digest == payload_digest(refusal)


def test_a_number_is_not_given_twice(site):
    """After everything was pruned, the next run is still the newest, and is claimed."""
    printing(site, b"one")
    site.clock.now += DAY
    site.plane.prune(older_than_ms=0)
    run_id = site.submit()

    assert site.claim()["runId"] == run_id
    assert ids(site) == [run_id]


def test_a_full_home_takes_no_more_until_it_was_pruned(make_site):
    """Above its cap the home takes no request, and says what to do; after pruning it does."""
    site = make_site(most_home_bytes=2_000_000)
    for _ in range(2):
        printing(site, os.urandom(1_000_000))
    journal = site.plane.journal()
    with pytest.raises(StoreError, match=r"its cap is 1\.9 MiB; run: tipstaff prune"):
        site.plane.submit(REQUEST)
    assert site.plane.journal() == journal
    site.plane.prune(down_to_bytes=1_000_000)

    assert carry_out(site, (site.submit(), site.claim())[1])["status"] == "completed"


@pytest.mark.parametrize(("shared", "command"), [(False, "tipstaff prune"), (True, "tipstaff plane prune")])
def test_a_full_home_says_which_command_makes_room(make_site, shared, command):
    """One's own home and a plane's are pruned by different commands; with room enough both take the request."""
    with pytest.raises(StoreError, match=f"; run: {command}, or set"):
        make_site(most_home_bytes=1, shared=shared).plane.submit(REQUEST)
    make_site(shared=shared).plane.submit(REQUEST)
