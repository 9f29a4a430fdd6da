"""Every run ends with exactly one receipt or refusal, also when everybody concerned is gone."""

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
)
from tipstaff.errors import PlaneError
from tipstaff.evidence import verify
from tipstaff.keys import PrivateKey

LEASE = 60_000

LEASE_MS = 60_000


def ways(site):
    """Close what is lost; says how."""
    return [one["how"] for one in site.plane.close_lost()]


def append(site, claim, *events, **options):
    """Send events as the claim's runner."""
    return site.plane.append(claim["claimToken"], follow(claim, list(events), site.clock()), **options)


def types(site, run_id):
    """List the types of a run's events."""
    return [link["event"]["type"] for link in site.plane.run(run_id)["events"]]


def test_a_living_lease_is_not_touched(site):
    """A run stays its runner's until the lease ends, and longer when it is renewed."""
    site.submit()
    claim = site.claim()
    site.clock.now += LEASE
    assert ways(site) == []
    claim["claimToken"] = site.plane.renew(claim["claimToken"])["claimToken"]
    site.clock.now += LEASE

    assert ways(site) == []
    assert carry_out(site, claim)["status"] == "completed"


@pytest.mark.parametrize("seen", [(), ("materialized",)])
def test_a_run_whose_command_was_not_released_goes_back_once(site, seen):
    """A lost lease puts the run back into the queue; a second lost lease ends it with a lost receipt."""
    run_id = site.submit()
    claim = site.claim()
    append(site, claim, *(materialized(claim) for _ in seen))
    site.clock.now += LEASE + 1
    assert ways(site) == ["requeued"]
    assert site.plane.run(run_id)["status"] == "created"
    assert site.claim()["attempt"] == 2
    site.clock.now += LEASE + 1

    assert ways(site) == ["lost"]
    report = verify(site.plane.bundle(run_id), [PLANE.public])
    assert (report.verdict, report.status) == ("valid", "failed")


@pytest.mark.parametrize("how", ["released", "executed", "cancelled"])
def test_a_run_whose_command_may_have_run_is_lost(site, how):
    """Once the command was released, or tells of itself, it is not run again: the receipt says lost."""
    run_id = site.submit()
    claim = site.claim()
    append(site, claim, materialized(claim), release=how == "released")
    if how == "executed":
        append(site, claim, executed())
    if how == "cancelled":
        site.plane.cancel(run_id, {"actor": ANNA})
    site.clock.now += LEASE + 1

    assert ways(site) == ["lost"]
    bundle = site.plane.bundle(run_id)
    assert verify(bundle, [PLANE.public]).verdict == "valid"
    assert (bundle["receipt"]["ending"], bundle["receipt"]["status"]) == ("lost", "failed")
    assert bundle["events"][-1]["event"]["failure"] == "runner_lost"
    assert [one["signer"] for one in bundle["receipt"]["signatures"]] == ["plane"]


def test_a_lost_run_keeps_what_its_runner_told(site):
    """A lost receipt says again what the events said, artifacts, hosts and all."""
    run_id = site.submit()
    claim = site.claim()
    append(
        site,
        claim,
        materialized(claim),
        {"type": "network.connected", "host": "a.example", "decision": "blocked"},
        {"type": "network.connected", "host": "a.example", "decision": "blocked"},
        {"type": "model.called", "provider": "p", "model": "m"},
        executed(3),
        {"type": "artifact.created", "kind": "diff", "hash": "1" * 64},
        {"type": "boundary.crossed", "direction": "out", "contentHash": "1" * 64, "dataClass": "code-diff"},
    )
    site.clock.now += LEASE + 1
    site.plane.close_lost()

    bundle = site.plane.bundle(run_id)
    assert verify(bundle, [PLANE.public]).verdict == "valid"
    assert bundle["receipt"]["workspaceOut"] == {"diffHash": "1" * 64, "artifactHashes": ["1" * 64]}
    assert bundle["receipt"]["networkAccessed"] == [{"host": "a.example", "decision": "blocked"}]
    assert bundle["receipt"]["exitCode"] == 3


def test_an_ending_that_nobody_signed_for_does_not_stand(site):
    """A runner that said `completed` and was lost before its receipt leaves a run that is lost, and verifies."""
    run_id = site.submit()
    claim = site.claim()
    append(site, claim, materialized(claim), executed(), COMPLETED)
    site.clock.now += LEASE + 1

    assert ways(site) == ["lost"]
    assert types(site, run_id)[-2:] == ["command.executed", "run.failed"]
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_the_late_runner_is_turned_away(site):
    """A runner that comes back after its run was closed as lost cannot change what was signed."""
    site.submit()
    claim = site.claim()
    append(site, claim, materialized(claim), release=True)
    site.clock.now += LEASE + 1
    site.plane.close_lost()

    with pytest.raises(PlaneError) as refused:
        append(site, claim, executed())
    assert refused.value.status == 409


@pytest.mark.parametrize(("late", "expected"), [(3_600_000, []), (3_600_001, ["expired"])])
def test_a_contract_that_nobody_claimed_expires(site, late, expected):
    """A queued run ends with a refusal when its contract expires, and not before."""
    run_id = site.submit()
    site.clock.now += late

    assert ways(site) == expected
    assert ("refusal" in site.plane.run(run_id)) is bool(expected)


def test_a_requeued_run_that_expires_is_refused(site):
    """A run that went back and was not claimed again ends with a refusal: there is no runner to name."""
    run_id = site.submit()
    site.claim()
    site.clock.now += LEASE + 1
    site.plane.close_lost()
    site.clock.now += 3_600_000

    assert ways(site) == ["expired"]
    assert verify(site.plane.run(run_id)["refusal"], [PLANE.public]).verdict == "valid"


def test_closing_twice_is_closing_once(site):
    """What was closed stays as it was closed."""
    site.submit()
    append(site, claim := site.claim(), materialized(claim), release=True)
    site.clock.now += LEASE + 1

    assert ways(site) == ["lost"]
    assert ways(site) == []
    assert [entry["kind"] for entry in site.plane.journal()["entries"]] == ["contract", "receipt"]


def test_a_living_process_keeps_its_runs_whatever_the_clock_says(make_site):
    """A run of a process that lives is never closed by another, even years later; once it is gone it is."""
    one = make_site(owner="one")
    run_id = one.submit()
    one.claim()
    other = make_site(owner="other", random=Counter("other"))
    other.clock.now += 10**11
    assert ways(other) == []
    assert ways(one) == []
    one.close()

    assert ways(other) == ["lost"]
    assert verify(other.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


@pytest.mark.parametrize(("policy", "state"), [(None, "created"), (ASKING, "awaiting_approval")])
def test_what_a_dead_process_only_asked_for_is_refused(make_site, policy, state):
    """A run that its process left unclaimed or waiting ends with a refusal; nobody else can claim it before."""
    one = make_site(policy, owner="one")
    run_id = one.plane.submit(REQUEST).run_id
    other = make_site(policy, owner="other", random=Counter("other"))
    assert other.plane.run(run_id)["status"] == state
    assert other.claim() == {"empty": True}
    one.close()

    assert ways(other) == ["refused"]
    assert verify(other.plane.run(run_id)["refusal"], [PLANE.public]).verdict == "valid"
    assert other.plane.run(run_id)["status"] == "failed"


def test_a_waiting_process_is_left_to_end_its_own_wait(make_site):
    """Approvals that run out close a process's own run, and never that of another that lives."""
    one, other = make_site(ASKING, owner="one"), make_site(ASKING, owner="other", random=Counter("other"))
    run_id = one.plane.submit(REQUEST).run_id
    one.clock.now = other.clock.now = one.clock.now + 86_400_001

    assert ways(other) == []
    assert ways(one) == ["consent_timeout"]
    assert verify(one.plane.run(run_id)["refusal"], [PLANE.public]).verdict == "valid"


def test_a_run_whose_key_is_gone_does_not_keep_the_others_open(make_site):
    """A lost run of a key that this plane does not have stays; what comes after it is closed."""
    old, key = make_site(), PrivateKey.from_seed(b"\7" * 32)
    stuck = old.submit()
    append(old, claim := old.claim(), materialized(claim), release=True)
    site = make_site(key=key, older=(PLANE,), random=Counter("new"))
    lost = site.submit()
    append(site, claim := site.claim(), materialized(claim), release=True)
    alone = make_site(key=key, random=Counter("alone"))
    alone.clock.now += LEASE + 1

    assert [(one["runId"], one["how"][:4]) for one in alone.plane.close_lost()] == [(stuck, "kept"), (lost, "lost")]


def test_a_clock_that_goes_back_breaks_no_chain(make_site):
    """Whatever the clock does between the steps, and between processes, the plane's times stay in order."""
    site = make_site()
    run_id = site.submit()
    site.clock.now -= 10_000_000
    claim = site.claim()
    site.clock.now -= 10_000_000
    append(site, claim, materialized(claim), release=True)
    late = make_site(random=Counter("late"))
    late.clock.now = site.clock.now + 20_000_000 + 3 * LEASE
    assert ways(late) == ["lost"]

    times = [
        link["ts"] for link in late.plane.run(run_id)["events"] if link["event"]["type"] != "workspace.materialized"
    ]
    assert times == sorted(times)
    assert verify(late.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_a_clock_that_goes_back_lets_a_run_complete(site):
    """A run whose plane's clock was set back an hour between claim and receipt is valid all the same."""
    run_id = site.submit()
    site.clock.now += 1000
    claim = site.claim()
    site.clock.now -= 3_600_000
    carry_out(site, claim)

    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


@pytest.mark.parametrize("retries", [0, 2])
def test_a_run_goes_back_as_often_as_its_contract_says(make_site, retries):
    """Policy says how often a run is given out again; after that it is lost."""
    site = make_site(policy={"contract": {"retries": retries}})
    site.submit()
    found = []
    for _ in range(retries + 1):
        site.claim()
        site.clock.now += 2 * LEASE_MS
        found += [one["how"] for one in site.plane.close_lost()]

    assert found == ["requeued"] * retries + ["lost"]
