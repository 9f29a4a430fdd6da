"""The edge: what holds for every request, also for one that no route knows."""

import contextlib
import io
import logging
import re
import socket
import time

import msgspec
import pytest

from tests.unit.doors.http.conftest import Serve
from tests.unit.doors.http.served import Served
from tipstaff.doors.http import edge, logbook, protocol
from tipstaff.doors.http.settings import Limits
from tipstaff.plane import Plane

MADE = re.compile(r"[0-9a-f]{16}\Z")


def raw(served: Served, data: bytes, seconds: float = 20) -> bytes:
    """Send bytes, and read until the plane closes."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("path", ["/v1/health", "/v1/runs", "/nowhere", "/v1/runs/run_x/../.."])
def test_every_reply_carries_the_id_of_its_request(served, path):
    """A request's own id comes back, whatever became of it."""
    assert served.ask("GET", path, headers={"x-request-id": "my-id.1_2"}).headers["x-request-id"] == "my-id.1_2"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "<script>", "a;b"])
def test_an_odd_id_is_replaced(served, given):
    """An id that is not one is not repeated."""
    reply = served.ask("GET", "/v1/health", headers={"x-request-id": given})
    assert MADE.match(reply.headers["x-request-id"])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/nowhere", 404, "not_found"), ("GET", "/", 404, "not_found"), ("PUT", "/v1/runs", 405, "method"),
     ("GET", "/v1/claims", 405, "method"), ("POST", "/v1/runs/x/nothing", 404, "not_found"),
     ("GET", "/v1/runs/x/output/stdin", 404, "not_found"), ("GET", "/v1/blobs/abc", 404, "not_found")],
)  # fmt: skip
def test_what_no_route_knows_is_json_too(served, method, path, status, code):
    """An unknown path or method is an error in our shape."""
    reply = served.ask(method, path)
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert (status != 405) or "GET" in reply.headers["allow"] or "POST" in reply.headers["allow"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"request":1,"request":2}', b"\xff", b'{"request":NaN}'])
def test_a_malformed_body_says_what_is_wrong(served, body):
    """What is no JSON object is 400 with issues; one that is, is taken."""
    reply = served.ask("POST", "/v1/runs", content=body)
    assert reply.status_code == 400, reply.text
    assert reply.json()["issues"]
    assert served.ask("POST", "/v1/runs", json={"request": {"prompt": "true"}}).status_code == 200


def test_a_second_authorization_header_is_refused(served):
    """Two proofs of identity are none: which one counts must not depend on who reads; one is taken."""
    token = served.tokens["admin"]
    two = [("authorization", f"Bearer {token}"), ("authorization", "Bearer other")]
    assert served.http.get("/v1/runs", headers=two).status_code == 400
    assert served.http.get("/v1/runs", headers=two[::-1]).status_code == 400
    assert served.http.get("/v1/runs", headers=two[:1]).status_code == 200


@pytest.mark.parametrize("form", ["{}", "Basic {}", "Bearer", "Bearer {} x", "Bearer {},x", "bearer\t{}", "Bearer: {}"])
def test_only_a_bearer_counts(served, form):
    """A header that is not exactly `Bearer TOKEN` proves nobody; the scheme's case does not matter."""
    token = served.tokens["admin"]
    reply = served.http.get("/v1/runs", headers={"authorization": form.format(token)})
    assert reply.status_code == 401, reply.text
    assert reply.headers["www-authenticate"] == "Bearer"
    assert served.http.get("/v1/runs", headers={"authorization": f"bEaReR {token}"}).status_code == 200


def test_a_body_over_the_cap_is_413_and_one_below_is_read(served):
    """A body that is announced or found to be too long is refused before it is read whole."""
    for path, most in (("/v1/claims", 1024**2), ("/v1/runs/run_x/events", 64 * 1024**2)):
        reply = raw(served, b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (path.encode(), most + 1))
        assert reply.startswith(b"HTTP/1.1 413 "), reply
        assert b'"code":"too_large"' in reply
    token = {"authorization": f"Bearer {served.enroll()}"}
    assert served.http.post("/v1/claims", content=b" " * 1024**2, headers=token).status_code == 400
    assert served.http.post("/v1/runs/run_x/events", content=b" " * 2 * 1024**2, headers=token).status_code == 400


@pytest.mark.parametrize(
    "data",
    [
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/claims HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n",
        b"GET /v1/health HTTP/1.1\nhost: x\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\nx: " + b"a" * protocol.MOST_HEAD_BYTES + b"\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: x\r\n" + b"x: a\r\n" * (protocol.MOST_HEADERS + 1) + b"\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(served, data):
    """Ambiguous or excessive heads end the connection with 400, and the plane serves on."""
    reply = raw(served, data)
    assert reply.startswith(b"HTTP/1.1 400 "), reply
    assert reply.count(b"HTTP/1.1") == 1
    assert b'"error"' in reply
    assert served.ask("GET", "/v1/health").status_code == 200


def test_a_connection_that_says_nothing_is_closed(served, monkeypatch):
    """A head that does not come, or trickles, is not waited for."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    assert raw(served, b"") == b""
    assert raw(served, b"GET /v1/health HTTP/1.1\r\nhost:") == b""


def test_a_body_that_does_not_come_is_not_waited_for(served, monkeypatch):
    """A body that stops half-way is 408, and the connection ends."""
    monkeypatch.setattr(edge, "BODY_SECONDS", 0.2)
    reply = raw(served, b"POST /v1/claims HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
    assert reply.startswith(b"HTTP/1.1 408 "), reply


@pytest.mark.parametrize(("bytes_per_second", "status"), [(1_000_000, b"408"), (1, b"400")])
def test_a_body_has_to_come_at_a_rate(served, monkeypatch, bytes_per_second, status):
    """A body that trickles is 408 however often a byte comes; one that comes fast enough is read."""
    monkeypatch.setattr(edge, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(edge, "BODY_BYTES_PER_SECOND", bytes_per_second)
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"POST /v1/claims HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(12):
                time.sleep(0.1)
                connection.sendall(b"x")
        reply = connection.recv(65536)
    assert reply.startswith(b"HTTP/1.1 %s " % status), reply


def test_a_fault_of_ours_is_told_by_its_id_alone(served, monkeypatch, caplog):
    """An unexpected error is 500 with the request's id; the log has the traceback, the reply nothing of it."""
    monkeypatch.setattr(Plane, "ready", lambda _self: 1 / 0)
    with caplog.at_level(logging.ERROR, "tipstaff.http"):
        reply = served.ask("GET", "/v1/ready", headers={"x-request-id": "the-one"})
    assert (reply.status_code, reply.json()) == (
        500,
        {"error": "internal error", "code": "internal", "requestId": "the-one"},
    )
    found = [record for record in caplog.records if isinstance(record.msg, dict) and record.msg["event"] == "fault"]
    assert found[0].msg["requestId"] == "the-one"
    assert found[0].exc_info


def test_the_log_has_a_line_for_each_request_and_no_token(served):
    """Each request leaves method, path template, status, time, who and id; never a token, a query or a body."""
    written = io.StringIO()
    lines = logging.StreamHandler(written)
    lines.setFormatter(logbook.JsonLines())
    logbook.LOGGER.addHandler(lines)
    logbook.LOGGER.setLevel(logging.INFO)
    try:
        run = served.submit()["runId"]
        served.ask("GET", f"/v1/runs/{run}?token={served.tokens['admin']}", headers={"x-request-id": "look"})
        runner = served.enroll()
        served.claim(runner)
        logbook.LOGGER.warning("a message with %s in it", f"Bearer {served.tokens['admin']}")
        time.sleep(0.05)
    finally:
        logbook.LOGGER.removeHandler(lines)
    text = written.getvalue()
    told = [msgspec.json.decode(line) for line in text.splitlines()]
    look = next(one for one in told if one.get("requestId") == "look")
    assert (look["method"], look["path"], look["status"], look["who"]) == ("GET", "/v1/runs/{runId}", 200, "admin")
    assert look["run"] == run
    assert look["ms"] >= 0
    assert next(one for one in told if one.get("path") == "/v1/claims")["who"].startswith("rnr_")
    for secret in (*served.tokens.values(), runner):
        assert secret not in text
    assert "[token]" in text


def test_wrong_tokens_make_an_address_wait(serve: Serve):
    """After so many wrong tokens the next is 429 with when to come back; a wrong role counts nothing."""
    with serve(limits=Limits(failures=3)) as served:
        for _ in range(10):
            assert served.ask("GET", "/v1/principals", "requester").status_code == 403
        for _ in range(3):
            assert served.http.get("/v1/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
        reply = served.http.get("/v1/runs", headers={"authorization": "Bearer wrong"})
        assert (reply.status_code, reply.json()["code"]) == (429, "rate")
        assert 1 <= int(reply.headers["retry-after"]) <= 61
        assert served.http.post("/v1/claims", json={"runnerToken": "wrong"}).status_code == 429
        assert served.ask("GET", "/v1/runs", "requester").status_code == 200


def test_wrong_tokens_of_runners_count_too(serve: Serve):
    """A runner's token that is none is counted like a principal's; no token at all is not a guess."""
    with serve(limits=Limits(failures=3)) as served:
        for _ in range(5):
            assert served.ask("GET", "/v1/runs", None).status_code == 401
        for path in ("/v1/claims", "/v1/runners/enroll", "/v1/runs/run_x/events"):
            body = {"runnerToken": "x", "enrollToken": "x", "publicKeyPem": "x", "pool": "x", "claimToken": "x"}
            assert served.http.post(path, json=body).status_code == 401
        assert served.http.post("/v1/claims", json={"runnerToken": "x"}).status_code == 429


def test_a_principal_that_asks_too_often_waits_and_others_do_not(serve: Serve):
    """The rate of one token is bounded; another's is its own."""
    with serve(limits=Limits(principal_per_second=1, principal_burst=3)) as served:
        statuses = [served.ask("GET", "/v1/runs", "requester").status_code for _ in range(5)]
        assert statuses[:3] == [200, 200, 200]
        assert 429 in statuses[3:]
        assert served.ask("GET", "/v1/runs", "auditor").status_code == 200


def test_a_runner_that_asks_too_often_waits_and_others_do_not(serve: Serve):
    """The rate of one runner is bounded; another's is its own."""
    with serve(limits=Limits(runner_per_second=1, runner_burst=3)) as served:
        first, second = served.enroll(), served.enroll()
        statuses = [served.http.post("/v1/claims", json={"runnerToken": first}).status_code for _ in range(5)]
        assert statuses[:3] == [200, 200, 200]
        assert 429 in statuses[3:]
        assert served.http.post("/v1/claims", json={"runnerToken": second}).status_code == 200


def test_a_client_that_does_not_read_is_not_waited_for(served, monkeypatch):
    """An answer that nobody takes ends, and what it held is let go."""
    monkeypatch.setattr(edge, "SEND_SECONDS", 0.3)
    content = b"x" * 30_000_000
    digest = served.ask("POST", "/v1/blobs", content=content).json()["hash"]
    host, port = served.url.removeprefix("http://").split(":")
    head = f"GET /v1/blobs/{digest} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {served.tokens['admin']}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode())
        time.sleep(1.5)
        got = 0
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1 << 20):
                got += len(part)
    assert got < len(content)
    assert served.ask("GET", f"/v1/blobs/{digest}").content == content


def test_an_address_that_asks_too_often_waits(serve: Serve):
    """The rate of one address is bounded, whoever it says it is, and also for runners."""
    with serve(limits=Limits(address_per_second=1, address_burst=5)) as served:
        statuses = [served.http.post("/v1/claims", json={}).status_code for _ in range(8)]
        assert 429 in statuses
        assert statuses[0] == 401


@pytest.mark.parametrize("trusted", [True, False])
def test_a_proxy_is_believed_only_where_the_settings_name_it(serve: Serve, trusted):
    """X-Forwarded-For separates addresses behind a trusted proxy, and is ignored from anybody else."""
    with serve(limits=Limits(failures=2), trusted_proxy="127.0.0.1" if trusted else "127.0.0.2") as served:

        def guess(address: str) -> int:
            headers = {"authorization": "Bearer wrong", "x-forwarded-for": f"10.0.0.9, {address}"}
            return served.http.get("/v1/runs", headers=headers).status_code

        assert [guess("10.0.0.1") for _ in range(3)] == [401, 401, 429]
        assert guess("10.0.0.2") == (401 if trusted else 429)
        assert guess("not an address") == (401 if trusted else 429)


def test_a_network_of_version_six_counts_as_one(serve: Serve):
    """Another address of the same /64 is no new start; one of another network is."""
    with serve(limits=Limits(failures=2), trusted_proxy="127.0.0.1") as served:

        def guess(address: str) -> int:
            headers = {"authorization": "Bearer wrong", "x-forwarded-for": address}
            return int(served.http.get("/v1/runs", headers=headers).status_code)

        assert [guess(f"2001:db8::{number}") for number in range(1, 4)] == [401, 401, 429]
        assert guess("2001:db8:0:1::1") == 401
