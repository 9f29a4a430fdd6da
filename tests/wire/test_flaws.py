"""Faults 8 to 24 of the systems that this one replaces, one by one, on real processes.

(10, 13, 16, 18, 22 and some of 12 and 23 are in test_hostile_runner, test_hostile_plane and test_hostile_requester.)
"""

import http.client
import json
import signal
import stat
import time
from urllib.parse import urlsplit

import pytest

from tests.processes import running
from tests.wire.old_words import OldKey, problems
from tests.wire.stage import POLICY, READY, Stage
from tests.wire.talking import talk
from tests.wire.test_cut import wait_for
from tipstaff.evidence import verify

LEASE_SECONDS = 3


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """A plane with a short lease and a runner at work, which the tests below share without harming them."""
    policy = POLICY.replace(
        "pools:",
        "  - {id: soon, effect: ask, when: {principals: [hasty]}, approvals: {approvers: [alice], expires: 3s}}\n"
        "  - {id: seen, effect: ask, when: {principals: [careful]}, approvals: {approvers: [alice]}}\npools:",
    )
    with Stage(tmp_path_factory.mktemp("working")) as made:
        made.init_plane(policy=policy, lease_seconds=LEASE_SECONDS).start_plane()
        made.start_runner("one", "--concurrency", "4")
        yield made


def number():
    """A number that no other test sleeps for."""
    return f"211.{time.monotonic_ns()}"


def test_flaw_8_a_dead_runners_run_ends_within_a_lease(stage):
    """A runner that is killed mid-run leaves a run that is lost, with a receipt, within its lease and a little more."""
    stage.init_plane(lease_seconds=LEASE_SECONDS).start_plane()
    runner = stage.start_runner("one")
    mark = number()
    run_id = stage.submit(f"sleep {mark}")
    wait_for(lambda: running(f"sleep {mark}"), 30)

    runner.kill()
    said = stage.until(run_id, seconds=LEASE_SECONDS + 6)

    assert said["receipt"]["ending"] == "lost"
    assert verify(stage.bundle(run_id), [stage.plane_key().read_text()]).verdict == "valid"
    wait_for(lambda: not running(f"sleep {mark}"), 10)


def test_flaw_8_a_runner_that_starts_again_in_time_tells_what_it_knows(stage):
    """A runner that was killed and starts again within the lease ends its run with a receipt of its own."""
    stage.init_plane(lease_seconds=30).start_plane()
    runner = stage.start_runner("one")
    mark = number()
    run_id = stage.submit(f"sleep {mark}")
    wait_for(lambda: running(f"sleep {mark}"), 30)

    runner.kill()
    stage.start_runner("one")
    said = stage.until(run_id, seconds=25)

    assert (said["status"], said["events"][-1]["event"]["failure"]) == ("failed", "session_failed")
    assert problems(stage.bundle(run_id)) == []


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({"execution": {"kind": "agent", "agent": {"kind": "pi"}, "prompt": "x"}}, "capability_mismatch"),
        ({"execution": {"kind": "shell", "script": "true", "cwd": "../../etc"}}, None),
    ],
)
def test_flaw_8_what_cannot_be_done_is_told(working, fields, failure):
    """A run that this runner cannot carry out ends at once with a receipt and the name of the reason."""
    reply = working.ask("POST", "/v1/runs", {"request": {"requestedBy": {"kind": "human", "id": "x"}, **fields}})
    if failure is None and reply.status != 200:
        assert 400 <= reply.status < 500
        return

    said = working.until(reply.json["runId"], seconds=20)

    assert said["status"] == "failed"
    assert failure is None or said["events"][-1]["event"]["failure"] == failure
    assert said["receipt"]["runner"]["runnerId"].startswith("rnr_")


def test_flaw_9_a_run_may_take_longer_than_its_lease(working):
    """A run of several leases' length is renewed meanwhile and completes."""
    run_id = working.submit(f"sleep {LEASE_SECONDS * 2.5}; echo long")

    assert working.until(run_id, seconds=60)["status"] == "completed"
    assert problems(working.bundle(run_id)) == []


def test_flaw_11_a_missing_secret_ends_the_run_and_no_release_is_told(working):
    """A secret that is not there is a refusal; the chain tells of no release, and nobody got the run."""
    run_id = working.submit("true", secretNames=["NEVER_SET"])

    said = working.until(run_id, seconds=20)

    kinds = [link["event"]["type"] for link in said["events"]]
    assert said["status"] == "failed"
    assert "secret.released" not in kinds
    assert "run.claimed" not in kinds
    assert said["events"][-1]["event"]["failure"] == "secret_release_denied"
    assert said["refusal"]["signatures"]


def test_flaw_12_a_run_at_work_can_be_cancelled(working):
    """A cancelled run's whole tree is dead within a lease, and the receipt says who cancelled it."""
    mark = number()
    run_id = working.submit(f"sleep {mark} & sleep {mark}; wait")
    wait_for(lambda: running(f"sleep {mark}"), 30)

    reply = working.ask("POST", f"/v1/runs/{run_id}/cancel", {})
    said = working.until(run_id, seconds=LEASE_SECONDS + 10)

    assert reply.status == 200
    assert (said["status"], said["receipt"]["ending"]) == ("cancelled", "cancelled")
    assert said["events"][-1]["event"]["actor"]["id"] == "admin"
    wait_for(lambda: not running(f"sleep {mark}"), 5)


def test_flaw_12_a_contract_that_expired_is_never_given_out(stage):
    """A run that nobody claimed before its contract expired is refused with evidence, and no runner gets it."""
    short = f"{POLICY}contract: {{life: 2s}}\n"
    stage.init_plane(policy=short).start_plane()
    run_id = stage.submit("true")
    time.sleep(2.2)

    stage.start_runner("one")
    said = stage.until(run_id, seconds=20)

    assert "receipt" not in said
    assert said["refusal"]["signatures"]
    assert "run.claimed" not in [link["event"]["type"] for link in said["events"]]


def test_flaw_14_events_and_output_come_while_it_runs(working):
    """A follower sees output and events of a run long before it ends, in order."""
    mark = number()
    run_id = working.submit(f"echo first; sleep 4; echo {mark}")
    working.until(run_id, "running", seconds=30)
    began = time.monotonic()

    text = followed(working, run_id, until='"stdout"')
    early = time.monotonic() - began
    whole = followed(working, run_id, until="event: end")

    assert early < 3
    assert "event: output" in text
    assert whole.index("event: link") < whole.index("event: end")
    assert working.seen(run_id)["status"] == "completed"


def followed(stage, run_id, until):
    """Read the stream of a run until a text has come."""
    where = urlsplit(stage.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=20)
    connection.request("GET", f"/v1/runs/{run_id}/follow", headers={"Authorization": f"Bearer {stage.admin}"})
    answer = connection.getresponse()
    assert answer.status == 200
    text = ""
    while until not in text:
        piece = answer.read1(65_536)
        if not piece:
            break
        text += piece.decode()
    connection.close()
    return text


def test_flaw_15_an_approval_that_nobody_gives_runs_out(working):
    """A waiting run ends as consent_timeout with a refusal when its time for approval is over."""
    run_id = working.submit("true", working.token("hasty"))
    assert working.seen(run_id)["status"] == "awaiting_approval"

    said = working.until(run_id, seconds=20)

    assert said["events"][-1]["event"]["failure"] == "consent_timeout"
    assert said["refusal"]["signatures"]


def test_flaw_15_an_approver_can_say_no(working):
    """A denied run never becomes claimable, and its refusal is signed."""
    run_id = working.submit("true", working.token("careful"))

    reply = working.ask("POST", f"/v1/runs/{run_id}/deny", {"reason": "no"}, working.token("alice", "approver"))
    said = working.seen(run_id)

    assert reply.status == 200, reply
    assert said["status"] == "failed"
    assert said["refusal"]["signatures"]


def test_flaw_17_a_bundles_own_keys_prove_nothing(working):
    """A bundle is valid under the plane's published key, and proves nothing under another or under none."""
    run_id = working.submit("true")
    working.until(run_id)
    path = working.folder / "proof.json"
    path.write_text(json.dumps(working.bundle(run_id)))
    other = working.folder / "other.pem"
    other.write_text(OldKey().pem)
    key = working.plane_key()

    codes = [working.call("verify", path, "--key", one, code=None).returncode for one in (key, other)]
    alone = working.call("verify", path, code=None, TIPSTAFF_HOME=str(working.folder / "nobody")).returncode

    assert (codes, alone) == ([0, 2], 2)


def test_flaw_19_a_run_sees_nothing_of_its_runner(working):
    """The runner's key, token and spool cannot be found from inside, and its folder is closed to others."""
    data = working.data("one")
    script = f"ls -la {data} 2>&1; cat {data}/identity.json {data}/runner.key.pem 2>&1; env; ls /proc"
    run_id = working.submit(script)
    working.until(run_id)

    seen = working.ask("GET", f"/v1/runs/{run_id}/output/stdout").body.decode()
    token = json.loads((data / "identity.json").read_text())["runnerToken"]

    assert "No such file" in seen
    assert token not in seen
    assert "PRIVATE KEY" not in seen
    assert "TIPSTAFF" not in seen
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in data.glob("*.pem")} <= {0o600}
    assert stat.S_IMODE((data / "identity.json").stat().st_mode) == 0o600


def test_flaw_20_tokens_are_no_signatures(working):
    """Claim and runner tokens are not made with the contract's key: nothing of them verifies under it."""
    token = json.loads((working.data("one") / "identity.json").read_text())["runnerToken"]

    assert talk(working.url, "GET", "/v1/runs", token=token).status == 401
    assert talk(working.url, "POST", "/v1/claims", {"runnerToken": working.admin, "pool": "default"}).status == 401


@pytest.mark.parametrize(
    ("script", "fields", "told"),
    [
        ("exit 7", {}, ("exited", 7, "session_failed")),
        ("kill -KILL $$", {}, ("signalled", 137, "session_failed")),
        ("sleep 60", {"timeoutMs": 700}, ("timed-out", 124, "budget_exceeded")),
        ("yes | head -c 3000000", {"log": {"maxBytes": 100_000}}, ("output-limit", 141, "budget_exceeded")),
    ],
)
def test_flaw_21_every_ending_has_its_name(working, script, fields, told):
    """Exit, signal, timeout and too much output are told apart, by name and by exit code."""
    request = {"requestedBy": {"kind": "human", "id": "x"}, "execution": {"kind": "shell", "script": script, **fields}}
    run_id = working.ask("POST", "/v1/runs", {"request": request}).json["runId"]

    said = working.until(run_id, seconds=30)

    receipt = said["receipt"]
    assert (receipt["ending"], receipt["exitCode"], said["events"][-1]["event"]["failure"]) == told
    assert receipt["executionStartedAt"] >= receipt["startedAt"]


def test_flaw_23_guesses_are_slowed_and_others_are_not(stage):
    """Many wrong tokens from one address are 429 with Retry-After after a while; wrong roles never are."""
    stage.init_plane().start_plane()
    auditor = stage.token("auditor", "auditor")

    roles = {stage.ask("POST", "/v1/enroll-tokens", token=auditor).status for _ in range(60)}
    guesses = [talk(stage.url, "GET", "/v1/runs", token=f"guess-{number}") for number in range(300)]

    assert roles == {403}
    assert {reply.status for reply in guesses} == {401, 429}
    assert int(next(reply for reply in guesses if reply.status == 429).headers["retry-after"]) >= 1


def test_flaw_24_a_runner_needs_nothing_of_the_planes_home(stage):
    """A runner works with the plane's home out of its reach, and its own folder holds no secret of the plane's."""
    stage.init_plane(secrets={"MOCK_SECRET": "hunter2-hunter2-hunter2"}).start_plane()
    stage.start_runner("one", TIPSTAFF_HOME=str(stage.folder / "nothing"))
    run_id = stage.submit("echo $MOCK_SECRET", secretNames=["MOCK_SECRET"])

    said = stage.until(run_id)

    assert said["status"] == "completed"
    kept = [path for path in stage.data("one").rglob("*") if path.is_file()]
    assert not any(b"hunter2" in path.read_bytes() for path in kept)
    assert stage.ask("GET", f"/v1/runs/{run_id}/output/stdout").body == b"[REDACTED:MOCK_SECRET]\n"
    assert "hunter2" not in stage.runners["one"].text + stage.plane.text


def test_a_runner_finishes_what_it_has_when_it_is_asked_to_stop(stage):
    """SIGTERM lets the run at work end and be told, claims nothing more, and ends with 0."""
    stage.init_plane().start_plane()
    runner = stage.start_runner("one")
    mark = f"3.{time.monotonic_ns()}"
    run_id = stage.submit(f"sleep {mark}; echo done")
    wait_for(lambda: running(f"sleep {mark}"), 30)

    runner.process.send_signal(signal.SIGTERM)
    later = stage.submit("true")

    assert runner.process.wait(20) == 0
    assert stage.seen(run_id)["status"] == "completed"
    assert stage.seen(later)["status"] == "created"


def test_a_plane_that_is_asked_to_stop_does_so_while_runners_wait(stage):
    """SIGTERM ends a plane promptly with long polls open; the runner finds it again after its restart."""
    stage.init_plane().start_plane()
    stage.start_runner("one")
    time.sleep(1)

    began = time.monotonic()
    assert stage.plane.stop() == 0
    passed = time.monotonic() - began
    stage.start_plane()

    assert passed < 8
    assert stage.until(stage.submit("echo back"), seconds=60)["status"] == "completed"


def test_a_drained_runner_gets_nothing_until_it_is_wanted_again(stage):
    """A runner that the plane drains claims nothing; undrained it does."""
    stage.init_plane().start_plane()
    ready = stage.start_runner("one")
    runner_id = ready.heard(READY)[1]

    assert stage.ask("POST", f"/v1/runners/{runner_id}/drain", {"drain": True}).status == 200
    run_id = stage.submit("true")
    time.sleep(2)
    before = stage.seen(run_id)["status"]
    assert stage.ask("POST", f"/v1/runners/{runner_id}/drain", {"drain": False}).status == 200

    assert before == "created"
    assert not ready.alive or stage.until(run_id, seconds=60)["status"] == "completed"
