"""A runner that was cut off, from its plane or by a kill, loses no receipt and sends none twice differently."""

import asyncio
import json
import threading

import pytest

from tests.unit.runner.conftest import SECONDS, Lasting, claimed, drained, last_event, until
from tipstaff.errors import StoreError
from tipstaff.plane import answer
from tipstaff.runner import spool as spools
from tipstaff.runner.carrying import AtWork, resume
from tipstaff.runner.spool import Entry, Spool


async def test_a_receipt_waits_for_a_plane_that_cannot_be_reached(bench):
    """While the plane hangs up, the receipt is tried again; when it answers, there is one receipt and no other."""
    run_id = bench.site.submit()
    hang_ups = iter([(0, b""), (503, b'{"error": "busy"}'), (502, b"<html>"), (200, b"<html>")])
    bench.plane.twist = lambda _method, path, _body: next(hang_ups, None) if path.endswith("complete") else None

    await bench.once(last_try_seconds=SECONDS)

    assert bench.site.plane.status(run_id) == "completed"
    sent = [json.dumps(fields["receipt"]) for path, fields in bench.plane.asked if path.endswith("complete")]
    assert (len(sent), len(set(sent))) == (5, 1)
    assert bench.kept() == []


async def test_a_lost_answer_to_the_receipt_changes_nothing(bench):
    """The plane has it, we do not know: the same is sent again, and the same comes back."""
    run_id = bench.site.submit()
    lost: list[tuple[int, bytes]] = []

    def twist(_method, path, body):
        if path.endswith("complete") and not lost:
            lost.append(answer(bench.site.plane, path, body))
            return 0, b""
        return None

    bench.plane.twist = twist
    await bench.once(last_try_seconds=SECONDS)

    (status, first) = lost[0]
    assert (status, json.loads(first)["receipt"]) == (200, bench.site.plane.bundle(run_id)["receipt"])
    assert bench.kept() == []


async def test_what_is_left_in_the_spool_is_sent_at_the_next_start(bench):
    """A runner that leaves while its plane is away keeps the receipt; the next process brings it."""
    run_id = bench.site.submit()
    bench.tier.prints = [("stdout", b"kept")]
    bench.plane.twist = lambda _method, path, _body: (0, b"") if path.endswith("complete") else None
    await bench.once()
    assert len(bench.kept()) == 1
    bench.plane.twist = None

    await asyncio.wait_for(drained(bench), SECONDS)

    assert bench.site.plane.status(run_id) == "completed"
    assert bench.site.plane.output(run_id, "stdout") == b"kept"
    assert bench.kept() == []


@pytest.mark.parametrize("released", [False, True])
async def test_a_run_that_a_restart_cut_off_is_told_as_failed(bench, released):
    """What a killed runner had on disk is the chain of a receipt that says so, whether the command had begun or not."""
    run_id = bench.site.submit()
    means = bench.means()
    claim = await claimed(means)
    tier = bench.tier = Lasting()
    if released:
        killed = asyncio.create_task(AtWork(bench.means(), claim, "0" * 32).carry_out())
        await asyncio.wait_for(tier.began.wait(), SECONDS)
        (left,) = Spool(bench.data).left()
        events = left.events
        killed.cancel()
        await asyncio.wait([killed])
    else:
        means.spool.open(claim).begin()
        (left,) = Spool(bench.data).left()
        events = []

    await resume(means, left)

    assert last_event(bench, run_id)["message"] == "the runner was restarted while it ran"
    assert bench.site.plane.bundle(run_id)["receipt"]["ending"] == ("signalled" if released else "setup-failed")
    assert len(events) == int(released)
    assert bench.kept() == []


async def test_a_lost_renewal_does_not_lose_the_run(bench):
    """The token that a renewal gave is void only for others: asked again with the one before, the plane tells it."""
    run_id = bench.site.submit()
    means = bench.means()
    claim = await claimed(means)
    bench.site.plane.renew(claim.token)  # whose answer never came

    await AtWork(means, claim, "0" * 32).carry_out()

    assert last_event(bench, run_id)["type"] == "run.completed"


async def test_a_renewal_that_was_lost_with_the_process_does_not_lose_the_run(bench):
    """After a restart the token on disk may be the one before: the plane tells the newest for it."""
    run_id = bench.site.submit()
    means = bench.means()
    entry = means.spool.open(await claimed(means))
    entry.begin()
    bench.site.plane.renew(entry.claim.token)

    await resume(means, entry)

    assert last_event(bench, run_id)["failure"] == "session_failed"


async def test_a_lease_that_cannot_be_renewed_ends_the_run(make_bench):
    """Before the plane gives the run to somebody else, what runs here is killed; the receipt says why."""
    bench = make_bench(lease_ms=1200)
    tier = bench.tier = Lasting()
    run_id = bench.site.submit()
    bench.plane.twist = lambda _method, path, _body: (0, b"") if path.endswith("renew") else None
    before = asyncio.get_running_loop().time()

    await bench.once(last_try_seconds=SECONDS)

    assert asyncio.get_running_loop().time() - before < 1.2 + 1.0
    assert not tier.go.is_set()
    assert last_event(bench, run_id)["message"] == "the lease could not be renewed"


async def test_a_plane_that_hangs_does_not_outlast_the_lease(make_bench):
    """A renewal without an answer is no renewal: what runs is killed in time, and told when the plane answers again."""
    bench = make_bench(lease_ms=1500)
    bench.tier = Lasting()
    run_id = bench.site.submit()
    answered = threading.Event()
    bench.plane.twist = lambda _method, path, _body: answered.wait(SECONDS) and None if path.endswith("renew") else None
    working = asyncio.create_task(bench.once(last_try_seconds=SECONDS))
    await until(lambda: any(path.endswith("renew") for path, _ in bench.plane.asked))
    before = asyncio.get_running_loop().time()
    await asyncio.wait_for(working, SECONDS)

    assert asyncio.get_running_loop().time() - before < 1.5 + 1.0
    assert last_event(bench, run_id)["message"] == "the lease could not be renewed"
    answered.set()


async def test_a_lease_that_is_renewed_lets_the_run_go_on(make_bench):
    """A run may last longer than many leases; each renewal's token is on disk before it is used."""
    bench = make_bench(lease_ms=300)
    tier = bench.tier = Lasting()
    run_id = bench.site.submit()
    working = asyncio.create_task(bench.once())
    await until(lambda: sum("renew" in path for path in bench.plane.paths()) >= 5)
    (left,) = Spool(bench.data).left()
    tokens = [fields["claimToken"] for path, fields in bench.plane.asked if path.endswith("renew")]
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert left.claim.token not in tokens[:-1]
    assert bench.site.plane.status(run_id) == "completed"


async def test_a_run_that_is_somebody_elses_is_stopped_and_dropped(make_bench):
    """When the plane says that a claim is stale, its command is killed, and what is told blames nobody for that."""
    bench = make_bench(lease_ms=300)
    bench.tier = Lasting()
    bench.site.submit()
    stale = (409, b'{"error": "replaced", "code": "not_claimed"}')
    bench.plane.twist = lambda _m, path, _b: stale if path.endswith(("renew", "complete")) else None

    await bench.once()

    (told,) = [fields for path, fields in bench.plane.asked if path.endswith("complete")]
    assert told["receipt"]["status"] == "failed"
    assert told["events"][-1]["event"] == {
        "type": "run.failed",
        "failure": "session_failed",
        "message": "the run is not this runner's any more",
    }
    assert bench.kept() == []


async def test_a_full_disk_still_leaves_a_receipt(bench, monkeypatch):
    """Where the spool takes no event, the run fails with a receipt that says so, and the reserve makes room for it."""
    run_id = bench.site.submit()
    add = Entry._add
    full = []

    def no_room(self, kept, before=b""):
        if not before and (kept.events or kept.receipt):
            full.append(kept)
            raise StoreError("no room") from OSError(28, "No space left on device")
        add(self, kept, before)

    monkeypatch.setattr(Entry, "_add", no_room)
    await bench.once()

    failed = last_event(bench, run_id)
    assert failed["failure"] == "transfer_failed"
    assert "No space left on device" in failed["message"]
    assert not (bench.data / "spool" / ".reserve").exists()
    assert len(full) == 2


async def test_without_room_no_run_is_taken(bench, monkeypatch):
    """A full disk keeps the runner from claiming; with room it claims the same run."""
    run_id = bench.site.submit()
    monkeypatch.setattr(spools, "NEEDED_BYTES", 2**62)
    service = bench.service()
    working = asyncio.create_task(service.run())
    await until(lambda: any("no run is taken" in text for text in bench.said))
    service.stop()
    await asyncio.wait_for(working, SECONDS)
    assert bench.plane.asked == []

    monkeypatch.undo()
    assert (await bench.once()).done == [run_id]


async def test_the_spool_never_holds_a_secret(make_bench):
    """The values of released secrets are on no disk of the runner's."""
    policy = {"secrets": [{"name": "API_TOKEN", "pools": ["*"]}]}
    bench = make_bench(policy, read_secret={"API_TOKEN": "hunter2-hunter2"}.get)
    tier = bench.tier = Lasting()
    tier.prints = [("stdout", b"it is hunter2-hunter2")]
    run_id = bench.site.submit(secretNames=["API_TOKEN"])
    working = asyncio.create_task(bench.once())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    (path,) = bench.kept()
    content = path.read_bytes()
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert run_id.encode() in content
    assert b"hunter2" not in content
    assert bench.site.plane.output(run_id, "stdout") == b"it is [REDACTED:API_TOKEN]"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_plane_that_takes_no_event_twice_gets_none_twice(bench, restarted):
    """An old plane, which offers nothing and refuses what it has, still gets the whole chain and the receipt."""
    run_id = bench.site.submit()
    seen: list[int] = []

    def twist(_method, path, body):
        fields = json.loads(body) if path != "/v1/blobs" else {}
        numbers = [link["seq"] for link in fields.get("events", [])]
        if set(numbers) & set(seen):
            return 400, b'{"error": "event chain broken"}'
        seen.extend(numbers)
        if path == "/v1/claims":
            reply = bench.site.plane.claim({**fields, "knows": []})
            return 200, json.dumps({name: reply[name] for name in OLD_CLAIM if name in reply}).encode()
        return (0, b"") if path.endswith("complete") and hang_ups and hang_ups.pop() else None

    hang_ups = [True]
    bench.plane.twist = twist
    bench.proves = False
    await bench.once(last_try_seconds=0.0 if restarted else SECONDS)
    if restarted:
        assert len(bench.kept()) == 1
        await asyncio.wait_for(drained(bench), SECONDS)

    assert last_event(bench, run_id)["type"] == "run.completed"
    assert bench.plane.paths().count("/v1/runs/complete") == 2
    assert "renew" not in str(bench.plane.paths())


OLD_CLAIM = ("empty", "runId", "contract", "claimToken", "events", "secrets")


async def test_half_a_line_in_the_spool_is_passed_over(bench):
    """What a kill cut off was never sent: the lines before it count."""
    bench.site.submit()
    means = bench.means()
    claim = await claimed(means)
    entry = means.spool.open(claim)
    entry.begin()
    entry.add([{"seq": 9, "event": {"type": "workspace.materialized"}}])
    (path,) = bench.kept()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    (left,) = Spool(bench.data).left()
    assert (left.claim.token, left.events) == (claim.token, [])
    path.write_bytes(whole[:20])
    assert list(Spool(bench.data).left()) == []
    assert bench.kept() == []
