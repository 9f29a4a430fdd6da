"""A runner in the same process speaks to its plane in the same bytes as over a wire."""

import asyncio
import json
import sqlite3
import threading
from functools import partial

import pytest

from tests.unit.plane.embedded import ANNA, COMPLETED, PLANE, Embedded, executed, follow, materialized, receipt
from tests.unit.policy.conftest import open_policy
from tipstaff.errors import PlaneError
from tipstaff.evidence import verify
from tipstaff.plane import answer
from tipstaff.runner import InProcess


@pytest.fixture
def site(tmp_path):
    made = Embedded(tmp_path, owner="own_1")
    yield made
    made.close()


@pytest.fixture
def client(site):
    return InProcess(partial(answer, site.plane), site.token, "default")


async def test_a_whole_run(site, client):
    """Claim, release, renew and complete give a receipt that both have signed."""
    run_id = site.submit()
    claim = await client.claim()
    wire = {"contract": claim.contract, "events": claim.events, "runId": claim.run_id}
    await client.append(claim, follow(wire, [materialized(wire)], site.clock()), release=True)
    claim, cancel = await client.renew(claim)
    links = follow(wire, [executed(), COMPLETED], site.clock())
    done = await client.complete(claim, receipt(wire, site.clock()), links)

    assert cancel is None
    assert [one["signer"] for one in done["signatures"]] == ["runner", "plane"]
    assert verify(site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


async def test_nothing_to_do_is_none(client):
    """An empty queue gives no claim."""
    assert await client.claim() is None


async def test_the_tiers_of_the_host_are_told(site, client):
    """A run of another tier than the host has is not claimed."""
    site.submit()

    assert await client.claim(["process"]) is None
    assert await client.claim(["bwrap"]) is not None


async def test_a_cancellation_is_heard(site, client):
    """Who wants the run stopped is in the answer to the next events."""
    run_id = site.submit()
    claim = await client.claim()
    site.plane.cancel(run_id, {"actor": ANNA})

    assert await client.append(claim, []) == ANNA


async def test_a_refusal_arrives_as_it_was_made(site, client):
    """A step that the plane does not take is the plane's own error, with status, code and reasons."""
    site.submit()
    claim = await client.claim()

    with pytest.raises(PlaneError) as refused:
        await client.complete(claim, {})
    assert (refused.value.status, refused.value.code) == (422, "receipt_invalid")
    assert refused.value.reasons


async def test_a_busy_plane_is_waited_for_on_a_thread(site, client):
    """While another process writes, the loop goes on; the answer comes when that one is done."""
    site.submit()
    holder = sqlite3.connect(site.store.database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    claiming = asyncio.ensure_future(client.claim())
    await asyncio.sleep(0.1)
    assert not claiming.done()
    holder.execute("COMMIT")
    holder.close()

    assert (await asyncio.wait_for(claiming, 10)) is not None


@pytest.mark.parametrize(("size", "last_seconds", "threads"), [(10, 0.0, 1), (100_000, 0.0, 2), (10, 1.0, 2)])
async def test_what_takes_long_is_not_done_on_the_loop(size, last_seconds, threads):
    """A short body is answered on the loop's thread; a long one, or one after a slow answer, on another."""
    seen = {threading.get_ident()}

    def call(_path: str, _body: bytes, /, *, wait: bool = True) -> tuple[int, bytes]:
        seen.add(threading.get_ident())
        return 200, json.dumps({"empty": True, "waited": wait}).encode()

    client = InProcess(call, "x" * size, "default")
    client._last_seconds = last_seconds
    await client.claim()

    assert len(seen) == threads


async def test_eight_runs_at_once_are_all_completed(site, client):
    """Runs that go on side by side do not hold each other up, and each has its own receipt."""
    submitted = [site.submit() for _ in range(8)]

    async def one() -> str:
        claim = await client.claim()
        wire = {"contract": claim.contract, "events": claim.events, "runId": claim.run_id}
        await client.append(claim, follow(wire, [materialized(wire)], site.clock()), release=True)
        links = follow(wire, [executed(), COMPLETED], site.clock())
        done = await client.complete(claim, receipt(wire, site.clock()), links)
        return str(done["runId"])

    assert sorted(await asyncio.gather(*(one() for _ in range(8)))) == sorted(submitted)


async def test_a_question_goes_to_the_plane_and_comes_back_answered(tmp_path):
    """Asking waits, then gives the approval; what no rule asks for is the plane's own refusal."""
    hosts = [{"id": "ask-first", "host": "api.example.com", "ports": [443], "ask": True}]
    site = Embedded(tmp_path, policy=open_policy(network={"hosts": hosts}))
    client = InProcess(partial(answer, site.plane), site.token, "default")
    site.submit(network={"allowHosts": ["api.example.com"]})
    claim = await client.claim()
    assert claim is not None
    place = {"host": "api.example.com", "port": 443, "rule": "ask-first"}

    assert await client.ask(claim, place) == {"answer": "waiting"}
    site.plane.answer(claim.run_id, {"answer": "yes", "question": place, "actor": ANNA})
    assert (await client.ask(claim, place))["approval"]["question"] == place
    with pytest.raises(PlaneError) as refused:
        await client.ask(claim, {**place, "port": 80})
    assert (refused.value.status, refused.value.code) == (403, "not_permitted")
    site.close()
