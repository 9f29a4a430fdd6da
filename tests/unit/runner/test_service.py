"""A runner at work: one run after another, many at once, and what it does when somebody interferes."""

import asyncio
import json
from base64 import b64decode

import pytest

from tests.unit.plane.embedded import ANNA, PLANE, STRANGER
from tests.unit.runner.conftest import SECONDS, Lasting, until
from tipstaff.errors import PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.seal import signed
from tipstaff.isolation.tier import Ended

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


async def test_a_claim_that_is_handed_out_again_starts_nothing(bench):
    """A recording of a claim, played back to the same runner or to its next process, is dropped and noted."""
    bench.site.submit()
    kept: list[bytes] = []

    def twist(_method, path, body):
        if path != "/v1/claims":
            return None
        fields = {name: value for name, value in json.loads(body).items() if name != "nonce"}
        kept.append(kept[0] if kept else json.dumps(bench.site.plane.claim(fields)).encode())
        return 200, kept[0]

    bench.plane.twist = twist
    for _ in range(3):
        await bench.once()

    assert len(bench.tier.plans) == 1
    notes = [json.loads(line) for line in (bench.data / "refused.jsonl").read_text().splitlines()]
    assert [note["code"] for note in notes] == ["contract_replayed"] * 2


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


async def test_what_a_run_prints_is_sent_while_it_runs(bench):
    """Output arrives before the run has ended, with the offset at which it stands."""
    tier = bench.tier = Lasting()
    tier.prints = [("stdout", b"hello "), ("stdout", b"world"), ("stderr", b"oh")]
    bench.site.submit()
    working = asyncio.create_task(bench.once())
    await until(lambda: sum("log" in path for path in bench.plane.paths()) == 2)
    lots = [fields for path, fields in bench.plane.asked if path.endswith("/log")]
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    assert [(lot["stream"], lot["offset"], b64decode(lot["data"])) for lot in lots] == [
        ("stdout", 0, b"hello world"),
        ("stderr", 0, b"oh"),
    ]


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
