"""`tipstaff runner`: enrolled, started as a real process with a real sandbox, drained, killed, asked how it is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plane.embedded import PLANE, Embedded
from tests.unit.policy.conftest import open_policy
from tests.unit.runner.serving import Served, served
from tipstaff.doors.cli import main
from tipstaff.evidence import verify
from tipstaff.plane.clock import SteadyClock
from tipstaff.workspace import listing

SECONDS = 60.0
TIPSTAFF = (sys.executable, "-m", "tipstaff")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Served]:
    """A plane that is served."""
    (tmp_path / "plane").mkdir()
    site = Embedded(
        tmp_path / "plane", policy=open_policy(), clock=SteadyClock(), random=os.urandom, shared=True, lease_ms=6000
    )
    with served(site) as made:
        yield made
    site.close()


@pytest.fixture
def environ(plane: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home, and a token to enrol with."""
    token = plane.site.plane.people.enroll_token(None, 600)["token"]
    added = {"TIPSTAFF_HOME": str(tmp_path / "home"), "TIPSTAFF_ENROLL_TOKEN": token}
    for name, value in added.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, **added}


@pytest.fixture
def data(plane: Served, environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folder of a runner that is enrolled."""
    folder = tmp_path / "runner"
    assert "TIPSTAFF_ENROLL_TOKEN" in environ
    assert main(["runner", "enroll", "--plane", plane.url, "--data", str(folder)]) == 0
    capsys.readouterr()
    return folder


def shell(script: str) -> dict[str, Any]:
    """A request for a script."""
    return {"execution": {"kind": "shell", "script": script}}


def until(holds: Any) -> None:
    """Wait until something holds; fail when it takes too long."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def started(data: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a runner's process, and wait until it is ready."""
    log = data.parent / "runner.log"
    with log.open("w") as errors:
        made = subprocess.Popen(
            [*TIPSTAFF, "runner", "start", "--data", str(data), *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        until(lambda: "ready" in log.read_text() or made.poll() is not None)
        assert made.poll() is None, log.read_text()
    except BaseException:
        made.kill()
        made.wait()
        raise
    return made


def ended(made: "subprocess.Popen[str]") -> int:
    """Wait for a process's end."""
    try:
        made.communicate(timeout=SECONDS)
    finally:
        made.kill()
        made.wait()
    return made.returncode


def test_a_runner_is_enrolled_once_and_says_as_whom(plane, environ, tmp_path, capsys):
    """Enrolling twice gives the same runner; no token is printed."""
    words = ["runner", "enroll", "--plane", plane.url, "--pool", "builds", "--data", str(tmp_path / "r"), "--json"]
    assert (main(words), main(words)) == (0, 0)
    said = capsys.readouterr()
    first, second = map(json.loads, said.out.splitlines())

    assert (first["new"], second["new"], first["pool"]) == (True, False, "builds")
    assert first["runnerId"] == second["runnerId"]
    assert first["planeKeyId"] == PLANE.public.key_id
    assert environ["TIPSTAFF_ENROLL_TOKEN"] not in said.out + said.err


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["enroll", "--plane", "http://plane.example.com"], 64, "plain http"),
        (["enroll", "--plane", "nowhere"], 64, "http or https"),
        (["start", "--concurrency", "0"], 64, "at least 1"),
        (["start"], 64, "--plane URL"),
        (["drain"], 66, "no runner is at work"),
        (["status"], 66, "tipstaff runner enroll"),
        (["enroll"], 64, "--plane"),
        (["enroll", "--plane", "http://127.0.0.1:1", "--data", "/usr/local/lib/runner"], 64, "lies in /usr"),
        (["start", "--plane", "http://127.0.0.1:1", "--data", "/usr/../usr/share/runner"], 64, "lies in /usr"),
        (["status", "--data", "/etc/ssl/certs"], 64, "name another with --data"),
        (["drain", "--data", "/lib"], 64, "a command could read its key"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(capsys, words, code, says):
    """Each mistake ends with its own exit code and with what to do next."""
    assert main(["runner", *words]) == code
    assert says in capsys.readouterr().err


def test_one_run_is_carried_out_and_its_id_printed(plane, data, environ):
    """With --once the run's id is all that stands on stdout; its receipt verifies, and its output is kept."""
    run_id = plane.site.submit(**shell("echo hello; id -u >/dev/null"))
    ran = subprocess.run(
        [*TIPSTAFF, "runner", "start", "--data", str(data), "--once"],
        capture_output=True, text=True, timeout=SECONDS, env=environ, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (0, f"{run_id}\n"), ran.stderr
    assert f"ready: pool default, plane {plane.url}, tiers bwrap" in ran.stderr
    assert plane.site.plane.output(run_id, "stdout") == b"hello\n"
    assert verify(plane.site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


def test_a_runner_at_work_can_be_asked_and_drained(plane, data, capsys):
    """Status names the process; drain lets what runs end and takes no more; a second process is refused meanwhile."""
    first = plane.site.submit(**shell("sleep 1; echo done"))
    made = started(data, "--json")
    assert made.stdout is not None
    try:
        said = json.loads(made.stdout.readline())
        until(lambda: plane.site.plane.status(first) == "running")
        capsys.readouterr()
        assert main(["runner", "status", "--data", str(data), "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["pid"], status["spool"], said["pid"]) == (made.pid, [first], made.pid)
        assert main(["runner", "start", "--data", str(data)]) == 64
        assert "another process works in" in capsys.readouterr().err
        assert main(["runner", "drain", "--data", str(data)]) == 0
        second = plane.site.submit(**shell("true"))
    finally:
        code = ended(made)

    assert code == 0
    assert [plane.site.plane.status(run) for run in (first, second)] == ["completed", "created"]
    assert main(["runner", "status", "--data", str(data)]) == 0
    assert "not at work" in capsys.readouterr().out


def test_a_runner_that_is_drained_twice_lets_what_runs_end(plane, data, capsys):
    """Drain says the same however often it is said; a run that takes its time has its receipt, and nothing kills it."""
    run_id = plane.site.submit(**shell("sleep 2; echo done"))
    made = started(data)
    try:
        until(lambda: plane.site.plane.status(run_id) == "running")
        for _ in range(2):
            assert main(["runner", "drain", "--data", str(data)]) == 0
        assert "takes no more" in capsys.readouterr().out
    finally:
        code = ended(made)

    assert (code, plane.site.plane.status(run_id)) == (0, "completed")
    assert plane.site.plane.output(run_id, "stdout") == b"done\n"


def test_a_large_workspace_takes_little_memory(plane, data):
    """Contents of 200 MiB go to the sandbox in pieces: the runner's memory grows by less than 60 MiB."""
    size = 200 * 2**20
    content = bytes(size)
    digest = sha256(content).hexdigest()
    blobs = plane.site.store.blobs
    packed = blobs.put(json.dumps([[digest, size]]).encode() + b"\n" + content)
    tree = blobs.put(listing.encode([listing.Entry(b"large", listing.FILE | 0o644, digest, size)]))
    manifest = {"version": "warrant.manifest.v1", "kind": "tree", "baseRef": tree, "treeHash": tree, "packs": [packed]}
    more: dict[str, list[str]] = {"untrackedFiles": [], "deniedPatterns": [], "deniedPaths": []}
    run_id = plane.site.submit(workspace={**manifest, **more}, **shell("stat -c %s large"))
    made = started(data)
    try:
        before = memory_kib(made.pid, "VmRSS")
        until(lambda: plane.site.plane.status(run_id) in {"completed", "failed"})
        grown = memory_kib(made.pid, "VmHWM") - before
        made.send_signal(signal.SIGTERM)
    finally:
        ended(made)

    assert plane.site.plane.output(run_id, "stdout") == b"%d\n" % size
    assert grown < 60 * 1024


def memory_kib(pid: int, name: str) -> int:
    """Give a number from what the kernel says of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:"))


def test_what_the_plane_did_not_take_is_shown(data, capsys):
    """Status counts what was put aside and names the folder; where there is nothing, people are told nothing."""
    assert main(["runner", "status", "--data", str(data)]) == 0
    assert "not taken" not in capsys.readouterr().out
    (data / "rejected").mkdir(mode=0o700)
    for name in ("run_1.aa.ndjson", "run_2.bb.ndjson"):
        (data / "rejected" / name).write_text("{}\n")

    assert main(["runner", "status", "--data", str(data)]) == 0
    assert f"not taken by the plane: 2, put aside in {data / 'rejected'}" in capsys.readouterr().out
    assert main(["runner", "status", "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rejected"] == {"count": 2, "folder": str(data / "rejected")}


def test_a_second_signal_ends_what_runs(plane, data):
    """After two signals the sandbox is gone, and the receipt says who wanted that."""
    run_id = plane.site.submit(**shell("sleep 300"))
    made = started(data)
    until(lambda: plane.site.plane.status(run_id) == "running")
    made.send_signal(signal.SIGTERM)
    until(lambda: "draining" in (data.parent / "runner.log").read_text())
    made.send_signal(signal.SIGINT)

    assert ended(made) == 0
    assert plane.site.plane.bundle(run_id)["receipt"]["status"] == "cancelled"


def test_a_killed_runner_tells_at_its_next_start_what_it_knows(plane, data):
    """After kill -9 the next process sends a receipt for the run that was cut off, and goes on."""
    run_id = plane.site.submit(**shell("sleep 300"))
    made = started(data)
    until(lambda: plane.site.plane.status(run_id) == "running")
    made.kill()
    made.communicate()
    again = started(data)
    until(lambda: plane.site.plane.status(run_id) == "failed")
    again.send_signal(signal.SIGTERM)

    assert ended(again) == 0
    bundle = plane.site.plane.bundle(run_id)
    assert bundle["events"][-1]["event"]["message"] == "the runner was restarted while it ran"
    assert verify(bundle, [PLANE.public]).verdict == "valid"


def test_another_tier_is_offered_only_when_it_is_asked_for(plane, data):
    """The weaker tier is in no claim by default."""
    plane.site.submit(**shell("true"))
    subprocess.run([*TIPSTAFF, "runner", "start", "--data", str(data), "--once"], timeout=SECONDS, check=True)
    plane.site.submit(**shell("true"))
    words = ["runner", "start", "--data", str(data), "--once", "--tier", "process"]
    subprocess.run([*TIPSTAFF, *words], timeout=SECONDS, check=True)

    claims = [fields["tiers"] for path, fields in plane.asked if path == "/v1/claims"]
    assert (claims[0], claims[-1]) == (["bwrap"], ["bwrap", "process"])
