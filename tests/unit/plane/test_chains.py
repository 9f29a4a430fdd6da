"""What a runner adds to a chain costs what it holds, has bounds, and is dated near the plane's own time."""

import threading

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    BORIS,
    COMPLETED,
    PLANE,
    Embedded,
    executed,
    follow,
    materialized,
    receipt,
)
from tipstaff.errors import BusyError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.chain import chained
from tipstaff.model.times import timestamp
from tipstaff.plane import bounds, chains
from tipstaff.plane.contents import run_owner

TIERS = {"tiers": ["bwrap", "process"]}
HOUR_MS = 3_600_000
LONG = 3_000
STEP = {"type": "checkpoint.created", "checkpointId": "c", "tier": "t"}


@pytest.fixture
def shared(make_site):
    """A plane that serves several."""
    return make_site(shared=True)


@pytest.fixture
def held(shared):
    """A claim on a run of a plane that serves several, whose command was let go."""
    shared.submit()
    claim = shared.claim(**TIERS)
    shared.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], shared.clock()), release=True)
    return claim


def copied(claim):
    """The same claim, for a runner that tells something else from here on."""
    return {**claim, "events": list(claim["events"])}


def append(site, claim, events, now=None, **more):
    """Tell the plane more events."""
    return site.plane.append(claim["claimToken"], follow(claim, events, now or site.clock()), **more)


def links_read(site, step):
    """Take a step that is refused, and count how often the store was asked for events."""
    asked: list[str] = []
    site.store.database._connection.set_trace_callback(asked.append)
    with pytest.raises((PlaneError, BusyError)):
        step()
    site.store.database._connection.set_trace_callback(None)
    return sum("FROM events" in statement for statement in asked)


def refused_steps(site, claim):
    """Small messages, each of which is refused for another reason."""
    last = claim["events"][-1]
    token = claim["claimToken"]
    now = timestamp(site.clock())

    def told(event, **changed):
        return [{**chained(last["seq"] + 1, now, last["hash"], event), **changed}]

    steps = {
        "another number": told(STEP, seq=last["seq"] + 2),
        "another prev": told(STEP, prev="0" * 64),
        "another hash": told(STEP, hash="0" * 64),
        "a malformed event": told({"type": "checkpoint.created"}),
        "a day that does not exist": [chained(last["seq"] + 1, "2026-02-31T00:00:00.000Z", last["hash"], STEP)],
        "a plane's event": told({"type": "run.requeued"}),
        "somebody else's content": told({"type": "artifact.created", "kind": "log", "hash": "ab" * 32}),
        "a forged ending": told({"type": "run.cancelled", "actor": BORIS}),
        "an old event that is another": [{**claim["events"][3], "hash": "0" * 64}],
        "an old event with another content": [{**claim["events"][3], "event": STEP}],
    }
    said = {name: lambda links=links: site.plane.append(token, links) for name, links in steps.items()}
    ended = told(COMPLETED)
    return said | {
        "a receipt of nothing": lambda: site.plane.complete(token, {}, ended),
        "a receipt of another chain": lambda: site.plane.complete(token, receipt(claim, site.clock()), ended),
    }


def test_a_refused_message_does_not_fold_the_chain_anew(shared, held):
    """Whatever was refused, however often, the next message finds the chain folded as it stood."""
    append(shared, held, [STEP] * LONG)
    for name, step in refused_steps(shared, held).items():
        assert [(name, links_read(shared, step)) for _ in range(2)] == [(name, 0)] * 2

    assert append(shared, held, [executed()])["ok"]
    events = follow(held, [COMPLETED], shared.clock())
    shared.plane.complete(held["claimToken"], receipt(held, shared.clock()), events)
    assert verify(shared.plane.bundle(held["runId"]), [PLANE.public]).ok


def test_what_was_refused_can_be_told_rightly(shared, held):
    """After each refusal the true events are taken, and an ending that was held aside is not lost."""
    append(shared, held, [STEP, COMPLETED])
    for step in refused_steps(shared, held).values():
        with pytest.raises(PlaneError):
            step()

    assert shared.plane.append(held["claimToken"], held["events"][-2:])["ok"]
    shared.plane.complete(held["claimToken"], receipt(held, shared.clock()))
    assert verify(shared.plane.bundle(held["runId"]), [PLANE.public]).ok


def test_events_that_are_there_are_not_read_to_be_compared(shared, held):
    """One old event of a long chain, sent again, is compared by its hash."""
    append(shared, held, [STEP] * LONG)
    asked: list[str] = []
    shared.store.database._connection.set_trace_callback(asked.append)
    assert shared.plane.append(held["claimToken"], [held["events"][3]])["ok"]
    shared.store.database._connection.set_trace_callback(None)

    assert not any("FROM events" in statement for statement in asked)


def test_a_long_chain_is_folded_outside_of_the_transaction(shared, held, tmp_path):
    """After a start, a step that may not wait is told so at once, and one that may folds before it begins."""
    append(shared, held, [STEP] * LONG)
    later = Embedded(tmp_path, clock=shared.clock, shared=True)
    link = follow(held, [executed()], shared.clock())
    with later.plane.without_waiting(), pytest.raises(BusyError):
        later.plane.append(held["claimToken"], link)
    asked: list[str] = []
    later.store.database._connection.set_trace_callback(asked.append)
    assert later.plane.append(held["claimToken"], link)["ok"]
    later.store.database._connection.set_trace_callback(None)
    later.close()

    begun = next(number for number, statement in enumerate(asked) if statement.startswith("BEGIN"))
    assert any("FROM events" in statement for statement in asked[:begun])
    assert not any("FROM events" in statement for statement in asked[begun:])


def test_who_closes_a_lost_run_does_not_fold_it_in_the_transaction(shared, held):
    """A long chain whose runner is lost gets its receipt from what is remembered, its told ending left out."""
    append(shared, held, [STEP] * LONG)
    append(shared, held, [executed(), COMPLETED])
    shared.clock.now += 10 * HOUR_MS
    asked: list[str] = []
    shared.store.database._connection.set_trace_callback(asked.append)
    shared.plane.close_lost()
    shared.store.database._connection.set_trace_callback(None)
    assert sum("FROM events" in statement for statement in asked) == 1  # the plane's own ending

    bundle = shared.plane.bundle(held["runId"])
    assert (bundle["receipt"]["ending"], bundle["receipt"]["eventCount"]) == ("lost", len(held["events"]))
    assert verify(bundle, [PLANE.public]).ok


def test_while_a_receipt_is_looked_at_nobody_adds_to_its_chain(shared, held):
    """Another message of the same run comes again later; of another run it is taken."""
    kept = shared.plane._leases._chains
    kept.take(held["runId"])
    with pytest.raises(BusyError, match="try again"):
        append(shared, copied(held), [executed()])
    shared.submit()
    other = shared.claim(**TIERS)
    assert append(shared, other, [materialized(other)])["ok"]
    kept.give_back(held["runId"])
    assert append(shared, held, [executed()])["ok"]


def test_only_so_many_chains_are_remembered(shared, held, monkeypatch):
    """Those that were not used for the longest are forgotten first, and are folded anew when they are needed."""
    monkeypatch.setattr(chains, "REMEMBERED", 2)
    claims = [held]
    for _ in range(3):
        shared.submit()
        claims.append(shared.claim(**TIERS))
        append(shared, claims[-1], [materialized(claims[-1])])

    assert list(shared.plane._leases._chains._remembered) == [claim["runId"] for claim in claims[-2:]]
    for claim in claims:
        assert append(shared, claim, [executed()])["ok"]


def test_messages_at_once_fold_a_chain_once(shared, held, tmp_path):
    """Several who find a long chain not folded wait for the one that folds it."""
    append(shared, held, [STEP] * LONG)
    later = Embedded(tmp_path, clock=shared.clock, shared=True)
    run, folded = later.store.runs.get(held["runId"]), later.plane._leases._chains
    asked: list[str] = []
    later.store.database._connection.set_trace_callback(asked.append)
    threads = [threading.Thread(target=folded.prepare, args=(run, later.store.database)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    later.store.database._connection.set_trace_callback(None)
    later.close()

    assert sum("FROM events" in statement for statement in asked) == LONG // 1000 + 1


# Bounds


def test_a_message_has_a_bounded_number_of_events(shared, held, monkeypatch):
    """One event more than a message may have is refused; as many as it may have are taken."""
    monkeypatch.setattr(bounds, "MOST_IN_MESSAGE", 5)
    with pytest.raises(PlaneError) as refused:
        append(shared, copied(held), [STEP] * 6)
    assert (refused.value.status, refused.value.code) == (413, "events_too_many")
    assert append(shared, held, [STEP] * 5)["ok"]


def test_a_run_has_a_bounded_number_of_events(shared, held, monkeypatch):
    """One event more than a run may have is refused; how it ended can be said all the same."""
    monkeypatch.setattr(bounds, "MOST_IN_CHAIN", len(held["events"]) + 2)
    with pytest.raises(PlaneError) as refused:
        append(shared, copied(held), [STEP] * 3)
    assert (refused.value.status, refused.value.code) == (413, "chain_too_long")
    append(shared, held, [STEP] * 2)
    events = follow(held, [COMPLETED], shared.clock())
    assert shared.plane.complete(held["claimToken"], receipt(held, shared.clock()), events)["receipt"]


def test_a_plane_of_ones_own_has_no_such_bounds(site, monkeypatch):
    """Where plane and runner are one process, neither their number nor the clock is a reason to lose a run."""
    monkeypatch.setattr(bounds, "MOST_IN_MESSAGE", 1)
    monkeypatch.setattr(bounds, "MOST_IN_CHAIN", 1)
    site.submit()
    claim = site.claim()

    assert append(site, claim, [materialized(claim), executed()], site.clock() + 48 * HOUR_MS)["ok"]


@pytest.mark.parametrize(("hours", "taken"), [(-27, False), (-25, True), (25, True), (27, False)])
def test_an_event_is_dated_near_the_planes_time(shared, hours, taken):
    """A clock that is wrong by its zone is borne with, one that is wrong by more is not."""
    shared.submit()
    claim = shared.claim(**TIERS)
    step = lambda: append(shared, claim, [materialized(claim)], shared.clock() + hours * HOUR_MS)  # noqa: E731 - one step, taken in two ways
    if taken:
        assert step()["ok"]
        return
    with pytest.raises(PlaneError) as refused:
        step()
    assert (refused.value.status, refused.value.code) == (400, "time_far")


def test_a_long_run_may_tell_late_what_was_long_ago(make_site):
    """An event of a run's first hour can come days later: it is held against the claim, not against now alone."""
    site = make_site(shared=True, lease_ms=72 * HOUR_MS)
    site.submit()
    claim = site.claim(**TIERS)
    began = site.clock()
    site.clock.now += 48 * HOUR_MS

    assert append(site, claim, [materialized(claim)], began + HOUR_MS)["ok"]


@pytest.mark.parametrize("text", ["2026-02-31T00:00:00.000Z", "0000-01-01T00:00:00.000Z", 7, None])
def test_an_event_has_a_real_time(shared, held, text):
    """A day that no calendar has is refused as an event of another form is."""
    last = held["events"][-1]
    with pytest.raises(PlaneError) as refused:
        shared.plane.append(held["claimToken"], [chained(last["seq"] + 1, text, last["hash"], executed())])
    assert refused.value.status == 400


# Who stopped it


def stopped(site, claim, actor):
    """End a run as one that somebody stopped."""
    events = follow(claim, [executed(130), {"type": "run.cancelled", "actor": actor}], site.clock())
    signed = receipt(claim, site.clock(), "cancelled", ending="cancelled")
    return site.plane.complete(claim["claimToken"], signed, events)["receipt"]


@pytest.mark.parametrize("actor", [BORIS, ANNA, {"kind": "service", "id": "rnr_other"}, {**BORIS, "note": "x"}])
def test_a_runner_cannot_say_that_somebody_stopped_it_who_did_not(shared, held, actor):
    """Neither with the receipt nor before it; that it stopped the run itself it can say."""
    for step in (lambda claim: stopped(shared, claim, actor), lambda claim: append(shared, claim, [stop(actor)])):
        with pytest.raises(PlaneError) as refused:
            step(copied(held))
        assert (refused.value.status, refused.value.code) == (403, "event_not_yours")
    mine = {"kind": "service", "id": shared.store.runs.get(held["runId"]).runner_id}
    assert stopped(shared, held, mine)["status"] == "cancelled"


def stop(actor):
    """The event that says who stopped the run."""
    return {"type": "run.cancelled", "actor": actor}


def test_who_asked_first_is_who_stopped_it(shared, held):
    """The runner names the one whose word it got, also when somebody else says the same after."""
    shared.plane.cancel(held["runId"], {"actor": BORIS})
    shared.plane.cancel(held["runId"], {"actor": ANNA})

    assert stopped(shared, held, BORIS)["status"] == "cancelled"
    assert shared.plane.why(held["runId"])["cancelledBy"] == BORIS["id"]


# Checkpoints


def test_a_checkpoint_is_for_what_lasts(shared, held):
    """An ending that is told with the release is not signed for, because a lost run ends otherwise."""
    said = append(shared, held, [executed(), COMPLETED], release=True)["checkpoint"]
    shared.clock.now += 10 * HOUR_MS
    shared.plane.close_lost()
    events = shared.plane.bundle(held["runId"])["events"]

    assert said["eventCount"] == len(held["events"]) - 1
    assert events[said["eventCount"] - 1]["hash"] == said["eventsHead"]


def test_whatever_is_signed_for_survives(shared, held):
    """Every message to a shared plane is durable, and signed for with what came before."""
    said = append(shared, held, [STEP])

    assert shared.store.database.one("PRAGMA synchronous")[0] == 2
    assert said["checkpoint"]["eventsHead"] == held["events"][-1]["hash"]


def test_content_that_a_run_brought_is_its_own(shared, held):
    """The artifact of another run is refused, and the same once it was brought for this one."""
    content = shared.store.blobs.put(b"log")
    named = {"type": "artifact.created", "kind": "log", "hash": content}
    with pytest.raises(PlaneError, match="not uploaded"):
        append(shared, copied(held), [named])
    shared.store.blobs.own(run_owner(held["runId"]), content)

    assert append(shared, held, [named])["ok"]
