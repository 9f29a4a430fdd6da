"""Every proof that the plane hands out is valid for a stranger who knows only the plane's key."""

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    ASKING,
    BORIS,
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
from tipstaff.evidence import verify

LEASE = 60_000
FAILED = {"type": "run.failed", "failure": "session_failed", "message": "agent exited with code 3"}
MISMATCH = {"type": "run.failed", "failure": "capability_mismatch", "message": "no such tier here"}


def ended(site, *events, **fields):
    """Take a run through to a receipt of its events."""
    run_id = site.submit()
    claim = site.claim()
    links = follow(claim, [materialized(claim), *events], site.clock())
    site.plane.complete(claim["claimToken"], receipt(claim, site.clock(), **fields), links)
    return site.plane.bundle(run_id)


def lost(site, *events, **options):
    """Leave a run after some events, and have it closed."""
    run_id = site.submit()
    claim = site.claim()
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim), *events], site.clock()), **options)
    site.clock.now += LEASE + 1
    site.plane.close_lost()
    return site.plane.bundle(run_id)


def approved(site):
    """Take a run through that somebody approved."""
    waiting = site.plane.submit(REQUEST)
    site.plane.approve(waiting.run_id, {"actor": BORIS})
    site.clock.now += 1000
    carry_out(site, site.claim())
    return site.plane.bundle(waiting.run_id)


def refused(site, end):
    """End a waiting run without a runner."""
    waiting = site.plane.submit(REQUEST)
    end(site, waiting.run_id)
    return site.plane.run(waiting.run_id)["refusal"]


def requeued(site):
    """Lose a runner before its command was released, and let the second one end the run."""
    run_id = site.submit()
    site.claim()
    site.clock.now += LEASE + 1
    site.plane.close_lost()
    carry_out(site, site.claim())
    return site.plane.bundle(run_id)


def _time_out(site, _run_id):
    site.clock.now += 86_400_001
    site.plane.close_lost()


PROOFS = {
    "completed": ({}, lambda site: ended(site, executed(), COMPLETED, exitCode=0), "completed"),
    "failed": ({}, lambda site: ended(site, executed(3), FAILED, status="failed", exitCode=3), "failed"),
    "never started": (
        {},
        lambda site: ended(site, MISMATCH, status="failed", ending="setup-failed", exitCode=125),
        "failed",
    ),
    "cancelled": (
        {},
        lambda site: ended(
            site,
            executed(130),
            {"type": "run.cancelled", "actor": ANNA},
            status="cancelled",
            ending="cancelled",
            exitCode=130,
        ),
        "cancelled",
    ),
    "lost after release": ({}, lambda site: lost(site, release=True), "failed"),
    "lost with a command": ({}, lambda site: lost(site, executed(7)), "failed"),
    "lost with an ending": ({}, lambda site: lost(site, executed(), COMPLETED), "failed"),
    "approved": (ASKING, approved, "completed"),
    "requeued": ({}, requeued, "completed"),
    "denied by policy": (
        {"rules": [{"id": "no", "effect": "deny", "when": "any"}]},
        lambda site: site.plane.submit(REQUEST).refusal,
        "",
    ),
    "denied by a person": (
        ASKING,
        lambda site: refused(site, lambda site, run_id: site.plane.deny(run_id, {"actor": BORIS})),
        "",
    ),
    "cancelled while waiting": (
        ASKING,
        lambda site: refused(site, lambda site, run_id: site.plane.cancel(run_id, {"actor": ANNA})),
        "",
    ),
    "given up": (ASKING, lambda site: refused(site, lambda site, run_id: site.plane.expire(run_id)), ""),
    "not approved in time": (ASKING, lambda site: refused(site, _time_out), ""),
}


@pytest.mark.parametrize("kind", PROOFS)
def test_each_kind_of_proof_is_valid(make_site, kind):
    """However something ended, its receipt or refusal verifies with the plane's key pinned, and so does the journal."""
    policy, make, status = PROOFS[kind]
    site = make_site(policy)
    report = verify(make(site), [PLANE.public])

    assert ([str(problem) for problem in report.problems], report.verdict) == ([], "valid")
    assert report.status == status
    assert verify(site.plane.journal(), [PLANE.public]).verdict == "valid"


def test_a_lost_run_ends_with_the_code_that_was_told(make_site):
    """A lost receipt has the exit code of the last command, and 125 where none was told."""
    assert lost(make_site(), executed(7))["receipt"]["exitCode"] == 7
    assert lost(make_site(random=Counter("other")), release=True)["receipt"]["exitCode"] == 125


def test_an_ending_is_not_in_the_chain_before_its_receipt(site):
    """What a runner says of the end is held aside: nothing that a chain ever showed is taken out of it again."""
    run_id = site.submit()
    claim = site.claim()
    links = follow(claim, [materialized(claim), executed(), COMPLETED], site.clock())
    for _ in range(2):  # told twice, it is heard once
        site.plane.append(claim["claimToken"], links)
        assert [link["hash"] for link in site.plane.run(run_id)["events"]] == [
            link["hash"] for link in claim["events"][:-1]
        ]
    site.clock.now += LEASE + 1
    site.plane.close_lost()

    shown = site.plane.run(run_id)["events"]
    assert shown[:-1] == claim["events"][:-1]
    assert shown[-1]["event"]["failure"] == "runner_lost"


def test_an_ending_that_was_told_before_goes_into_the_chain_with_its_receipt(site):
    """An older runner sends its ending with the events and only the receipt at the end: the bundle has them all."""
    run_id = site.submit()
    claim = site.claim(knows=[])
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim), executed(), COMPLETED], site.clock()))
    site.plane.complete(claim["claimToken"], receipt(claim, site.clock()))

    assert site.plane.bundle(run_id)["events"] == claim["events"]
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_another_ending_than_the_one_that_was_told_is_refused(site):
    """A runner that said `completed` cannot say `failed` afterwards."""
    site.submit()
    claim = site.claim()
    told = {**claim, "events": list(claim["events"])}
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim), executed(), COMPLETED], site.clock()))
    other = follow(told, [materialized(told), executed(), FAILED], site.clock())

    with pytest.raises(Exception, match="is there already, and is another"):
        site.plane.append(claim["claimToken"], other)
    with pytest.raises(Exception, match="is there already, and is another"):
        site.plane.complete(claim["claimToken"], receipt(told, site.clock(), "failed"), other)
