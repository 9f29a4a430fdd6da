"""Bodies: nobody's long body is read, everybody's is counted, and half a character is nobody's name."""

import socket
import threading
import time

import pytest

from tests.unit.doors.http.conftest import Serve
from tests.unit.doors.http.served import Served
from tipstaff.doors.http.front import LONG_BYTES, SHARE_BYTES
from tipstaff.doors.http.settings import Limits
from tipstaff.errors import StoreError
from tipstaff.plane import Plane

MIB = 1024**2
LONE = '"\\ud800"'


def begin(served: Served, path: str, announced: int, body: bytes, *headers: str) -> socket.socket:
    """Send the head of a request, and some of its body."""
    host, port = served.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    lines = (f"POST {path} HTTP/1.1", "host: x", f"content-length: {announced}", *headers, "", "")
    connection.sendall("\r\n".join(lines).encode() + body)
    return connection


def hold(served: Served) -> tuple[str, str]:
    """Give a runner a run; gives the run and its claim's token."""
    served.submit()
    claim = served.claim(served.enroll())
    return claim["runId"], claim["claimToken"]


@pytest.mark.parametrize("begun", [b"", b'{"claimToken":"x.y","events":[', b'{"claimToken":"' + b"x" * 4096])
def test_a_long_body_of_nobody_is_not_read(served, begun):
    """Without a token of this plane at its beginning a long body is 401 while most of it has still to come."""
    body = begun + b" " * (LONG_BYTES + 1 - len(begun))
    with begin(served, "/v1/runs/run_x/events", 32 * MIB, body) as connection:
        reply = connection.recv(65536)
    assert reply.startswith(b"HTTP/1.1 401 "), reply
    assert b"connection: close" in reply


@pytest.mark.parametrize("where", ["body", "header"])
def test_a_long_body_of_a_runner_is_read(served, where):
    """With the claim's token at the body's beginning, or in the header, a long body is read as a short one is."""
    run_id, token = hold(served)
    pad = " " * LONG_BYTES
    text = (
        f'{{"claimToken":"{token}","events":[]{pad}}}'
        if where == "body"
        else f'{{{pad}"claimToken":"{token}","events":[]}}'
    )
    headers = {"authorization": f"Bearer {token}"} if where == "header" else {}
    reply = served.http.post(f"/v1/runs/{run_id}/events", content=text, headers=headers)
    assert (reply.status_code, reply.json()["ok"]) == (200, True)


def test_long_bodies_count_for_the_rate_too(serve: Serve):
    """A runner's long bodies are bounded like its short ones."""
    with serve(limits=Limits(runner_per_second=1, runner_burst=6)) as served:
        run_id, token = hold(served)
        body = f'{{"claimToken":"{token}","events":[]{" " * LONG_BYTES}}}'
        statuses = [served.http.post(f"/v1/runs/{run_id}/events", content=body).status_code for _ in range(10)]
    assert statuses[0] == 200
    assert 429 in statuses


def test_bodies_that_nobody_can_read_count_for_the_rate_too(serve: Serve):
    """What is no JSON counts for its address, and not for a runner there."""
    with serve(limits=Limits(runner_per_second=1, runner_burst=5, failures=1000)) as served:
        runner = served.enroll()
        statuses = [served.http.post("/v1/claims", content=b"{").status_code for _ in range(8)]
        assert statuses[0] == 400
        assert 429 in statuses
        assert served.claim(runner)["empty"] is True


def test_wrong_tokens_of_long_bodies_count_too(serve: Serve):
    """A long body is no way to guess tokens without being counted."""
    with serve(limits=Limits(failures=2)) as served:
        body = b'{"claimToken":"x.y",' + b" " * LONG_BYTES
        statuses = [served.http.post("/v1/runs/run_x/events", content=body).status_code for _ in range(4)]
    assert statuses == [401, 401, 429, 429]


def test_one_peer_has_only_its_share_of_the_memory(served):
    """A runner whose bodies hold its whole share is told to come again; others, at the same address too, are served."""
    run_id, token = hold(served)
    other_run, other = hold(served)
    begun = f'{{"claimToken":"{token}","events":['.encode()
    sent = begun + b" " * (60 * MIB - len(begun))
    open_ones: list[socket.socket] = []
    try:
        open_ones += [begin(served, f"/v1/runs/{run_id}/events", 64 * MIB, sent) for _ in range(2)]
        until = time.monotonic() + 20
        while served.front.held.total_bytes < 120 * MIB and time.monotonic() < until:
            time.sleep(0.02)
        big = begun.decode() + " " * (SHARE_BYTES - 120 * MIB) + "]}"
        reply = served.http.post(f"/v1/runs/{run_id}/events", content=big)
        assert (reply.status_code, reply.json()["code"], reply.headers["retry-after"]) == (503, "busy", "1")
        padded = f'{{"claimToken":"{other}","events":[{" " * (SHARE_BYTES - 120 * MIB)}]}}'
        assert served.http.post(f"/v1/runs/{other_run}/events", content=padded).status_code == 200
        assert served.ask("POST", "/v1/runs", "requester", json={"request": {"prompt": "true"}}).status_code == 200
    finally:
        for connection in open_ones:
            connection.close()
    until = time.monotonic() + 20
    while served.front.held.total_bytes and time.monotonic() < until:
        time.sleep(0.02)
    assert served.http.post(f"/v1/runs/{run_id}/events", content=big).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/runs", '{"request":{"prompt":%s}}'), ("/v1/runs", '{"request":{%s:1}}'),
     ("/v1/runs", '{"dryRun":true,"request":{"prompt":"x","pool":%s}}'), ("/v1/runs/run_x/deny", '{"reason":%s}'),
     ("/v1/principals", '{"name":%s,"role":"admin"}'), ("/v1/enroll-tokens", '{"pool":%s}'),
     ("/v1/claims", '{"runnerToken":"x","labels":[%s]}'), ("/v1/runners/enroll", '{"enrollToken":%s}'),
     ("/v1/runs/run_x/ask", '{"claimToken":"x","rule":%s}'), ("/v1/claims", '{"labels":{%s:1}}')],
)  # fmt: skip
def test_half_a_character_is_malformed_anywhere(served, path, body):
    """A lone surrogate in a body is 400 with a sentence; two that belong together are a character like any other."""
    reply = served.ask("POST", path, content=body % LONE)
    assert (reply.status_code, "lone surrogate" in reply.json()["error"]) == (400, True), reply.text
    whole = served.ask("POST", path, content=body % '"\\ud83d\\ude00"')
    assert "surrogate" not in whole.text
    assert whole.status_code < 500


def test_a_number_that_only_one_reader_takes_is_no_fault(served):
    """A claim with a number beyond every machine's is answered."""
    token = served.enroll("numbers")
    for number in ("1" + "0" * 400, "1e999"):
        body = f'{{"runnerToken":"{token}","pool":"numbers","waitMs":{number}}}'
        assert served.http.post("/v1/claims", content=body).json()["empty"] is True


@pytest.mark.parametrize(
    "since", ["2026-01-01", "2026-01-01T00:00:00", "", "yesterday", "2026-02-31T00:00:00.000Z", "0"]
)
def test_a_time_that_is_none_is_malformed(served, since):
    """An export since no time at all is 400 with how to write one; since a time, it is given."""
    reply = served.ask("GET", "/v1/export", params={"since": since})
    assert (reply.status_code, "2026-01-01T00:00:00.000Z" in reply.json()["error"]) == (400, True)
    for good in ("2026-01-01T00:00:00.000Z", "2026-01-01T02:00:00+02:00", "0001-01-01T00:00:00.000Z"):
        assert served.ask("GET", "/v1/export", params={"since": good}).status_code == 200


def test_a_runner_is_not_told_where_our_files_are(serve: Serve, monkeypatch, caplog):
    """What is wrong with the store is in the log, whole; a runner hears only that it cannot be used."""
    with serve() as served:
        token = served.enroll()

        def broken(_plane: Plane, _body: object) -> object:
            raise StoreError("the database /srv/plane/state.db is damaged", hint="restore it")

        monkeypatch.setattr("tipstaff.plane.wire._OFFICES", {"/v1/claims": broken})
        reply = served.http.post("/v1/claims", json={"runnerToken": token})
        assert (reply.status_code, reply.json()["code"]) == (503, "store")
        assert "/srv" not in reply.text
        assert any("/srv/plane/state.db" in str(record.msg) for record in caplog.records)
        monkeypatch.undo()
        assert served.claim(token)["empty"] is True


def test_housekeeping_waits_behind_no_request(served):
    """While every thread for requests is busy, what is lost is still closed."""
    free = threading.Event()
    front = served.front
    done = [front._threads.submit(free.wait, 20) for _ in range(16)]
    try:
        assert front._housekeeper.submit(served.plane.others_version).result(10) >= 0
    finally:
        free.set()
    assert all(one.result(20) for one in done)
