"""`tipstaff plane`: a plane is made whole or not at all, lets people in, serves, and ends when it is told to."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import httpx2
import pytest

from tipstaff.doors.cli import main
from tipstaff.home import Home
from tipstaff.local.serving import open_serving, plane_policy

TOKEN = re.compile(r"tip_[A-Za-z0-9_-]{43}\n\Z")
ENROLL = re.compile(r"enr_[A-Za-z0-9_-]{43}\n\Z")
START_SECONDS = 30
ON_LOOPBACK = "127.0.0.1"


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A plane's home."""
    path = tmp_path / "plane"
    assert main(["plane", "init", "--home", str(path), "--port", "0"]) == 0
    capsys.readouterr()
    return path


def test_a_plane_is_made_and_its_admin_told_once(tmp_path, capsys):
    """The first command prints the token alone on stdout, says what to do next, and keeps no token."""
    path = tmp_path / "plane"
    assert main(["plane", "init", "--home", str(path)]) == 0
    said = capsys.readouterr()
    assert TOKEN.match(said.out)
    for words in ("tipstaff plane start", "tipstaff plane enroll-token", str(path)):
        assert words in said.err
    for file in path.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == (0o044 if file.name == "plane.pub.pem" else 0), file
        assert not file.is_file() or said.out.strip().encode() not in file.read_bytes()
    assert not (path / "keys" / "runner.key.pem").exists()


def test_the_default_place_is_in_the_users_home(tmp_path, monkeypatch, capsys):
    """Without --home the plane lives beside the user's own state, and --json gives one object."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "own"))
    assert main(["plane", "init", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["home"] == str(tmp_path / "own" / "plane")
    assert TOKEN.match(told["token"] + "\n")
    assert main(["plane", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["principals"][0]["name"] == "admin"


@pytest.mark.parametrize("named", [True, False])
def test_a_plane_is_in_no_open_folder(tmp_path, monkeypatch, named):
    """As the first command ever it leaves the user's own home closed; what is above a named folder is left alone."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "above" / "own"))
    old = os.umask(0o022)
    try:
        words = ["--home", str(tmp_path / "above" / "own" / "plane")] if named else []
        assert main(["plane", "init", *words]) == 0
    finally:
        os.umask(old)

    own = tmp_path / "above" / "own"
    assert stat.S_IMODE((own / "plane").stat().st_mode) == 0o700
    assert stat.S_IMODE(own.stat().st_mode) == (0o755 if named else 0o700)


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_home_that_others_may_write_gets_no_plane(tmp_path, monkeypatch, capsys, mode):
    """Whoever could write the folder above could put another plane in its place."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(mode)

    assert main(["plane", "init"]) == (0 if mode == 0o700 else 64)
    assert (tmp_path / "own" / "plane").exists() is (mode == 0o700)
    assert (mode == 0o700) or "chmod 700" in capsys.readouterr().err


def test_a_plane_is_never_overwritten(home, capsys):
    """A second `init` is refused and changes nothing."""
    before = {path: path.read_bytes() for path in home.rglob("*.y*ml")}
    assert main(["plane", "init", "--home", str(home)]) == 64
    assert "not empty" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in home.rglob("*.y*ml")} == before


@pytest.mark.parametrize("fault", ["policy", "port", "host", "missing"])
def test_a_plane_that_cannot_be_whole_is_not_made(tmp_path, capsys, fault):
    """A wrong policy, port or address leaves no folder behind; the same without the fault is made."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: tipstaff.policy.v1\nname: x\nrulez: []\n")
    wrong = {
        "policy": ["--policy", str(policy)],
        "port": ["--port", "70000"],
        "host": ["--host", ""],
        "missing": ["--policy", str(tmp_path / "none.yaml")],
    }[fault]
    path = tmp_path / "plane"
    assert main(["plane", "init", "--home", str(path), *wrong]) != 0
    assert capsys.readouterr().err
    assert not path.exists()
    assert main(["plane", "init", "--home", str(path)]) == 0


def test_a_policy_of_ones_own_is_copied(tmp_path):
    """A policy that is named is validated and becomes the plane's."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("version: tipstaff.policy.v1\nname: mine\nprincipals: [{id: alice}]\n")
    assert main(["plane", "init", "--home", str(tmp_path / "plane"), "--policy", str(policy)]) == 0
    assert (tmp_path / "plane" / "policy.yaml").read_text() == policy.read_text()


def test_people_are_let_in_and_shown_out(home, capsys):
    """A token is made, replaced and revoked; each is alone on stdout."""

    def token(*words: str) -> str:
        assert main(["plane", "token", "--home", str(home), *words]) == 0
        return str(capsys.readouterr().out)

    first = token("alice", "--role", "approver")
    assert TOKEN.match(first)
    second = token("alice", "--rotate")
    assert TOKEN.match(second)
    assert second != first
    assert token("alice", "--revoke") == ""
    assert main(["plane", "token", "--home", str(home), "alice"]) == 69
    assert main(["plane", "token", "--home", str(home), "bob", "--role", "king"]) == 64
    assert main(["plane", "token", "--home", str(home), "nobody", "--rotate"]) == 66
    capsys.readouterr()
    assert main(["plane", "status", "--home", str(home)]) == 0
    assert "alice, approver, revoked" in capsys.readouterr().out


@pytest.mark.parametrize(("expires", "code"), [("1h", 0), ("30m", 0), ("never", 64), ("90d", 65)])
def test_an_enrolment_token_lasts_as_long_as_it_is_said_to(home, capsys, expires, code):
    """The token is printed alone; a time that is none, or too long, is refused."""
    assert main(["plane", "enroll-token", "--home", str(home), "--pool", "build", "--expires", expires]) == code
    out = capsys.readouterr().out
    assert bool(ENROLL.match(out)) is (code == 0)


@pytest.mark.parametrize("command", [["start"], ["token", "x"], ["enroll-token"], ["prune"], ["status"]])
def test_where_no_plane_is_none_is_made(tmp_path, capsys, command):
    """Every command but `init` says that there is no plane, and how to make one."""
    assert main(["plane", command[0], "--home", str(tmp_path / "none"), *command[1:]]) == 66
    assert "tipstaff plane init" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("dry", [True, False])
def test_what_a_plane_has_refused_is_pruned_without_a_runner(home, capsys, dry):
    """What is old enough goes, or would go; what is not stays; and no runner's key is made."""
    with open_serving(Home(home), plane_policy(Home(home))) as plane:
        caller = plane.caller(plane.people.issue("dora", "requester", "human")["token"])
        assert caller is not None
        for _ in range(2):
            caller.submit({"execution": {"kind": "shell", "script": "ls"}, "files": {"workspace": "/srv"}})
    words = ["plane", "prune", "--home", str(home), "--json"]

    assert main([*words, "--older-than", "90d"]) == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == 0
    time.sleep(0.05)
    assert main([*words, "--older-than", "0.01", *(["--dry-run"] if dry else [])]) == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == 2
    assert main([*words, "--older-than", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == (2 if dry else 0)
    assert {path.name for path in (home / "keys").iterdir()} == {"plane.key.pem", "plane.pub.pem"}


@pytest.mark.parametrize("words", [["--older-than", "soon"], ["--down-to", "little"], ["--plane", "https://x"]])
def test_a_plane_is_pruned_where_it_lives_and_by_amounts(home, capsys, words):
    """An age or a size that is none is a mistake, and so is a plane elsewhere; without them retention decides."""
    assert main(["plane", "prune", "--home", str(home), *words]) == 64
    assert words[0] in capsys.readouterr().err
    assert main(["plane", "prune", "--home", str(home)]) == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--host", "0.0.0.0"], 126), (["--tls-cert", "x"], 64), (["--port", "70000"], 64)],  # noqa: S104 - is refused
)
def test_what_would_be_unsafe_or_cannot_be_meant_is_not_served(home, capsys, words, code):
    """Plain HTTP beyond this machine, half of TLS, and a port that is none are refused before anything listens."""
    assert main(["plane", "start", "--home", str(home), *words]) == code
    assert capsys.readouterr().err.startswith("tipstaff: ")


def test_a_fault_of_the_settings_has_its_place(home, capsys):
    """The settings are read strictly: line and column are told."""
    (home / "plane.yaml").write_text("host: 127.0.0.1\nprot: 1\n")
    assert main(["plane", "start", "--home", str(home)]) == 65
    assert "plane.yaml:2:1: unknown key `prot`" in capsys.readouterr().err


def test_a_policy_that_others_may_write_is_not_served(home, capsys):
    """Whoever could write the policy could permit themselves everything."""
    (home / "policy.yaml").chmod(0o666)
    assert main(["plane", "start", "--home", str(home)]) == 65
    assert "written by other users" in capsys.readouterr().err


def test_blobs_pass_through_without_being_held(home, capsys):
    """A plane's memory does not grow with the blobs that come and go."""
    assert main(["plane", "token", "--home", str(home), "carol"]) == 0
    headers = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    words = [sys.executable, "-m", "tipstaff", "plane", "start", "--home", str(home), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            url = json.loads(process.stdout.readline())["url"]  # type: ignore[union-attr]  # it is a pipe
            before = peak_bytes(process.pid)
            with httpx2.Client(base_url=url, headers=headers, timeout=START_SECONDS) as client:
                pieces = (bytes([number]) * 2**20 for number in range(200))
                digest = client.post("/v1/blobs", content=pieces).json()["hash"]
                with client.stream("GET", f"/v1/blobs/{digest}") as reply:
                    assert sum(map(len, reply.iter_bytes())) == 200 * 2**20
            assert peak_bytes(process.pid) - before < 60 * 2**20
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def peak_bytes(process_id: int) -> int:
    """Say how much memory a process has had at most."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(re.search(r"VmHWM:\s+([0-9]+) kB", status)[1]) * 1024  # type: ignore[index]  # Linux has it


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_plane_serves_until_it_is_told_to_end(home, as_json, ending):
    """The ready line comes when it serves, other commands work meanwhile, and a signal ends it with 0."""
    words = [sys.executable, "-m", "tipstaff", "plane", "start", "--home", str(home), *(["--json"] if as_json else [])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = (process.stdout if as_json else process.stderr).readline()  # type: ignore[union-attr]  # both are pipes
            if as_json:
                assert json.loads(said)["pid"] == process.pid
                url = json.loads(said)["url"]
            else:
                assert said.startswith("tipstaff: plane ready at http://127.0.0.1:")
                url = said.split()[-1]
            assert main(["plane", "token", "--home", str(home), "carol"]) == 0
            with urllib.request.urlopen(f"{url}/v1/health", timeout=START_SECONDS) as reply:  # noqa: S310 - our own
                assert json.load(reply) == {"ok": True, "service": "tipstaff-plane"}
        finally:
            os.kill(process.pid, ending)
            _, log = process.communicate(timeout=START_SECONDS)
        assert process.returncode == 0, log
        assert "Traceback" not in log
