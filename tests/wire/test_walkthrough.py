"""What somebody does who has read the first page: a plane, a runner, a run, its change, its proof."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.repositories import git, grow
from tests.processes import running
from tests.wire.stage import TIPSTAFF
from tests.wire.test_cut import wait_for

LEASE_SECONDS = 8  # longer than a plane takes to start on a busy machine


@pytest.fixture
def site(stage):
    """A plane under its shipped policy, with one runner and somebody who may ask."""
    stage.call("plane", "init", "--home", stage.home, "--port", "0")
    stage.settle(lease_seconds=LEASE_SECONDS)
    stage.admin = stage.token("operator", "admin")
    stage.start_plane()
    stage.start_runner("one")
    return stage


@pytest.fixture
def anna(site):
    """Run the command line as somebody with a token, against the plane."""
    token = site.token("anna")

    def call(*words, code=0, cwd=None, stdin=b""):
        environ = site.environ(TIPSTAFF_PLANE=site.url, TIPSTAFF_TOKEN=token)
        ended = subprocess.run(
            [TIPSTAFF, *map(str, words)], env=environ, cwd=cwd or site.folder / "person", input=stdin,
            capture_output=True, timeout=100, check=False,
        )  # fmt: skip
        assert code is None or ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended

    return call


def test_a_command_runs_elsewhere_as_if_it_were_here(anna):
    """Output and exit code come through, the three lines are on stderr, and the receipt verifies by the plane's key."""
    ended = anna("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3", code=3)

    assert ended.stdout == b"out\n"
    assert b"err\n" in ended.stderr
    assert b"allowed by" in ended.stderr
    assert b"run_" in ended.stderr


def test_an_agents_change_is_looked_at_applied_and_verified(site, anna):
    """A mock works on a captured repository elsewhere; diff shows its note, apply brings it, verify proves it."""
    folder = grow(site.folder / "notes")
    (folder / "README.md").write_text("# Notes, changed\n")

    anna("run", "--agent", "mock", "add a note", cwd=folder)
    shown = anna("diff", "last", cwd=folder)
    before = (folder / "MOCK_AGENT.md").exists()
    anna("apply", "last", cwd=folder)
    proof = site.folder / "proof.json"
    proof.write_bytes(anna("bundle", "last").stdout)
    verified = site.call("verify", proof, "--key", site.plane_key())

    assert b"+add a note" in shown.stdout
    assert not before
    assert (folder / "MOCK_AGENT.md").read_text() == "## task\nadd a note\n\nsecret:absent\n"
    assert (folder / "README.md").read_text() == "# Notes, changed\n"
    assert git(folder, "status", "--porcelain").splitlines()
    assert b"valid" in verified.stdout


def test_a_runner_killed_mid_run_is_lost_with_a_receipt(site):
    """Within a lease `show` says that the run is lost, and its bundle verifies."""
    mark = f"111.{time.monotonic_ns()}"
    run_id = site.submit(f"sleep {mark}", site.token("bert"))
    wait_for(lambda: running(f"sleep {mark}"), 30)

    site.runners["one"].kill()
    site.until(run_id, seconds=LEASE_SECONDS + 10)
    shown = site.call("show", run_id, TIPSTAFF_PLANE=site.url, TIPSTAFF_TOKEN=site.admin)

    assert b"lost" in shown.stdout
    proof = site.folder / "proof.json"
    proof.write_text(json.dumps(site.bundle(run_id)))
    site.call("verify", proof, "--key", site.plane_key())


def test_somebody_who_changes_their_mind_stops_the_run(site):
    """Ctrl-C at the client cancels the run at the plane; its tree is gone, and the receipt says cancelled."""
    mark = f"112.{time.monotonic_ns()}"
    client = site.begin(
        "client", "run", "--", "sleep", mark, TIPSTAFF_PLANE=site.url, TIPSTAFF_TOKEN=site.token("carla")
    )
    wait_for(lambda: [one for one in running(f"sleep\0{mark}") if one != client.process.pid and inside(one)], 30)

    client.process.send_signal(signal.SIGINT)
    client.process.wait(30)

    runs = site.ask("GET", "/v1/runs").json["runs"]
    assert site.until(runs[0]["runId"], seconds=15)["status"] == "cancelled"
    wait_for(lambda: not [one for one in running(f"sleep\0{mark}") if inside(one)], 10)


def inside(number):
    """Say whether a process is the command itself, and not what asked for it."""
    try:
        return Path(f"/proc/{number}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def test_a_plane_that_restarts_is_not_noticed(site):
    """A client that waits, and a runner that works, get over a plane that is killed and started again."""
    mark = f"4.{time.monotonic_ns()}"
    token = site.token("dora")
    client = site.begin("client", "run", "--", "sh", "-c", f"echo one; sleep {mark}; echo two",
                        TIPSTAFF_PLANE=site.url, TIPSTAFF_TOKEN=token)  # fmt: skip
    wait_for(lambda: running(f"sleep\0{mark}"), 30)

    site.plane.kill()
    site.start_plane()

    assert client.process.wait(60) == 0
    assert "one\n" in client.text
    assert "two\n" in client.text


def test_nobody_gets_in_without_a_token(site):
    """Without a token, and with a wrong one, the command line says in a sentence what to do, and nothing runs."""
    missing = site.call("run", "--", "true", TIPSTAFF_PLANE=site.url, code=None)
    wrong = site.call("run", "--", "true", TIPSTAFF_PLANE=site.url, TIPSTAFF_TOKEN="wrong", code=None)  # noqa: S106 - nobody's token

    assert missing.returncode != 0
    assert wrong.returncode != 0
    assert b"TIPSTAFF_TOKEN" in missing.stderr
    assert b"Traceback" not in missing.stderr + wrong.stderr
    assert site.ask("GET", "/v1/runs").json["runs"] == []
