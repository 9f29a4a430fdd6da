"""A runner at work: one run after another, many at once, and what it does when somebody interferes."""

import asyncio
import json
import time
from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.plane.embedded import ANNA, PLANE, STRANGER
from tests.unit.runner.conftest import SECONDS, Lasting, until
from tipstaff.errors import PlaneError, SigningKeyError
from tipstaff.evidence import verify
from tipstaff.evidence.chain import chained
from tipstaff.evidence.seal import signed
from tipstaff.isolation.tier import Ended
from tipstaff.model.times import milliseconds, timestamp
from tipstaff.runner.carrying import AtWork

MERGED = {"execution": {"kind": "argv", "command": "make", "args": ["test"]}}


def verdict(bench, run_id):
    """Verify a run's bundle by the plane's key."""
    return verify(bench.site.plane.bundle(run_id), [PLANE.public]).verdict


async def test_a_short_run_costs_three_requests(bench):
    """Claim, release and completion are all that a run needs, its output included; and it verifies."""
    run_id = bench.site.submit()
    bench.tier.prints = [("stdout", b"hello\n")]

    service = await bench.once()

    assert service.done == [run_id]
    assert bench.plane.paths() == ["/v1/claims", "/v1/runs/events", "/v1/runs/complete"]
    assert bench.site.plane.output(run_id, "stdout") == b"hello\n"
    assert verdict(bench, run_id) == "valid"
    assert bench.kept() == []


async def test_the_receipt_carries_the_checkpoints_of_the_plane(bench):
    """What the plane signed of the chain while it ran is in the receipt."""
    run_id = bench.site.submit()
    await bench.once()

    checkpoints = bench.site.plane.bundle(run_id)["receipt"]["checkpoints"]
    assert [one["runId"] for one in checkpoints] == [run_id]
    assert checkpoints[0]["signatures"][0]["keyId"] == PLANE.public.key_id


async def test_several_runs_go_on_at_once_and_no_more_than_that(bench):
    """With room for two, two are at work, and the third is claimed when one has ended."""
    tier = bench.tier = Lasting()
    runs = [bench.site.submit() for _ in range(3)]
    service = bench.service(concurrency=2)
    working = asyncio.create_task(service.run())
    await until(lambda: len(service._at_work) == 2)
    await asyncio.sleep(0.1)

    assert sorted(bench.site.plane.status(run) for run in runs) == ["created", "running", "running"]
    tier.go.set()
    await until(lambda: len(service.done) == 3)
    service.stop()
    await asyncio.wait_for(working, SECONDS)


async def test_a_stop_lets_what_runs_end_and_takes_no_more(bench):
    """After the first stop a run still ends by itself, and one that waits is left to others."""
    tier = bench.tier = Lasting()
    first = bench.site.submit()
    service = bench.service()
    working = asyncio.create_task(service.run())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    second = bench.site.submit()
    service.stop()
    await asyncio.sleep(0.1)
    assert not working.done()
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert [bench.site.plane.status(run) for run in (first, second)] == ["completed", "created"]


async def test_a_second_stop_ends_what_runs_in_the_operators_name(bench):
    """What is killed so has a receipt that says this runner cancelled it."""
    tier = bench.tier = Lasting()
    run_id = bench.site.submit()
    service = bench.service()
    working = asyncio.create_task(service.run())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    service.stop()
    service.stop()
    await asyncio.wait_for(working, SECONDS)

    last = bench.site.plane.bundle(run_id)["events"][-1]["event"]
    assert last["type"] == "run.cancelled"
    assert last["actor"]["id"].startswith("rnr_")
    assert verdict(bench, run_id) == "valid"


async def test_an_idle_runner_stops_at_once(bench):
    """A question that waits for a run is broken off."""
    service = bench.service(wait_ms=20_000)
    working = asyncio.create_task(service.run())
    await until(lambda: len(bench.plane.asked) >= 2)
    service.stop()

    await asyncio.wait_for(working, 5)


async def test_a_cancellation_reaches_a_run_at_work(make_bench):
    """Who cancels a run at work is heard with the next renewal, and named in the chain."""
    bench = make_bench(lease_ms=900)
    tier = bench.tier = Lasting()
    run_id = bench.site.submit()
    working = asyncio.create_task(bench.once())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    bench.site.plane.cancel(run_id, {"actor": ANNA})
    await asyncio.wait_for(working, SECONDS)

    assert bench.site.plane.bundle(run_id)["events"][-1]["event"] == {"type": "run.cancelled", "actor": ANNA}


async def test_a_plane_that_drains_gives_nothing_until_it_does_again(bench):
    """A drained runner takes no run; the same runner takes it when that is over."""
    run_id = bench.site.submit()
    means = bench.means()
    await means.client.tell_drain(drain=True)
    service = bench.service(means, poll_seconds=0.02)
    working = asyncio.create_task(service.run())
    await until(lambda: "the plane drains this runner" in bench.said)
    assert bench.site.plane.status(run_id) == "created"
    await means.client.tell_drain(drain=False)
    await until(lambda: service.done == [run_id])
    service.stop()
    await asyncio.wait_for(working, SECONDS)


async def test_a_runner_that_is_not_known_any_more_ends_and_says_so(bench):
    """A refused token is not tried again and again; a plane that is only busy is."""
    bench.plane.twist = lambda _method, _path, _body: (401, b'{"error": "not enrolled", "code": "runner_unknown"}')
    with pytest.raises(PlaneError, match="not enrolled"):
        await bench.once()

    run_id = bench.site.submit()
    answers = iter([(503, b'{"error": "busy"}'), (429, b"{}")])
    bench.plane.twist = lambda _method, _path, _body: next(answers, None)
    assert (await bench.once()).done == [run_id]


@pytest.mark.parametrize("key", [PLANE, STRANGER])
async def test_only_what_the_pinned_key_signed_is_carried_out(bench, key):
    """A contract that another key signed runs nothing, gets no receipt and is noted; the plane's own is carried out."""
    run_id = bench.site.submit()

    def twist(_method, path, body):
        if path != "/v1/claims":
            return None
        reply = bench.site.plane.claim(json.loads(body))
        contract = {name: value for name, value in reply.get("contract", {}).items() if name != "signatures"}
        return 200, json.dumps({**reply, "contract": signed(contract, key, "plane")}).encode()

    bench.plane.twist = twist
    await bench.once()

    assert bool(bench.tier.plans) is (key is PLANE)
    assert (bench.site.plane.status(run_id) == "completed") is (key is PLANE)
    assert (bench.data / "refused.jsonl").exists() is (key is not PLANE)


@pytest.mark.parametrize("proves", [True, False])
async def test_a_claim_that_is_handed_out_again_starts_nothing(bench, proves):
    """A recording of a claim, played back to the same runner or to its next process, is dropped and noted."""
    bench.proves = proves
    bench.site.submit()
    kept: list[bytes] = []

    def twist(_method, path, body):
        if path != "/v1/claims":
            return None
        fields = {name: value for name, value in json.loads(body).items() if proves or name != "nonce"}
        kept.append(kept[0] if kept else json.dumps(bench.site.plane.claim(fields)).encode())
        return 200, kept[0]

    bench.plane.twist = twist
    for _ in range(3):
        await bench.once()

    assert len(bench.tier.plans) == 1
    notes = [json.loads(line) for line in (bench.data / "refused.jsonl").read_text().splitlines()]
    assert [note["code"] for note in notes] == ["claim_differs" if proves else "contract_replayed"] * 2


@pytest.mark.parametrize(("proves", "is_dated"), [(True, False), (False, False), (False, True)])
async def test_an_old_contract_told_anew_starts_nothing(bench, proves, is_dated):
    """Around a signed contract that was carried out, a fresh chain of events is nobody's word that it may run again."""
    bench.proves = proves
    bench.site.submit()
    kept: list[dict[str, Any]] = []

    def twist(_method, path, body):
        if path != "/v1/claims":
            return None
        if not kept:
            kept.append(bench.site.plane.claim(json.loads(body)))
            return 200, json.dumps({name: it for name, it in kept[0].items() if proves or name != "proof"}).encode()
        prev, events = kept[0]["events"][0]["prev"], []
        for link in kept[0]["events"]:
            events.append(chained(link["seq"], timestamp(milliseconds(link["ts"]) + 1), prev, link["event"]))
            prev = events[-1]["hash"]
        again = {**kept[0], "events": events, **({"attempt": 2} if is_dated else {})}
        del again["proof"]
        return 200, json.dumps(again).encode()

    bench.plane.twist = twist
    for _ in range(2):
        await bench.once()

    assert len(bench.tier.plans) == 1
    (note,) = [json.loads(line) for line in (bench.data / "refused.jsonl").read_text().splitlines()]
    assert note["code"] == ("claim_unproven" if proves else "contract_replayed")


async def test_a_run_that_the_plane_gives_again_is_carried_out_again(make_bench):
    """The next attempt at a contract, signed for by the plane, is none that was taken before."""
    bench = make_bench(lease_ms=100)
    run_id = bench.site.submit()
    first = bench.means()
    nonce = "0" * 32
    claim = await first.client.claim(["bwrap"], {"nonce": nonce})
    AtWork(first, claim, nonce)._refuse_seen()
    await until(lambda: bench.site.plane.close_lost() and bench.site.plane.status(run_id) == "created")

    assert (await bench.once()).done == [run_id]
    assert len(bench.tier.plans) == 1


async def test_claims_that_another_key_signed_are_asked_for_ever_more_rarely_and_then_no_more(bench):
    """Each is lost to the plane: the waits double, and after five the runner ends, because its pin must be wrong."""
    for _ in range(6):
        bench.site.submit()
    times: list[float] = []

    def twist(_method, path, body):
        if path != "/v1/claims":
            return None
        times.append(time.monotonic())
        reply = bench.site.plane.claim(json.loads(body))
        proof = signed({**reply["proof"], "signatures": []}, STRANGER, "plane")
        return 200, json.dumps({**reply, "proof": proof}).encode()

    bench.plane.twist = twist
    service = bench.service(dropped_seconds=0.1)
    with pytest.raises(SigningKeyError, match=f"pinned, {PLANE.public.key_id}") as refused:
        await asyncio.wait_for(service.run(), SECONDS)

    assert (len(times), refused.value.exit_code) == (5, 77)
    waits = [later - before for before, later in pairwise(times)]
    assert all(wait >= 0.05 * 2**count for count, wait in enumerate(waits))
    assert bench.tier.plans == []


async def test_a_few_forged_claims_do_not_end_a_runner(bench):
    """Four claims that another key signed, and an honest one, and four again: the runner goes on."""
    for _ in range(10):
        bench.site.submit()
    count = 0

    def twist(_method, path, body):
        nonlocal count
        if path != "/v1/claims":
            return None
        count += 1
        if count % 5 == 0:
            return None
        reply = bench.site.plane.claim(json.loads(body))
        return 200, json.dumps({**reply, "contract": {**reply["contract"], "purpose": "x"}, "proof": {}}).encode()

    bench.plane.twist = twist
    service = bench.service(dropped_seconds=0.01)
    working = asyncio.create_task(service.run())
    await until(lambda: len(service.done) == 2)
    service.stop()
    await asyncio.wait_for(working, SECONDS)


async def test_whatever_answers_a_claim_does_not_end_a_runner(bench):
    """A fault of our own while a run is asked for is said, without its words, and asking goes on."""
    run_id = bench.site.submit()
    means = bench.means()
    claim, faults = means.client.claim, iter([RuntimeError("hunter2")])

    async def faulty(*words):
        if (fault := next(faults, None)) is not None:
            raise fault
        return await claim(*words)

    means.client.claim = faulty
    service = bench.service(means, once=True)
    await asyncio.wait_for(service.run(), SECONDS)

    assert service.done == [run_id]
    (said,) = [text for text in bench.said if "no run could be asked for" in text]
    assert "RuntimeError" in said
    assert "hunter2" not in said


async def test_a_drain_that_is_said_twice_is_the_same(bench):
    """However often a runner is drained, what runs ends by itself; the first stop after that changes nothing either."""
    tier = bench.tier = Lasting()
    run_id = bench.site.submit()
    service = bench.service()
    working = asyncio.create_task(service.run())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    service.drain()
    service.drain()
    service.stop()
    await asyncio.sleep(0.1)
    assert not working.done()
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert bench.site.plane.status(run_id) == "completed"


async def test_what_breaks_down_is_told_as_a_failure_and_the_next_run_goes_on(bench):
    """A fault of the runner's own ends one run, with a receipt that does not quote it; the service takes the next."""
    broken, whole = bench.site.submit(), bench.site.submit()
    run = bench.tier.run

    async def fail_once(_plan, _passage):
        bench.tier.run = run
        raise RuntimeError("hunter2")

    bench.tier.run = fail_once
    service = bench.service()
    working = asyncio.create_task(service.run())
    await until(lambda: len(service.done) == 2)
    service.stop()
    await asyncio.wait_for(working, SECONDS)

    last = bench.site.plane.bundle(broken)["events"][-1]["event"]
    assert (last["failure"], "hunter2" in json.dumps(last)) == ("session_failed", False)
    assert verdict(bench, broken) == "valid"
    assert bench.site.plane.status(whole) == "completed"


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("merge", [("stdout", 0, b"hello oh world")]),
        ("capture", [("stdout", 0, b"hello  world"), ("stderr", 0, b"oh")]),
    ],
)
async def test_what_a_run_prints_is_sent_while_it_runs(bench, stderr, expected):
    """Output arrives before the run has ended, with the offset at which it stands in the log that will be kept."""
    tier = bench.tier = Lasting()
    tier.prints = [("stdout", b"hello "), ("stderr", b"oh"), ("stdout", b" world")]
    log = {"stdout": "capture", "stderr": stderr}
    run_id = bench.site.submit(execution={**MERGED["execution"], "log": log})
    working = asyncio.create_task(bench.once())
    await until(lambda: sum("log" in path for path in bench.plane.paths()) == len(expected))
    lots = [fields for path, fields in bench.plane.asked if path.endswith("/log")]
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert [(lot["stream"], lot["offset"], b64decode(lot["data"])) for lot in lots] == expected
    assert bench.site.plane.output(run_id, "stdout") == expected[0][2]


async def test_nothing_is_sent_live_where_output_may_not_leave(bench):
    """Under a closed disclosure nobody follows what a run prints."""
    tier = bench.tier = Lasting()
    tier.prints = [("stdout", b"hello")]
    bench.site.submit(disclosure="metadata-only")
    working = asyncio.create_task(bench.once())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    await asyncio.sleep(0.1)
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert "/v1/runs/log" not in bench.plane.paths()


async def test_a_failing_command_is_no_trouble_of_the_runner(bench):
    """A command that fails has its receipt like any other."""
    bench.tier.ended = Ended(ending="exited", exit_code=3)
    run_id = bench.site.submit()
    await bench.once()

    assert bench.site.plane.status(run_id) == "failed"
    assert bench.site.plane.bundle(run_id)["receipt"]["exitCode"] == 3
