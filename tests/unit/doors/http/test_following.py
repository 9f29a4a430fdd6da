"""Following a run: everything comes, in order, and a client that was cut off misses nothing."""

import threading
import time
from typing import Any

import msgspec
import pytest

from tests.unit.doors.http.conftest import Serve
from tests.unit.doors.http.served import Json, Served
from tipstaff.doors.http import following

Heard = tuple[str, str, Json]


def listen(served: Served, run: str, query: str = "", **headers: str) -> list[Heard]:
    """Follow until the end; gives (event, id, data)."""
    with served.http.stream(
        "GET",
        f"/v1/runs/{run}/follow{query}",
        headers={"authorization": f"Bearer {served.tokens['requester']}", **headers},
    ) as reply:
        assert reply.status_code == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        text = "".join(reply.iter_text())
    whole = [part for part in text.split("\n\n") if part and not part.startswith(":")]
    parts = [dict(line.split(": ", 1) for line in part.split("\n")) for part in whole]
    return [(part["event"], part["id"], msgspec.json.decode(part["data"])) for part in parts]


def held(served: Served) -> tuple[str, str]:
    """Have a run that a runner holds; gives the run and the claim's token."""
    run = served.submit()["runId"]
    claim = served.claim(served.enroll())
    assert claim["runId"] == run
    return run, claim["claimToken"]


def say(served: Served, run: str, token: str, **more: Any) -> None:
    """Say something as the runner."""
    reply = served.http.post(f"/v1/runs/{run}/log", json={"claimToken": token, **more})
    assert reply.status_code == 200, reply.text


def test_a_run_that_ended_is_told_whole(served):
    """Links come in order, then the state, then the end."""
    run = served.submit()["runId"]
    served.ask("POST", f"/v1/runs/{run}/cancel", "requester")
    heard = listen(served, run)
    links = [data for event, _, data in heard if event == "link"]
    assert [link["seq"] for link in links] == list(range(len(links)))
    assert links[-1]["event"]["type"] == "run.cancelled"
    assert [event for event, _, _ in heard][-2:] == ["status", "end"]
    assert heard[-1][2] == {"status": "cancelled"}
    assert heard[-1][1] == f"{len(links)}.0.0"


def test_a_client_that_was_cut_off_goes_on_where_it_was(served):
    """The id of the last event that came, said again, gives what is behind it; so does the query."""
    run = served.submit()["runId"]
    served.ask("POST", f"/v1/runs/{run}/cancel", "requester")
    whole = listen(served, run)
    for place in range(len(whole)):
        rest = listen(served, run, **{"last-event-id": whole[place][1]})
        expected = [one for one in whole[place + 1 :] if one[0] == "link"]
        assert [one for one in rest if one[0] == "link"] == expected
    seq = whole[0][1].split(".")[0]
    assert listen(served, run, f"?after={seq}&stdout=0&stderr=0")[0] == whole[1]


def test_events_and_output_come_as_they_happen(served):
    """While the run is at work, its output arrives at once, with the offsets that would be wanted next."""
    run, token = held(served)
    heard: list[Heard] = []
    thread = threading.Thread(target=lambda: heard.extend(listen(served, run)))
    thread.start()
    time.sleep(0.3)
    say(served, run, token, stream="stdout", offset=0, data="aGVsbG8=")
    say(served, run, token, stream="stderr", offset=0, data="b29wcw==")
    time.sleep(0.3)
    _give_up(served, run)
    thread.join(20)
    assert not thread.is_alive()
    output = [(one[1], one[2]) for one in heard if one[0] == "output"]
    assert [data["data"] for _, data in output] == ["aGVsbG8=", "b29wcw=="]
    assert output[-1][0].endswith(".5.4")


def _give_up(served: Served, run: str) -> None:
    """Let the run's lease run out, by hand: a run that its runner lost ends."""
    store = served.plane._store
    with store.database.transaction():
        store.runs.change(store.runs.get(run), lease_until=0, released=True)
    served.plane.close_lost()


def test_whoever_is_revoked_sees_nothing_more(served):
    """Following ends when the token that began it is revoked."""
    made = served.ask("POST", "/v1/principals", json={"name": "watcher", "role": "auditor"}).json()
    run = served.submit()["runId"]
    ended: list[float] = []

    def watch() -> None:
        headers = {"authorization": f"Bearer {made['token']}"}
        with served.http.stream("GET", f"/v1/runs/{run}/follow", headers=headers) as reply:
            list(reply.iter_lines())
        ended.append(time.monotonic())

    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(0.3)
    assert not ended
    assert served.ask("DELETE", "/v1/principals/watcher").status_code == 200
    served.ask("POST", f"/v1/runs/{run}/approve", "approver")
    thread.join(20)
    assert ended
    served.ask("POST", f"/v1/runs/{run}/cancel", "requester")


@pytest.mark.parametrize("given", ["x", "1", "1.2", "1.2.3.4", "-1.0.0", "1.2.x", "99999999999.0.0"])
def test_an_odd_place_is_400(served, given):
    """A place that this plane never gave is refused."""
    run = served.submit()["runId"]
    headers = {"last-event-id": given}
    assert served.ask("GET", f"/v1/runs/{run}/follow", "requester", headers=headers).status_code == 400
    assert served.ask("GET", f"/v1/runs/{run}/follow?after=x", "requester").status_code == 400


def test_a_quiet_run_is_kept_alive_by_comments(served, monkeypatch):
    """Where nothing happens a comment comes now and then, so that no proxy gives up."""
    monkeypatch.setattr(following, "COMMENT_SECONDS", 0.1)
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.1)
    run = served.submit()["runId"]
    headers = {"authorization": f"Bearer {served.tokens['requester']}"}
    with served.http.stream("GET", f"/v1/runs/{run}/follow", headers=headers) as reply:
        lines = reply.iter_lines()
        assert any(line.startswith(":") for line in (next(lines) for _ in range(40)))
    served.ask("POST", f"/v1/runs/{run}/cancel", "requester")


def test_a_plane_that_stops_ends_what_follows(serve: Serve):
    """Who follows is let go when the plane ends, promptly."""
    with serve() as served:
        run = served.submit()["runId"]
        heard: list[Heard] = []
        thread = threading.Thread(target=lambda: heard.extend(listen(served, run)))
        thread.start()
        time.sleep(0.5)
        stopped = time.monotonic()
    thread.join(20)
    assert not thread.is_alive()
    assert time.monotonic() - stopped < 8
    assert heard[0][0] == "link"
