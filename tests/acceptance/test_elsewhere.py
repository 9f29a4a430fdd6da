"""The command line and Python at a plane elsewhere: a real plane, a real runner, and runs that go on meanwhile."""

import json
import os
import signal
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.acceptance.repositories import grow
from tests.unit.remote.scripted import Asked, Reply, scripted
from tests.wire.stage import POLICY, TIPSTAFF, Stage
from tipstaff.keys import PrivateKey

ASKING = POLICY.replace(
    "pools:",
    "  - {id: look-first, effect: ask, reason: somebody looks, when: {argv: [[touch, '...']]},"
    " approvals: {approvers: [boris]}}\n"
    "  - {id: no-shred, effect: deny, reason: nothing is shredded, when: {argv: [[shred, '...']]}}\npools:",
)
WAIT_SECONDS = 30


class Client(NamedTuple):
    """Somebody with a token, at this machine."""

    stage: Stage
    token: str
    begun: list[subprocess.Popen[bytes]]

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of a command."""
        return self.stage.environ(TIPSTAFF_PLANE=self.stage.url, TIPSTAFF_TOKEN=self.token, **more)

    def __call__(self, *words: object, cwd: Path | None = None, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end."""
        how = {"stdin": subprocess.DEVNULL, **how} if "input" not in how else how
        return subprocess.run(
            [TIPSTAFF, *map(str, words)], env=self.environ(), cwd=cwd or self.stage.folder, capture_output=True,
            timeout=100, check=False, **how,
        )  # fmt: skip

    def begin(self, *words: object) -> subprocess.Popen[bytes]:
        """Start the program, and leave it running."""
        self.begun.append(subprocess.Popen(
            [TIPSTAFF, *map(str, words)], env=self.environ(), cwd=self.stage.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ))  # fmt: skip
        return self.begun[-1]


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """A plane that asks before some things, with a runner for the pool `default` and none for any other."""
    with Stage(tmp_path_factory.mktemp("elsewhere")) as made:
        made.init_plane(policy=ASKING, lease_seconds=6).start_plane()
        made.start_runner("one", "--concurrency", "4")
        yield made


@pytest.fixture(scope="module")
def token(stage) -> str:
    """The token of somebody who may ask for runs."""
    return str(stage.token("anna"))


@pytest.fixture
def anna(stage, token) -> Iterator[Client]:
    """Somebody who may ask for runs; what a failed test left running is ended."""
    made = Client(stage, token, [])
    yield made
    for process in made.begun:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def boris(stage) -> Client:
    """Somebody who may approve."""
    return Client(stage, stage.token("boris", "approver"), [])


def until(look, seconds=WAIT_SECONDS):
    """Wait until something is so, and give it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to pass in time")


def test_output_comes_while_the_run_goes_on(anna):
    """What a run prints is there long before it has ended, and stopping us stops it, with a receipt and 130."""
    run = anna.begin("run", "--", "sh", "-c", "echo first; sleep 120")
    assert run.stdout is not None
    first = run.stdout.readline()
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)

    assert first == b"first\n"
    assert run.returncode == 130
    assert b"was stopped; receipt: tipstaff show run_" in said


def test_everything_is_told_as_json(anna):
    """With --json the object is the embedded run's: output, streams, receipt, and nothing besides."""
    ended = anna("run", "--json", "--", "sh", "-c", "printf 'out'; printf 'err' >&2; exit 4")

    told = json.loads(ended.stdout)
    assert (ended.returncode, told["exitCode"], told["ending"]) == (4, 4, "exited")
    assert (told["stdout"], told["stderr"], told["tier"], told["decision"]) == ("out", "err", "bwrap", "allow")
    assert [one["signer"] for one in told["receipt"]["signatures"]] == ["runner", "plane"]


def test_a_denial_is_told_with_its_signed_refusal(anna, tmp_path):
    """What policy denies exits 126 with the reasons; the refusal is a file where one was asked for."""
    ended = anna("run", "--bundle", tmp_path / "refusal.json", "--", "shred", "x")

    assert ended.returncode == 126
    assert b"no-shred: nothing is shredded" in ended.stderr
    assert json.loads((tmp_path / "refusal.json").read_text())["rules"] == ["no-shred"]


def test_a_plane_that_starts_anew_loses_nothing_of_the_output(anna, stage):
    """While the plane is killed and started again the run goes on, and its output arrives whole."""
    run = anna.begin("run", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done")
    assert run.stdout is not None
    first = run.stdout.readline()
    assert stage.plane is not None
    stage.plane.kill()
    time.sleep(0.5)
    stage.start_plane()
    rest, said = run.communicate(timeout=90)

    assert first + rest == b"1\n2\n3\n4\n5\n6\n7\n8\n"
    assert run.returncode == 0
    assert b"trying again" in said


def test_a_run_waits_for_people_and_is_approved_by_a_token(anna, boris):
    """Who must approve is told, and how; the holder of an approver's token does, and it runs."""
    run = anna.begin("run", "--", "touch", "x")
    waiting = until(lambda: json.loads(boris("approvals", "--json").stdout)["waiting"])
    refused = anna("approve", waiting[0]["runId"], "--yes")
    approved = boris("approve", waiting[0]["runId"], "--yes")
    _, said = run.communicate(timeout=60)

    assert refused.returncode == 69
    assert approved.returncode == 0
    assert run.returncode == 0
    assert b"1 of boris must approve" in said
    assert b"allowed after approval" in said


def test_a_run_that_waits_is_denied(anna, boris):
    """A no by an approver's token ends the run with 126 and a signed refusal."""
    run = anna.begin("run", "--", "touch", "x")
    waiting = until(lambda: json.loads(boris("approvals", "--json").stdout)["waiting"])
    denied = boris("deny", waiting[0]["runId"], "--reason", "not today")
    _, said = run.communicate(timeout=60)

    assert denied.returncode == 0
    assert run.returncode == 126
    assert b"not today" in said


def test_nobody_approves_in_time(anna):
    """Whoever has waited long enough stops the run: it never runs afterwards."""
    ended = anna("run", "--approval-timeout", "1", "--", "touch", "x")

    assert ended.returncode == 130
    assert b"was not approved in 1 s" in ended.stderr


def test_a_run_in_the_queue_is_cancelled(anna):
    """A run of a pool without runners says that it waits, and `cancel` ends it at once."""
    run = anna.begin("run", "--pool", "empty", "--", "true")
    named = until(
        lambda: [one for one in json.loads(anna("history", "--json").stdout)["runs"] if one.get("pool") == "empty"]
    )
    time.sleep(2.5)
    cancelled = anna("cancel", named[0]["id"])
    _, said = run.communicate(timeout=60)
    again = anna("cancel", named[0]["id"])

    assert b"is cancelled, and will not run" in cancelled.stdout
    assert run.returncode == 130
    assert b"waits for a runner" in said
    assert again.returncode == 64


def test_a_run_is_followed_by_others(anna):
    """Following shows a run from its beginning to its end, and leaving it does not stop it."""
    run = anna.begin("run", "--quiet", "--", "sh", "-c", "echo a; sleep 2; echo b")
    assert run.stdout is not None
    run.stdout.readline()
    followed = anna("log", "-f", "last")
    run.communicate(timeout=60)

    assert followed.stdout == b"a\nb\n"
    assert run.returncode == 0


def test_a_reader_that_left_stops_the_run(anna):
    """When nobody reads our output any more, the run is stopped and we end as other programs do."""
    run = anna.begin("run", "--", "sh", "-c", "echo a first line; sleep 1; yes")
    assert run.stdout is not None
    run.stdout.read(10)
    run.stdout.close()

    assert run.wait(60) == 141


def test_a_large_output_is_whole(anna):
    """Megabytes come through to the last byte, whichever way each of them took."""
    ended = anna("run", "--shell", "seq 1 300000")

    assert ended.stdout == "".join(f"{number}\n" for number in range(1, 300_001)).encode()


@pytest.mark.parametrize(("given", "code"), [(b"something", 64), (b"", 0)])
def test_input_is_refused_and_none_is_fine(anna, given, code):
    """Input that would be lost is refused with a sentence; an empty one, as builds have it, is none."""
    ended = anna("run", "--", "cat", input=given)

    assert ended.returncode == code
    assert (b"--no-stdin" in ended.stderr) is bool(given)


def test_what_would_leave_is_told_and_does_not(anna, stage, tmp_path):
    """A dry run counts what would be sent, names what stays, and nothing of it is at the plane afterwards."""
    folder = grow(tmp_path / "repository")
    (folder / ".env").write_text("SECRET=1\n")
    words = ("run", "--dry-run", "--json", "--workspace", ".", "--env", "A=1", "--", "make")
    runs = len(json.loads(anna("history", "--json").stdout)["runs"])

    first, second = (json.loads(anna(*words, cwd=folder).stdout) for _ in range(2))

    assert first["decision"] == "allow"
    assert first["plane"] == stage.url
    assert first["denied"] == [".env"]
    assert {one["kind"] for one in first["leaves"]} == {"list of files", "contents of files", "commit"}
    assert all(one["new"] == one["count"] for one in second["leaves"])
    assert len(json.loads(anna("history", "--json").stdout)["runs"]) == runs


def test_a_dry_run_of_what_is_denied_says_so(anna):
    """A dry run exits 126 where the plane would deny, with its reasons, as text as well."""
    ended = anna("run", "--dry-run", "--", "shred", "x")

    assert ended.returncode == 126
    assert b"would be denied" in ended.stdout
    assert b"nothing is shredded" in ended.stdout


def test_another_key_is_refused_before_anything_is_sent(anna, stage):
    """A plane whose key is not the pinned one is sent nothing; with the right key pinned it is used again."""
    pins = stage.folder / "home" / "known-planes.json"
    anna("run", "--", "true")
    before = pins.read_text()
    other = json.loads(before)
    other["planes"][stage.url] = [PrivateKey.generate().public.pem]
    pins.write_text(json.dumps(other))
    runs = len(json.loads(anna("history", "--json").stdout)["runs"])

    refused = anna("run", "--", "true")
    after = len(json.loads(anna("history", "--json").stdout)["runs"])
    pinned = anna("run", "--plane-key", stage.plane_key(), "--", "true")

    assert refused.returncode == 126
    assert b"another key than when it was first used" in refused.stderr
    assert after == runs
    assert pinned.returncode == 0
    assert json.loads(pins.read_text()) == json.loads(before)


@pytest.mark.parametrize("tampered", ["", "bundle", "output"])
def test_what_was_changed_on_its_way_is_not_believed(anna, stage, tampered):
    """A proof or an output that somebody in between has changed is an error; unchanged, all is well."""

    def between(asked: Asked) -> Reply:
        headers = {"authorization": asked.headers["authorization"]}
        answer = httpx2.request(asked.method, stage.url + asked.path, content=asked.body, headers=headers, timeout=60)
        body = answer.content
        if tampered == "bundle" and asked.path.endswith("/bundle"):
            body = body.replace(b'"exitCode":7', b'"exitCode":0')
        if tampered == "output":
            body = body.replace(b64encode(b"honest\n"), b64encode(b"forged\n")).replace(b"honest\n", b"forged\n")
        return Reply(answer.status_code, body, {"Content-Type": answer.headers["Content-Type"]})

    with scripted(between) as plane:
        ended = anna("run", "--plane", plane.url, "--", "sh", "-c", "echo honest; exit 7")

    assert ended.returncode == (65 if tampered else 7)
    assert (b"does not hold" in ended.stderr) is (tampered == "bundle")
    live_or_kept = (b"receipt says was printed", b"than their digest says")  # whichever way the bytes took
    assert any(words in ended.stderr for words in live_or_kept) is (tampered == "output")


def test_a_change_is_brought_to_the_folder_that_it_was_started_for(anna, stage, tmp_path):
    """Apply finds the folder of a run by itself, wherever one stands, and undoes what it brought, as it says."""
    folder = grow(tmp_path / "repository")
    (tmp_path / "other").mkdir()

    assert anna("run", "--workspace", folder, "--", "sh", "-c", "echo new > new").returncode == 0
    applied = anna("apply", "last", "--plane", stage.url, cwd=tmp_path / "other")
    assert applied.returncode == 0
    assert f"undo with: tipstaff --plane {stage.url} apply --revert run_".encode() in applied.stderr
    brought = (folder / "new").read_text()
    assert anna("apply", "last", "--revert", cwd=tmp_path / "other").returncode == 0

    assert brought == "new\n"
    assert not (folder / "new").exists()
    assert list((tmp_path / "other").iterdir()) == []


def test_python_has_the_same_face(anna, stage, tmp_path):
    """A run from Python at a plane elsewhere gives the outcome that one here gives."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("content")
    program = (
        "import tipstaff, sys\n"
        f"outcome = tipstaff.run(['sh', '-c', 'cat file; echo x > new'], plane={stage.url!r}, workspace='work')\n"
        "assert outcome.ok and outcome.stdout == b'content', outcome\n"
        "assert [one['path'] for one in outcome.changes] == ['new'], outcome.changes\n"
        "assert outcome.receipt['runner']['pool'] == 'default'\n"
        f"denied = tipstaff.run(['shred', 'x'], plane={stage.url!r})\n"
        "assert denied.ending == 'refused' and denied.refusal, denied\n"
    )
    python = str(Path(TIPSTAFF).with_name("python"))

    ended = subprocess.run(
        [python, "-c", program], env=anna.environ(), cwd=tmp_path, capture_output=True, timeout=100, check=False
    )

    assert ended.returncode == 0, ended.stderr


def test_no_token_is_left_anywhere(anna, stage):
    """Neither our home nor what the plane logs holds a token, after all of the above."""
    places = [one for one in (stage.folder / "home").rglob("*") if one.is_file()]
    logs = [program.log for program in stage.started]

    assert len(logs) > 1
    assert [str(one) for one in (*places, *logs) if anna.token.encode() in one.read_bytes()] == []


def test_a_run_here_imports_nothing_of_it():
    """Whoever names no plane pays nothing for those who do: no HTTP client is imported."""
    python = str(Path(TIPSTAFF).with_name("python"))
    program = (
        "import sys; from tipstaff.doors.cli import main\n"
        "main(['run', '--help']); import tipstaff.doors.cli.run.carrying\n"
        "print([name for name in sys.modules if name.startswith(('httpx', 'tipstaff.remote', 'litestar'))])"
    )

    ended = subprocess.run([python, "-c", program], env=dict(os.environ), capture_output=True, timeout=60, check=True)

    assert ended.stdout.splitlines()[-1] == b"[]"
