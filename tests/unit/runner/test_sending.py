"""What a run leaves reaches its plane, whatever answers on the way; only the plane itself says that it does not."""

import asyncio
import json
import os

import pytest

from tests.unit.plane.embedded import PLANE, STRANGER
from tests.unit.runner.conftest import LONG, SECONDS, Lasting, claimed, drained, last_event
from tipstaff.evidence.seal import signed
from tipstaff.runner import spool as spools
from tipstaff.runner.carrying import resume


async def test_a_run_that_the_plane_gave_away_is_forgotten(bench):
    """A receipt that comes too late is not sent again, and not kept."""
    bench.site.submit()
    means = bench.means()
    claim = await claimed(means)
    entry = means.spool.open(claim)
    entry.begin()
    bench.plane.twist = lambda _method, path, _body: (
        (409, b'{"error": "given away", "code": "not_claimed"}') if path.endswith("complete") else None
    )

    await resume(means, entry)

    assert bench.kept() == []
    assert not (bench.data / "rejected").exists()


async def test_a_receipt_that_the_plane_refuses_is_put_aside(bench):
    """What is wrong with a receipt cannot be mended by another: it is kept, contents and all, to be looked at."""
    bench.site.submit()
    bench.tier.prints = [("stdout", LONG)]
    bench.plane.twist = lambda _method, path, _body: (
        (422, b'{"error": "no", "code": "receipt_invalid"}') if path.endswith("complete") else None
    )
    lost = iter([(409, b'{"error": "no", "code": "claim_stale"}')] * 2)
    honest = bench.plane.twist
    bench.plane.twist = lambda method, path, body: (
        next(lost, None) if path == "/v1/blobs" else honest(method, path, body)
    )

    await bench.once()

    assert [path.name for path in (bench.data / "spool").iterdir()] == [".reserve"]
    names = sorted((path.suffix, path.stem) for path in (bench.data / "rejected").iterdir())
    assert [suffix for suffix, _ in names] == [".blobs", ".ndjson"]
    assert names[0][1] == names[1][1]
    (blob,) = (bench.data / "rejected" / f"{names[0][1]}.blobs").iterdir()
    assert blob.read_bytes() == LONG


async def test_only_the_newest_that_the_plane_refused_are_kept(bench, monkeypatch):
    """The folder of what was put aside does not grow for ever, neither by receipts nor by contents."""
    monkeypatch.setattr(spools, "MOST_REJECTED", 2)
    bench.site.submit()
    means = bench.means()
    claim = await claimed(means)
    for number in range(4):
        entry = means.spool.open(claim)
        entry.begin()
        descriptor, _ = entry.new_blob()
        os.close(descriptor)
        entry.reject()
        newest = max((bench.data / "rejected").glob("*.ndjson"), key=lambda path: path.stat().st_ctime_ns)
        os.utime(newest, (number, number))

    suffixes = sorted(path.suffix for path in (bench.data / "rejected").iterdir())
    assert suffixes == [".blobs", ".blobs", ".ndjson", ".ndjson"]
    assert {int(path.stat().st_mtime) for path in (bench.data / "rejected").glob("*.ndjson")} == {2, 3}


@pytest.mark.parametrize("offers_known", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        (200, b'{"receipt": {}}'),
        (409, b'{"message": "conflict"}'),
        (409, b'{"error": "conflict"}'),
        (409, b'{"error": "conflict", "code": "CONFLICT"}'),
        (404, b'{"message": "no Route matched with those values"}'),
        (403, b'{"error": "Forbidden"}'),
        (403, b'{"error": {"code": "x"}, "code": "x"}'),
    ],
)
async def test_only_the_plane_itself_can_say_that_it_has_a_receipt_or_does_not_want_it(bench, reply, offers_known):
    """Whatever something on the way answers, the receipt waits, and reaches the plane when the way is free again."""
    run_id = bench.site.submit()
    meddled = iter([reply] * 2)
    if offers_known:
        bench.plane.twist = lambda _method, path, _body: next(meddled, None) if path.endswith("complete") else None
        await bench.once(last_try_seconds=SECONDS)
    else:
        bench.plane.twist = lambda _method, path, _body: (0, b"") if path.endswith("complete") else None
        await bench.once()
        bench.plane.twist = lambda _method, path, _body: next(meddled, None) if path.endswith("complete") else None
        await asyncio.wait_for(drained(bench), SECONDS)

    assert next(meddled, None) is None
    assert last_event(bench, run_id)["type"] == "run.completed"
    assert bench.kept() == []
    assert not (bench.data / "rejected").exists()


async def test_a_receipt_that_another_key_signed_is_none(bench):
    """An answer with a stranger's signature, or over another receipt, is asked for again until the plane's comes."""
    run_id = bench.site.submit()
    answers: list[bytes] = []

    def twist(_method, path, body):
        if not path.endswith("complete") or len(answers) == 2:
            return None
        ours = json.loads(body)["receipt"]
        receipt = signed(ours, STRANGER, "plane") if not answers else signed({**ours, "exitCode": 1}, PLANE, "plane")
        answers.append(json.dumps({"receipt": receipt}).encode())
        return 200, answers[-1]

    bench.plane.twist = twist
    await bench.once(last_try_seconds=SECONDS)

    assert bench.site.plane.status(run_id) == "completed"
    assert sum("not signed by our plane" in text for text in bench.said) == 2


@pytest.mark.parametrize("status", [401, 409, 422])
async def test_an_older_plane_says_no_without_a_code(bench, status):
    """A plane that offers nothing and never signed for claims is believed by its words alone."""
    bench.proves = False
    bench.site.submit()
    means = bench.means()
    entry = means.spool.open(await claimed(means))
    entry.begin()
    means.client.offers = frozenset()
    bench.plane.twist = lambda _method, path, _body: (
        (status, b'{"error": "already completed"}') if path.endswith("complete") else None
    )

    await asyncio.wait_for(resume(means, entry), SECONDS)

    assert bench.kept() == []
    assert (bench.data / "rejected").exists() is (status != 409)


@pytest.mark.parametrize("code", ["claim_stale", "not_claimed", "completed"])
async def test_a_run_that_was_given_away_is_told_once_also_where_its_contents_are_not_taken(make_bench, code):
    """The plane keeps a late receipt beside the run, however large the output was; then the run is forgotten."""
    bench = make_bench(lease_ms=60_000)
    tier = bench.tier = Lasting()
    tier.prints = [("stdout", LONG)]
    bench.site.submit()
    gone = (409, b'{"error": "given away", "code": "%s"}' % code.encode())
    bench.plane.twist = lambda _m, path, _b: gone if path.endswith(("renew", "complete", "/v1/blobs")) else None
    working = asyncio.create_task(bench.once())
    await asyncio.wait_for(tier.began.wait(), SECONDS)
    tier.go.set()
    await asyncio.wait_for(working, SECONDS)

    told = [fields["receipt"] for path, fields in bench.plane.asked if path.endswith("complete")]
    assert len(told) == 1
    assert bench.kept() == []
    assert not (bench.data / "rejected").exists()
