"""Routes for runners: enrolment, claims that wait, and what happens to who leaves meanwhile."""

import socket
import threading
import time
from typing import Any

import msgspec
import pytest

from tests.unit.doors.http.conftest import Serve
from tests.unit.doors.http.served import REQUEST, Json, Served
from tipstaff.doors.http import front
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.local.serving import open_serving, plane_policy

LONG = 20.0


class Waiting:
    """A claim that waits in a thread of its own."""

    def __init__(self, served: Served, token: str, **more: Any) -> None:
        self.told: Json = {}
        self.ended = 0.0
        self._thread = threading.Thread(target=self._claim, args=(served, token, more))
        self._thread.start()

    def _claim(self, served: Served, token: str, more: Json) -> None:
        self.told = served.claim(token, **{"waitMs": 15_000, **more})
        self.ended = time.monotonic()

    def join(self) -> Json:
        """Wait for the answer."""
        self._thread.join(LONG)
        assert not self._thread.is_alive()
        return self.told


def test_a_runner_enrols_once_with_its_token(served):
    """A token enrols one runner; used again by another, or made up, it is 401; for another pool it is 403."""
    token = served.ask("POST", "/v1/enroll-tokens", "enroller", json={"pool": "build"}).json()["token"]

    def enroll(token: str, pool: str = "build") -> Any:
        pem = PrivateKey.generate().public.pem
        return served.http.post("/v1/runners/enroll", json={"enrollToken": token, "publicKeyPem": pem, "pool": pool})

    other = enroll(token, "other")
    assert (other.status_code, other.json()["code"]) == (403, "other_pool")
    good = enroll(token)
    assert good.status_code == 200
    assert set(good.json()) == {"runnerId", "runnerToken", "pool", "planePublicKeyPem", "planeKeyId"}
    assert good.json()["planeKeyId"] == served.http.get("/v1/keys").json()["keys"][0]["keyId"]
    for wrong in (token, "enr_made_up"):
        reply = enroll(wrong)
        assert (reply.status_code, reply.json()["code"]) == (401, "enroll_token")


def test_an_enrolment_token_needs_no_body(served):
    """An empty body makes a token for any pool; a wrong one is 400."""
    assert set(served.ask("POST", "/v1/enroll-tokens").json()) == {"token", "expiresAt"}
    assert served.ask("POST", "/v1/enroll-tokens", json={"expiresSeconds": "1h"}).status_code == 400
    assert served.ask("POST", "/v1/enroll-tokens", json={"expiresSeconds": 0}).status_code == 400


def test_a_claim_without_waiting_is_answered_at_once(served):
    """Where nothing is queued and no wait is asked for, the answer is empty and immediate."""
    token = served.enroll("idle")
    started = time.monotonic()
    assert served.claim(token)["empty"] is True
    assert time.monotonic() - started < 2


def test_a_claim_waits_as_long_as_it_says_and_no_longer(served):
    """An empty queue is waited at for the time that the runner names."""
    token = served.enroll("idle")
    started = time.monotonic()
    assert served.claim(token, waitMs=600)["empty"] is True
    assert 0.5 < time.monotonic() - started < 5


@pytest.mark.parametrize("wait", [True, -1, "long", 1.5, None])
def test_an_odd_wait_is_no_wait(served, wait):
    """What is no whole number of milliseconds is not waited for."""
    token = served.enroll("idle")
    started = time.monotonic()
    assert served.claim(token, waitMs=wait)["empty"] is True
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("named", [True, False])
def test_a_run_wakes_the_claim_that_waits_for_it(serve: Serve, named):
    """A waiting runner gets a run as soon as it is queued, whether or not it names its pool."""
    with serve() as served:
        token = served.enroll("default")
        waiting = Waiting(served, token, **({"pool": "default"} if named else {}))
        time.sleep(0.3)
        run = served.submit()
        queued = time.monotonic()
        assert waiting.join()["runId"] == run["runId"]
        assert waiting.ended - queued < 4  # the look without a ring comes only every five seconds


def test_an_approval_wakes_the_claim_that_waits_for_it(serve: Serve):
    """A run that waited for people is claimed as soon as they say yes."""
    with serve() as served:
        waiting = Waiting(served, served.enroll("deploy"), pool="deploy")
        run = served.submit(pool="deploy")
        assert run["status"] == "awaiting_approval"
        assert served.ask("POST", f"/v1/runs/{run['runId']}/approve", "approver").status_code == 200
        assert waiting.join()["runId"] == run["runId"]


def test_a_run_is_not_given_to_a_runner_that_has_left(serve: Serve):
    """A claim whose connection is closed takes nothing: the next runner gets the run."""
    with serve() as served:
        token = served.enroll()
        host, port = served.url.removeprefix("http://").split(":")
        wish = {"runnerToken": token, "tiers": ["bwrap"], "waitMs": 15000}
        body = msgspec.json.encode(wish)
        with socket.create_connection((host, int(port)), timeout=LONG) as connection:
            connection.sendall(b"POST /v1/claims HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.4)
        time.sleep(0.3)
        run = served.submit()["runId"]
        time.sleep(0.3)
        assert served.claim(token)["runId"] == run


def test_what_another_process_writes_is_noticed(serve: Serve, tmp_path):
    """A run that is queued through the plane's home, past this server, wakes who waits for it too."""
    with serve() as served:
        waiting = Waiting(served, served.enroll())
        time.sleep(0.3)
        home = Home(tmp_path / "home")
        with open_serving(home, plane_policy(home)) as other:
            caller = other.caller(served.tokens["requester"])
            assert caller is not None
            caller.submit(REQUEST)
        queued = time.monotonic()
        assert waiting.join()["runId"]
        assert waiting.ended - queued < 4  # the look without a ring comes only every five seconds


def test_a_runner_that_waits_too_often_is_refused(serve: Serve, monkeypatch):
    """One runner has only so many seats to wait in; another has its own."""
    monkeypatch.setattr(front, "SEATS", 1)
    with serve() as served:
        token = served.enroll("idle")
        waiting = Waiting(served, token, waitMs=3000)
        time.sleep(0.3)
        reply = served.http.post("/v1/claims", json={"runnerToken": token, "waitMs": 3000})
        assert (reply.status_code, reply.json()["code"]) == (429, "rate")
        assert served.claim(served.enroll("idle"), waitMs=100)["empty"] is True
        assert waiting.join()["empty"] is True
        assert served.claim(token, waitMs=100)["empty"] is True


def test_a_plane_that_stops_lets_nobody_wait(serve: Serve):
    """Waiting claims are answered when the plane ends, long before their time."""
    with serve() as served:
        waiting = Waiting(served, served.enroll("idle"))
        time.sleep(0.3)
        stopped = time.monotonic()
    assert waiting.join()["empty"] is True
    assert time.monotonic() - stopped < 8


def test_a_draining_runner_does_not_wait(served):
    """A runner that drains is told so at once, and is given runs again when it does not."""
    token = served.enroll("drained")
    assert served.http.post("/v1/runners/drain", json={"runnerToken": token, "drain": True}).json()["drain"] is True
    started = time.monotonic()
    told = served.claim(token, waitMs=10_000)
    assert (told["empty"], told["drain"]) == (True, True)
    assert time.monotonic() - started < 5
    served.http.post("/v1/runners/drain", json={"runnerToken": token, "drain": False})
    assert "drain" not in served.claim(token)


def test_a_runner_that_vanishes_is_noticed(serve: Serve):
    """A run whose lease is over is given to the next runner, by the plane's own housekeeping."""
    with serve(lease_seconds=2) as served:
        run = served.submit()["runId"]
        assert served.claim(served.enroll())["attempt"] == 1
        told = served.claim(served.enroll(), waitMs=15_000)
        assert (told["runId"], told["attempt"]) == (run, 2)


def test_the_steps_of_a_run_go_through(served):
    """Renewal, live output and a wrong token's refusal pass the door as the plane says them."""
    run = served.submit()["runId"]
    claim = served.claim(served.enroll())
    assert claim["runId"] == run
    path = f"/v1/runs/{run}"
    renewed = served.http.post(f"{path}/renew", json={"claimToken": claim["claimToken"]})
    assert renewed.status_code == 200
    token = renewed.json()["claimToken"]
    said = {"claimToken": token, "stream": "stdout", "offset": 0, "data": "aGk="}
    assert served.http.post(f"{path}/log", json=said).json()["ok"] is True
    assert served.http.post(f"{path}/events", json={"claimToken": token, "events": []}).json()["ok"] is True
    assert served.http.post(f"{path}/complete", json={"claimToken": "wrong", "receipt": {}}).status_code == 401
    stale = served.http.post(f"{path}/events", json={"claimToken": claim["claimToken"], "events": []})
    assert (stale.status_code, stale.json()["code"]) == (409, "claim_stale")
    assert served.ask("POST", f"{path}/cancel", "requester").status_code == 200
    cancelled = served.http.post(f"{path}/renew", json={"claimToken": token}).json()
    assert cancelled["cancel"]["id"] == "requester"


def test_runners_are_listed_drained_and_revoked(served):
    """An admin sees runners, gives them no more runs, and takes nothing more from them."""
    token = served.enroll("listed")
    runner = next(one for one in served.ask("GET", "/v1/runners").json()["runners"] if one["pool"] == "listed")
    path = f"/v1/runners/{runner['runnerId']}"
    assert served.ask("POST", f"{path}/drain", json={"drain": True}).json()["drain"] is True
    assert served.ask("POST", f"{path}/drain", json={"drain": "yes"}).status_code == 400
    assert served.claim(token)["drain"] is True
    assert served.ask("DELETE", path).status_code == 200
    assert served.http.post("/v1/claims", json={"runnerToken": token}).status_code == 401
    assert served.ask("DELETE", path).status_code == 404
