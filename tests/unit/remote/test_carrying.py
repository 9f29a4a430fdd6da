"""A run at a plane elsewhere: what was shown is held against its proof, and a stop that never arrived is told."""

import asyncio
from functools import partial

import pytest

from tests.unit.remote.played import PRINTED, Played, client_of, on, played, record
from tests.unit.remote.scripted import Reply
from tipstaff.errors import InputError, PlaneError
from tipstaff.remote.carrying import Ends, carry_out, watch

SECOND = b"a warning\n"


class Heard:
    """What a run's output and sentences come to."""

    def __init__(self) -> None:
        self.shown = {"stdout": b"", "stderr": b""}
        self.said: list[str] = []

    def ends(self, **more) -> Ends:
        """Give ends that keep everything."""
        return Ends(
            stdout=partial(self._take, "stdout"), stderr=partial(self._take, "stderr"), told=self.said.append, **more
        )

    async def _take(self, stream: str, data: bytes) -> None:
        self.shown[stream] += data


def watched(plane: Played, tmp_path) -> Heard:
    """Watch the plane's run to its end."""
    heard = Heard()
    with client_of(plane, tmp_path) as client:
        asyncio.run(watch(client, plane.run_id, heard.ends()))
    return heard


@pytest.mark.parametrize("live", [[("stdout", 0, PRINTED)], []])
def test_what_is_shown_is_what_the_receipt_names(tmp_path, live):
    """Output that came live, or only afterwards, is shown once and is what the receipt says; nothing is said of it."""
    with played(tmp_path / "plane") as plane:
        plane.live = live
        heard = watched(plane, tmp_path)

    assert (heard.shown, heard.said) == ({"stdout": PRINTED, "stderr": b""}, [])


def test_forged_live_output_is_an_error(tmp_path):
    """What was shown live and is not what was printed ends with an error."""
    with played(tmp_path / "plane") as plane:
        plane.live = [("stdout", 0, b"all 312 tests OK\n")]
        with pytest.raises(InputError, match="do not rely on what was shown"):
            watched(plane, tmp_path)


@pytest.mark.parametrize("extra", [True, False])
def test_a_merged_log_has_no_second_stream(tmp_path, extra):
    """Where the receipt knows of one stream only, something shown as the other is an error."""
    with played(tmp_path / "plane", streams={"stdout": record(PRINTED)}) as plane:
        plane.live += [("stderr", 0, SECOND)] if extra else []
        if extra:
            with pytest.raises(InputError, match="stderr, of which its receipt knows nothing"):
                watched(plane, tmp_path)
        else:
            assert watched(plane, tmp_path).shown["stdout"] == PRINTED


def test_a_receipt_without_streams_proves_no_output(tmp_path):
    """Where a receipt does not say what was printed, whoever watched is told that it is not proved."""
    with played(tmp_path / "plane", streams={}) as plane:
        heard = watched(plane, tmp_path)

    assert heard.shown["stdout"] == PRINTED
    assert heard.said == ["what was shown as stdout is not proved: the receipt does not say what was printed"]


def test_an_end_without_a_receipt_is_told(tmp_path):
    """A plane that says a run is over and gives no receipt proves nothing, and whoever watches is told so."""
    with played(tmp_path / "plane") as plane:
        plane.twist = on(plane.run_id, lambda said: {name: said[name] for name in said if name != "receipt"})
        heard = watched(plane, tmp_path)

    assert any("is not proved yet" in one for one in heard.said)


def stopped(plane: Played, tmp_path, lost: int) -> None:
    """Ask for a run that goes on for ever, and stop it; so many wishes to stop are lost on the way."""
    left, running = iter(range(lost)), {"is": True}

    def twist(asked, said):
        if asked.path == "/v1/runs":
            return {"runId": plane.run_id, "status": "created", "decision": "allow"}
        if asked.path.endswith("/follow"):
            return {"": b"" if running["is"] else b'event: end\ndata: {"status":"completed"}\n\n'}
        if asked.path.endswith("/cancel"):
            if next(left, None) is not None:
                return Reply(502, b"{}")
            running["is"] = False
        if asked.path.endswith(plane.run_id) and running["is"]:
            return {**{name: said[name] for name in said if name != "receipt"}, "status": "running"}
        return said

    plane.twist = twist
    heard = Heard()

    async def go(client):
        ends = heard.ends(stop_seconds=3.0)
        ends.cancel.set()
        return await carry_out(client, {}, ends)

    with client_of(plane, tmp_path) as client:
        asyncio.run(asyncio.wait_for(go(client), 60))


def test_a_stop_that_was_lost_is_told_again(tmp_path):
    """A wish to stop that did not arrive at first arrives later, and the run's receipt comes."""
    with played(tmp_path / "plane") as plane:
        stopped(plane, tmp_path, lost=2)

    assert [path.rpartition("/")[2] for path, _ in plane.posted].count("cancel") == 3


def test_a_stop_that_never_arrives_is_told(tmp_path):
    """A run that could not be told to stop is not said to be stopped."""
    with (
        played(tmp_path / "plane") as plane,
        pytest.raises(PlaneError, match="could not be told to stop, and may go on"),
    ):
        stopped(plane, tmp_path, lost=1000)


def test_whoever_leaves_learns_that_the_run_may_go_on(tmp_path):
    """A task that is cancelled while its plane is away tries to stop the run until its time is over, and says so."""
    heard = Heard()

    async def go(client):
        task = asyncio.ensure_future(carry_out(client, {}, heard.ends(stop_seconds=1.0)))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()

    with played(tmp_path / "plane") as plane, client_of(plane, tmp_path) as client:
        plane.twist = lambda asked, _: (
            {"runId": plane.run_id, "status": "created"} if asked.path == "/v1/runs" else Reply(502, b"{}")
        )
        plane.live = []
        asyncio.run(go(client))

    assert any("could not be told to stop" in one for one in heard.said)
