"""A plane in daily use: TLS, approvals, changes of policy and of people, large things, several runners."""

import hashlib
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.repositories import grow
from tests.processes import running
from tests.wire.certificates import certified
from tests.wire.old_peer import OldClient
from tests.wire.old_words import OldKey
from tests.wire.stage import POLICY, READY, Stage
from tests.wire.talking import talk
from tests.wire.test_cut import wait_for
from tests.wire.test_flaws import followed
from tipstaff.evidence import verify

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - nobody's
ASKING = POLICY.replace(
    "pools:",
    "  - {id: seen, effect: ask, when: {principals: [careful]}, approvals: {approvers: [alice]}}\npools:",
)


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """A plane and a runner that the tests below share without harming them."""
    with Stage(tmp_path_factory.mktemp("everyday")) as made:
        made.init_plane(policy=ASKING, secrets={"MOCK_SECRET": SECRET}, lease_seconds=5).start_plane()
        made.start_runner("one", "--concurrency", "4")
        yield made


def as_(stage, name, role="requester"):
    """The variables of somebody at the command line."""
    return {"TIPSTAFF_PLANE": stage.url, "TIPSTAFF_TOKEN": stage.token(name, role)}


def test_tls_from_end_to_end(stage):
    """Over TLS runner and client work with the authority's certificate, and refuse the plane without it."""
    files = certified(stage.folder)
    stage.init_plane()
    stage.start_plane("--tls-cert", str(files.certificate), "--tls-key", str(files.key))
    told = {"TIPSTAFF_PLANE": stage.url, "TIPSTAFF_TOKEN": stage.token("anna")}
    token = stage.enroll_token()
    runner = stage.start_runner("one", "--ca", str(files.authority), TIPSTAFF_ENROLL_TOKEN=token)

    allowed = stage.call("run", "--", "echo", "hello", TIPSTAFF_CA_FILE=str(files.authority), **told)
    refused = stage.call("run", "--", "echo", "hello", code=None, **told)

    assert stage.url.startswith("https://")
    assert allowed.stdout == b"hello\n"
    assert (refused.returncode != 0, refused.stdout) == (True, b"")
    assert b"Traceback" not in refused.stderr
    assert told["TIPSTAFF_TOKEN"].encode() not in refused.stderr
    assert runner.stop() == 0


@pytest.mark.parametrize("words", [["runner", "enroll"], ["history"], ["run"]])
def test_tokens_do_not_go_in_the_clear(stage, words):
    """A plane of another machine without TLS is refused before anything is sent, with the way to insist."""
    url = "http://192.0.2.1:7172"  # of nobody: an address for documents
    began = time.monotonic()

    command = ["--", "true"] if words == ["run"] else []
    tokens = dict.fromkeys(("TIPSTAFF_TOKEN", "TIPSTAFF_ENROLL_TOKEN"), "of-nobody")
    ended = stage.call(*words, "--plane", url, *command, code=None, **tokens)
    took_seconds = time.monotonic() - began

    assert ended.returncode != 0
    assert b"--plain-http" in ended.stderr
    assert took_seconds < 15


def test_an_idle_runner_begins_at_once(working):
    """A run that comes while a runner waits is at work within a second or two: nobody polls for it."""
    time.sleep(1)
    began = time.monotonic()

    run_id = working.submit("true")
    working.until(run_id, "running", "completed", seconds=5)

    assert time.monotonic() - began < 2


def test_four_runs_at_once(working):
    """Four runs of two seconds take one runner of four places about two seconds, not eight."""
    began = time.monotonic()

    ids = [working.submit("sleep 2") for _ in range(4)]
    ended = [working.until(one, seconds=20)["status"] for one in ids]

    assert ended == ["completed"] * 4
    assert time.monotonic() - began < 6.5


def test_a_person_approves_at_the_command_line(working):
    """A run that asks waits at the client, is listed and approved by its approver's token, and then runs."""
    alice, careful = as_(working, "alice", "approver"), as_(working, "careful")
    client = working.begin("client", "run", "--", "echo", "approved at last", **careful)
    wait_for(lambda: json.loads(working.call("approvals", "--json", **alice).stdout), 20)
    listed = working.call("approvals", **alice).stdout.decode()
    run_id = next(word for word in listed.split() if word.startswith("run_"))

    working.call("approve", run_id, "--yes", **alice)

    assert client.process.wait(30) == 0
    assert "approved at last" in client.text
    assert working.until(next(iter(ids(working, run_id))))["status"] == "completed"


def ids(stage, beginning):
    """The runs whose id begins so."""
    return [one["runId"] for one in stage.ask("GET", "/v1/runs").json["runs"] if one["runId"].startswith(beginning)]


def test_a_dry_run_sends_nothing_but_the_question(working):
    """The option --dry-run says what would leave this machine, and neither a run nor a blob comes to the plane."""
    folder = grow(working.folder / "dry")
    (folder / ".env").write_text("TOKEN=1\n")
    before = len(ids(working, "run_"))

    ended = working.call("run", "--dry-run", "--workspace", folder, "--", "ls", **as_(working, "dora"))

    said = (ended.stdout + ended.stderr).decode()
    assert ".env" in said
    assert len(ids(working, "run_")) == before
    digest = hashlib.sha256((folder / "README.md").read_bytes()).hexdigest()
    assert working.ask("GET", f"/v1/blobs/{digest}").status == 404


def test_a_stricter_policy_holds_for_what_waits(stage):
    """A run that waited while its policy was changed is judged again: what is not allowed now is not given out."""
    stage.init_plane().start_plane()
    run_id = stage.submit("true")
    assert stage.plane.stop() == 0
    path = stage.home / "policy.yaml"
    path.write_text(path.read_text().replace("effect: allow, when: any", "effect: allow, when: {kinds: [argv]}"))
    stage.start_plane()
    stage.start_runner("one")

    said = stage.until(run_id, seconds=20)

    assert "receipt" not in said
    assert said["refusal"]["signatures"]
    assert "run.claimed" not in [link["event"]["type"] for link in said["events"]]


def test_tokens_are_rotated_and_revoked(stage):
    """A rotated token is void and its successor works; a revoked one is void for good, and its queue is refused."""
    stage.init_plane().start_plane()
    first = stage.token("anna")
    second = stage.call("plane", "token", "anna", "--rotate", "--home", stage.home).stdout.decode().strip()
    waiting = stage.submit("true", second)
    rotated = [stage.ask("GET", "/v1/runs", token=one).status for one in (first, second)]

    stage.call("plane", "token", "anna", "--revoke", "--home", stage.home)
    stage.start_runner("one")

    assert rotated == [401, 200]
    assert stage.ask("GET", "/v1/runs", token=second).status == 401
    assert "refusal" in stage.until(waiting, seconds=20)


def test_a_large_output_is_whole(working):
    """Five megabytes of any bytes come to the client as they were printed, and their digest is the receipt's."""
    source = "import random, sys; sys.stdout.buffer.write(random.Random(7).randbytes(5_000_000))"
    ended = working.call("run", "--json", "--", "python3", "-c", source, **as_(working, "erik"))
    plain = working.call("run", "--", "python3", "-c", source, **as_(working, "fritz"))

    said = json.loads(ended.stdout)
    receipt = working.seen(said["runId"])["receipt"]
    assert hashlib.sha256(plain.stdout).hexdigest() == receipt["streams"]["stdout"]["sha256"]


def test_a_blob_beyond_the_cap_of_bodies_is_taken(working):
    """A blob may be larger than any other body: seventy megabytes go in and come out, other bodies are 413."""
    anna = OldClient(working.url, working.token("gerda"))
    data = b"\0\1\2\3\4\5\6" * 10_000_000

    name = anna.upload(data)

    assert anna.ask("GET", f"/v1/blobs/{name}").body == data
    try:
        status = anna.ask("POST", "/v1/runs", b'{"request":{"prompt":"' + b"x" * 70_000_000 + b'"}}').status
    except OSError:  # it hung up before all of it was sent
        status = 413
    assert status == 413


def test_live_output_is_redacted(working):
    """What a follower sees while a run is at work holds no secret, though the command printed it in two pieces."""
    script = 'v=$MOCK_SECRET; printf "%.9s" "$v"; sleep 1; echo "${v#?????????}"; sleep 2'
    run_id = working.submit(script, secretNames=["MOCK_SECRET"])

    text = followed(working, run_id, until="event: end")

    assert "event: end" in text
    assert SECRET not in text
    kept = working.ask("GET", f"/v1/runs/{run_id}/output/stdout").body
    assert kept == b"[REDACTED:MOCK_SECRET]\n"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/..%2f..%2fetc/bundle",
        "/v1/runs/run_%00/bundle",
        "/v1/blobs/../../etc/passwd",
        "/v1/blobs/" + "a" * 63,
        "/v1/blobs/" + "A" * 64,
        "/v1/runs/last/output/../../x",
        "/v1/refusals/%2e%2e",
        "/v1/runs?limit=-1",
        "/v1/runs?limit=99999999999999999999",
        "/v1/runs?before=%ff",
        "/v1/export?since=yesterday",
        "/v2/runs",
    ],
)
def test_odd_paths_are_refused(working, path):
    """A path or a question that makes no sense is a 4xx with a sentence, for the admin too."""
    reply = working.ask("GET", path)

    assert 400 <= reply.status < 500, reply
    assert isinstance(reply.json["error"], str)


def test_one_runner_for_one_folder(working):
    """A second runner on the same folder is refused with a sentence while the first is at work."""
    ended = working.call("runner", "start", "--plane", working.url, "--data", working.data("one"), code=None)

    assert ended.returncode != 0
    assert b"Traceback" not in ended.stderr
    assert working.runners["one"].alive


def test_a_runner_of_another_pool_takes_nothing(working):
    """Runs go to the pool that they name, and wait for it."""
    run_id = working.submit("true", pool="elsewhere")
    time.sleep(1)
    before = working.seen(run_id)["status"]
    words = ["runner", "start", "--plane", working.url, "--data", working.data("other"), "--pool", "elsewhere"]
    runner = working.begin("other", *words, TIPSTAFF_ENROLL_TOKEN=working.enroll_token("elsewhere"))
    runner.heard(READY)

    assert before == "created"
    assert working.until(run_id, seconds=20)["status"] == "completed"
    assert runner.stop() == 0


def test_what_is_withheld_does_not_leave_the_runner(working):
    """Under metadata-only neither log nor live output comes to the plane, and the receipt still verifies."""
    run_id = working.submit("echo private words; sleep 1", disclosure="metadata-only")
    text = followed(working, run_id, until="event: end")

    said = working.until(run_id)

    assert "event: output" not in text
    assert "artifact.created" not in [link["event"]["type"] for link in said["events"]]
    assert b"private words" not in working.ask("GET", f"/v1/runs/{run_id}/output/stdout").body
    assert verify(working.bundle(run_id), [working.plane_key().read_text()]).verdict == "valid"


def test_a_second_stop_ends_what_runs(stage):
    """Asked to stop twice, a runner kills what runs at once; the run ends with a receipt, and nothing is left."""
    stage.init_plane(lease_seconds=5).start_plane()
    runner = stage.start_runner("one")
    mark = f"77.{time.monotonic_ns()}"
    run_id = stage.submit(f"sleep {mark}")
    wait_for(lambda: running(f"sleep {mark}"), 20)

    runner.process.terminate()
    time.sleep(0.5)
    runner.process.terminate()

    assert runner.process.wait(20) == 0
    assert stage.until(run_id, seconds=10)["status"] in {"cancelled", "failed"}
    assert not running(f"sleep {mark}")
    assert verify(stage.bundle(run_id), [stage.plane_key().read_text()]).verdict == "valid"


def test_a_plane_answers_who_it_is_to_anybody_and_nothing_else(working):
    """Health, readiness, keys and the description need no token; everything else does."""
    open_ = ["/v1/health", "/v1/ready", "/v1/keys", "/v1/openapi.json"]
    closed = ["/v1/runs", "/v1/policy", "/v1/runners", "/v1/principals", "/v1/export", "/v1/metrics", "/v1/approvals"]

    assert [talk(working.url, "GET", path).status for path in open_] == [200] * 4
    assert [talk(working.url, "GET", path).status for path in closed] == [401] * 7


def test_cancelled_at_any_moment_a_run_ends_once(working):
    """Runs that are cancelled while they wait, start, run or end have one proof each, and nothing goes on."""
    chance, mark = random.Random(7), f"57.{time.monotonic_ns()}"  # noqa: S311 - the same everywhere
    ids = []
    for number in range(24):
        ids.append(working.submit(f"sleep 0.2; sleep {mark}" if number % 2 else "sleep 0.3"))
        time.sleep(chance.uniform(0, 0.4))
        reply = working.ask("POST", f"/v1/runs/{ids[-1]}/cancel", {})
        assert reply.status == 200, reply

    for run_id in ids:
        said = working.until(run_id, seconds=30)
        assert ("receipt" in said) is not ("refusal" in said)
        assert said["status"] in {"cancelled", "completed"}
        proof = working.bundle(run_id) if "receipt" in said else said["refusal"]
        assert verify(proof, [working.plane_key().read_text()]).verdict == "valid"
    wait_for(lambda: not running(f"sleep {mark}"), 10)


def test_a_yes_and_a_no_at_the_same_moment_are_one_answer(working):
    """Of an approval and a denial that race, one counts: the run runs, or it is refused, never both."""
    careful, alice = working.token("careful"), working.token("alice", "approver")
    for _ in range(6):
        run_id = working.submit("true", careful)
        start = threading.Barrier(2)

        def answer(word, run_id=run_id, start=start):
            start.wait(5)
            return working.ask("POST", f"/v1/runs/{run_id}/{word}", {}, alice).status

        with ThreadPoolExecutor(2) as both:
            statuses = list(both.map(answer, ["approve", "deny"]))
        said = working.until(run_id, seconds=20)
        assert 200 in statuses
        assert ("receipt" in said) is not ("refusal" in said)
        kinds = [link["event"]["type"] for link in said["events"]]
        assert ("run.claimed" in kinds) is (said["status"] == "completed")


@pytest.mark.parametrize("key", ["", "not a key", "the plane's", 5, None])
def test_a_runner_needs_a_key_of_its_own(working, key):
    """A key that is none, or is the plane's own, is refused, and the enrol token is not used up by it."""
    token = working.enroll_token()
    published = talk(working.url, "GET", "/v1/keys").json["keys"][0]["publicKeyPem"]
    body = {"enrollToken": token, "publicKeyPem": published if key == "the plane's" else key, "pool": "spare"}

    refused = talk(working.url, "POST", "/v1/runners/enroll", body)
    taken = talk(working.url, "POST", "/v1/runners/enroll", body | {"publicKeyPem": OldKey().pem})

    assert refused.status == 400, refused
    assert taken.status == 200, taken
