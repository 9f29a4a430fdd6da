"""Contents of a run: what it makes reaches the plane before it is named, and what it needs comes from the plane."""

import asyncio
import threading
from hashlib import sha256
from io import BytesIO

import pytest

from tests.unit.plane.embedded import PLANE
from tests.unit.runner.conftest import SECONDS, until
from tests.unit.workspace.shelf import Shelf
from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.evidence import verify
from tipstaff.isolation.tier import Leaving
from tipstaff.runner.blobs import IN_MEMORY, RunBlobs
from tipstaff.runner.nothing import NoBlobs
from tipstaff.workspace import listing
from tipstaff.workspace.capture.capturing import Wish, capture
from tipstaff.workspace.depot import Depot
from tipstaff.workspace.materialise.packing import pack

LONG = b"0123456789abcdef" * 8192  # twice what goes with a receipt


def last(bench, run_id):
    """Give the last event of a run, whose bundle has to verify."""
    bundle = bench.site.plane.bundle(run_id)
    assert verify(bundle, [PLANE.public]).verdict == "valid"
    return bundle["events"][-1]["event"]


async def test_long_output_is_brought_before_the_receipt(bench):
    """What is too long to go with the receipt is uploaded first, by the claim."""
    bench.tier.prints = [("stdout", LONG)]
    run_id = bench.site.submit()
    await bench.once()

    assert bench.site.plane.output(run_id, "stdout") == LONG
    paths = bench.plane.paths()
    assert paths.index("/v1/blobs") < paths.index("/v1/runs/complete")
    assert [path.name for path in (bench.data / "spool").iterdir()] == [".reserve"]


@pytest.mark.parametrize("status", [403, 413, 507])
async def test_what_the_plane_refuses_for_good_is_named_by_no_receipt(bench, status):
    """An upload that is refused makes the run a failed transfer, and no artifact is told of."""
    bench.tier.prints = [("stdout", LONG)]
    run_id = bench.site.submit()
    refusal = (status, b'{"error": "too much"}')
    bench.plane.twist = lambda _method, path, _body: refusal if path == "/v1/blobs" else None
    await bench.once()

    receipt = bench.site.plane.bundle(run_id)["receipt"]
    assert last(bench, run_id)["failure"] == "transfer_failed"
    assert "too much; it had exited 0" in last(bench, run_id)["message"]
    assert receipt["workspaceOut"]["artifactHashes"] == []
    assert receipt["streams"]["stdout"]["bytes"] == len(LONG)


async def test_an_upload_that_breaks_off_is_tried_again(bench):
    """A connection that is lost on the way costs time and nothing else."""
    bench.tier.prints = [("stdout", LONG)]
    run_id = bench.site.submit()
    hang_ups = iter([(0, b""), (500, b"{}")])
    bench.plane.twist = lambda _method, path, _body: next(hang_ups, None) if path == "/v1/blobs" else None
    await bench.once()

    assert bench.site.plane.output(run_id, "stdout") == LONG


@pytest.fixture
def captured(tmp_path, bench):
    """A workspace whose contents are the plane's."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "note.txt").write_text("as it was\n")
    shelf = Shelf()
    manifest = capture(folder, Wish(), Depot(tmp_path / "elsewhere"), shelf).manifest
    manifest = {**manifest, "packs": pack(folder, listing.decode(shelf.kept[manifest["treeHash"]]), shelf)}
    for content in shelf.kept.values():
        bench.site.store.blobs.put(content)
    return manifest


async def test_a_captured_workspace_is_fetched_and_unpacked(bench, captured, tmp_path):
    """The run works on what its contract names, and what it changes comes back as its diff."""
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "new.txt").write_text("new\n")
    run_id = bench.site.submit(workspace=captured)
    seen = []
    run = bench.tier.run

    async def look(plan, passage):
        seen.append((plan.workspace / "note.txt").read_text())
        bench.tier.leaves = Leaving(base=plan.workspace, upper=upper, copy=None)
        return await run(plan, passage)

    bench.tier.run = look
    await bench.once()

    assert seen == ["as it was\n"]
    assert last(bench, run_id)["type"] == "run.completed"
    assert b"+new" in bench.site.plane.changes(run_id).diff


@pytest.mark.parametrize("reply", [(200, b"other bytes"), (404, b'{"error": "there is no such blob"}')])
async def test_a_workspace_that_is_not_what_the_contract_names_runs_nothing(bench, captured, reply):
    """Other bytes than the digest says, or none, are a failed transfer."""
    run_id = bench.site.submit(workspace=captured)
    bench.plane.twist = lambda method, _path, _body: reply if method == "GET" else None
    await bench.once()

    assert last(bench, run_id)["failure"] == "transfer_failed"
    assert bench.tier.plans == []


async def test_contents_are_found_where_they_are(bench):
    """Small ones are in memory, larger ones on disk, others at the plane; each comes back as it is."""
    bench.site.submit()
    means = bench.means()
    claim = await means.client.claim(["bwrap"])
    entry = means.spool.open(claim)

    async def fetch(wanted, into):
        into.write(wanted.encode())

    blobs = RunBlobs(entry, fetch, asyncio.get_running_loop())
    small, large = blobs.put(b"small"), blobs.put(LONG)
    half = blobs.writer()
    half.write(LONG)
    half.discard()

    assert (small, large) == (sha256(b"small").hexdigest(), sha256(LONG).hexdigest())
    assert list(blobs.small) == [small]
    assert [path.name for path in entry.blob(large).parent.iterdir()] == [large]
    for digest, content in ((small, b"small"), (large, LONG), ("elsewhere", b"elsewhere")):
        assert await asyncio.wait_for(asyncio.to_thread(blobs.get, digest), SECONDS) == content
        assert await asyncio.wait_for(asyncio.to_thread(_read, blobs, digest), SECONDS) == content
    assert [path.name for path in entry.blob(large).parent.iterdir()] == [large]
    for index in range(40):
        blobs.put(index.to_bytes(2) * (IN_MEMORY // 2))
    assert sum(map(len, blobs.small.values())) <= 1024**2
    entry.remove()
    assert list((bench.data / "spool").glob("*")) == [bench.data / "spool" / ".reserve"]


def _read(blobs, digest):
    """Read a content in pieces."""
    with blobs.open(digest) as file:
        return b"".join(iter(lambda: file.read(1000), b""))


async def test_what_is_too_long_to_be_had_at_once_is_read_in_pieces(bench, monkeypatch):
    """Nobody gets the whole of a content that is too long for memory; in pieces it is given."""
    bench.site.submit()
    means = bench.means()
    entry = means.spool.open(await means.client.claim(["bwrap"]))
    blobs = RunBlobs(entry, means.client.fetch, asyncio.get_running_loop())
    digest = blobs.put(LONG)
    monkeypatch.setattr("tipstaff.runner.blobs.MOST_WHOLE", len(LONG))
    assert blobs.get(digest) == LONG
    monkeypatch.setattr("tipstaff.runner.blobs.MOST_WHOLE", len(LONG) - 1)
    with pytest.raises(InputError, match="too much at once"):
        blobs.get(digest)
    assert _read(blobs, digest) == LONG


async def test_a_fetch_that_fails_leaves_nothing(bench):
    """What did not come whole is on no disk, and its error is raised to whoever wanted it."""
    bench.site.submit()
    means = bench.means()
    entry = means.spool.open(await means.client.claim(["bwrap"]))

    async def fetch(_wanted, into):
        into.write(b"half")
        raise PlaneError("no", status=404)

    blobs = RunBlobs(entry, fetch, asyncio.get_running_loop())
    with pytest.raises(PlaneError, match="no"):
        await asyncio.wait_for(asyncio.to_thread(blobs.open, "0" * 64), SECONDS)
    assert list(entry.blob("x").parent.iterdir()) == []


async def test_no_more_than_two_contents_are_fetched_at_once(bench):
    """A third waits until one has come, so that many runs do not share one line into crumbs."""
    wanted = sha256(b"right").hexdigest()
    client, go, under_way, most = bench.client(), threading.Event(), [], []

    def twist(_method, _path, _body):
        under_way.append(1)
        most.append(len(under_way))
        go.wait(SECONDS)
        under_way.pop()
        return 200, b"right"

    bench.plane.twist = twist
    fetches = [asyncio.create_task(client.fetch("token", wanted, BytesIO())) for _ in range(5)]
    await until(lambda: len(under_way) == 2)
    await asyncio.sleep(0.1)
    go.set()
    await asyncio.wait_for(asyncio.gather(*fetches), SECONDS)

    assert max(most) == 2


def test_a_runner_at_rest_holds_nothing():
    """Contents belong to a run; without one there are none."""
    blobs = NoBlobs()
    for ask in (lambda: blobs.put(b"x"), lambda: blobs.get("x"), blobs.writer):
        with pytest.raises(NotFoundError):
            ask()
