"""`tipstaff secrets` as a process: a value goes in and is never seen again."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
CANARY = "canary-4f1c9a77e2"
OTHER = "another-91b2c3d4e5"


@pytest.fixture
def secrets(tipstaff):
    """Run one of the commands; the value goes on stdin."""

    def run(*arguments: object, value: str = "") -> subprocess.CompletedProcess[bytes]:
        ended: subprocess.CompletedProcess[bytes] = tipstaff("secrets", *arguments, stdin=value.encode())
        assert b"canary" not in ended.stdout + ended.stderr
        assert b"Traceback" not in ended.stderr
        return ended

    return run


@pytest.fixture
def home(environ):
    """The home that the program uses."""
    return Path(environ["TIPSTAFF_HOME"])


def listed(secrets, *options):
    """List all secrets."""
    return json.loads(secrets("list", "--json", *options).stdout)["secrets"]


def configure(home, **entries):
    """Write the configuration of the home."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "secrets.yaml").write_text(json.dumps({"secrets": entries}))
    (home / "secrets.yaml").chmod(0o600)


def test_a_secret_from_its_beginning_to_its_end(secrets, home):
    """A secret is set, listed, checked, rotated, and removed; each step says what it did, and no file holds a value."""
    assert secrets("list").stdout == b"no secrets yet; keep one with: tipstaff secrets set NAME\n"
    assert secrets("set", "TOKEN", value=f"{CANARY}\n").stdout == b"TOKEN is set\n"
    first = listed(secrets, "--check")[0]
    assert (first["name"], first["source"], first["rotatedAt"], first["fault"]) == ("TOKEN", "store", None, "")
    assert secrets("rotate", "TOKEN", value=OTHER).stdout.startswith(b"TOKEN is rotated")
    second = listed(secrets)[0]
    assert first["changedAt"] < second["changedAt"] == second["rotatedAt"]
    assert secrets("set", "TOKEN", value=CANARY).stdout == b"TOKEN is set, in place of the value before\n"
    assert secrets("list", "--check").stdout.splitlines()[1].split()[-1] == b"ok"

    assert not [path for path in home.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
    assert secrets("remove", "TOKEN").stdout == b"TOKEN is removed from the store\n"
    assert listed(secrets) == []
    assert secrets("remove", "TOKEN").returncode == 66


def test_json_says_the_same(secrets):
    """Each command answers in JSON when asked, and an error is an object too."""
    assert json.loads(secrets("set", "A", "--json", value=CANARY).stdout) == {"name": "A", "replaced": False}
    assert json.loads(secrets("set", "--json", "A", value=OTHER).stdout) == {"name": "A", "replaced": True}
    assert json.loads(secrets("--json", "rotate", "A", value=CANARY).stdout) == {"name": "A"}
    assert json.loads(secrets("remove", "A", "--json").stdout) == {"name": "A"}
    assert json.loads(secrets("remove", "A", "--json").stdout)["error"]["kind"] == "NotFoundError"


@pytest.mark.parametrize("command", ["set", "rotate"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["A", CANARY],
        [f"A={CANARY}"],
        ["A", f"--value={CANARY}"],
        ["A", "--value", CANARY],
        ["--", "A", CANARY],
        [f"-{CANARY}"],
    ],
)
def test_a_value_on_the_command_line_is_refused_and_not_repeated(secrets, command, arguments):
    """However a value stands on the command line, nothing is kept, and no message repeats it."""
    ended = secrets(command, *arguments, value=OTHER)

    assert (ended.returncode, ended.stdout) == (64, b"")
    assert b"stdin" in ended.stderr
    assert listed(secrets) == []
    assert secrets("set", "--", "A", value=CANARY).returncode == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", b"stdin is empty"), (b"\n", b"shorter than"), (b"short", b"shorter than"), (b"a" * 40, b"different"),
        (b"canary\0canary", b"NUL"), (b"\xff\xfe canary canary", b"base64"), (b"canary" * 20_000, b"longer than"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("debug", ["0", "1"])
def test_an_unfit_value_is_refused_and_not_repeated(tipstaff, environ, value, words, debug):
    """A value that could not be kept out of outputs is refused when it is set, also with tracebacks on."""
    environ["TIPSTAFF_DEBUG"] = debug
    ended = tipstaff("secrets", "set", "A", stdin=value)

    assert ended.returncode == 65
    assert words in ended.stderr
    assert b"canary" not in ended.stdout + ended.stderr
    assert tipstaff("secrets", "set", "A", stdin=CANARY.encode()).returncode == 0


@pytest.mark.parametrize("name", ["../a", "a b", ".a", "é", "a*"])
def test_a_name_is_not_a_path(secrets, name):
    """What could not be asked for later cannot be set."""
    assert secrets("set", name, value=CANARY).returncode == 64
    assert secrets("set", "team/a", value=CANARY).returncode == 0


def test_the_configuration_is_heeded(secrets, home, tmp_path):
    """Configured sources are listed and checked; a name that comes from elsewhere cannot be set in the store."""
    (tmp_path / "open").write_text(CANARY)
    (tmp_path / "open").chmod(0o644)
    configure(home, F={"file": str(tmp_path / "open")}, P={"exec": ["/bin/echo", "garbage"]})

    ended = secrets("set", "F", value=CANARY)
    assert (ended.returncode, b"comes from `file`" in ended.stderr) == (64, True)
    assert secrets("set", "S", value=CANARY).returncode == 0
    assert [(row["name"], row["source"]) for row in listed(secrets)] == [("F", "file"), ("P", "exec"), ("S", "store")]
    checked = secrets("list", "--check")
    assert checked.returncode == 1
    assert b"chmod 600" in checked.stdout
    assert b"does not print one JSON object" in checked.stdout
    (tmp_path / "open").chmod(0o600)
    configure(home, F={"file": str(tmp_path / "open")})
    assert secrets("list", "--check").returncode == 0


def test_what_is_broken_is_one_sentence(secrets, home):
    """A wrong configuration, a damaged store and a lost key are a sentence with exit code 77, and nothing is lost."""
    secrets("set", "A", value=CANARY)
    good = (home / "secrets.sealed").read_bytes()
    key = (home / "secrets.key").read_bytes()
    (home / "secrets.sealed").write_bytes(good[:-9])
    for command, value in (("set", OTHER), ("rotate", OTHER), ("remove", "")):
        assert secrets(command, "A", value=value).returncode == 77
    assert b"is damaged" in secrets("list").stderr
    (home / "secrets.sealed").write_bytes(good)
    (home / "secrets.key").unlink()
    assert b"is gone" in secrets("list").stderr
    (home / "secrets.key").write_bytes(key)
    (home / "secrets.key").chmod(0o600)
    (home / "secrets.yaml").write_text("secrets:\n  A: {stroe: true}\n")
    assert b"secrets.yaml:2:7: unknown key `stroe`" in secrets("set", "A", value=OTHER).stderr
    (home / "secrets.yaml").unlink()
    assert secrets("list", "--check").returncode == 0


def test_a_failed_write_shows_no_frame_with_the_value(tipstaff, environ, home):
    """Where a value was read but cannot be written, the traceback that is asked for stops at the command."""
    environ["TIPSTAFF_DEBUG"] = "1"
    tipstaff("secrets", "set", "A", stdin=CANARY.encode())
    home.joinpath("secrets.sealed").write_bytes(b"{")
    ended = tipstaff("secrets", "set", "A", stdin=CANARY.encode())

    assert ended.returncode == 77
    assert b"sealed.py" not in ended.stderr
    assert b"canary" not in ended.stderr


@pytest.mark.parametrize("typed", [CANARY, "x" * 4200])
def test_a_terminal_is_asked_unseen(environ, typed):
    """On a terminal the value is asked for and not shown; one that the terminal may have cut is refused."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [TIPSTAFF, "secrets", "set", "A"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environ,
        start_new_session=True,
    )
    os.close(follower)
    seen = read_until(leader, b"(not shown): ")
    os.write(leader, typed.encode() + b"\n")
    seen += read_until(leader, None)
    os.close(leader)

    assert process.wait(30) == (0 if typed == CANARY else 65)
    assert typed[:12].encode() not in seen
    assert (b"A is set" if typed == CANARY else b"may have been cut") in seen


def read_until(descriptor, words):
    """Read what a terminal shows until some words, or to its end."""
    seen, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline and (words is None or words not in seen):
        if select.select([descriptor], [], [], 1)[0]:
            try:
                part = os.read(descriptor, 4096)
            except OSError:  # Linux's end of a terminal
                break
            seen += part
    return seen


def test_the_process_holds_it_closed(environ):
    """While the command waits for the value, it is a process that writes no core dump."""
    script = 'ulimit -S -c "$(ulimit -H -c)"; exec "$0" secrets set A'  # so that there is something to take away
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, TIPSTAFF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )
    deadline = time.monotonic() + 30
    while not (closed := is_closed(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert process.communicate(CANARY.encode(), 30)[0] == b"A is set\n"
    assert closed


def is_closed(pid):
    """Say whether a process may write no core dump."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in limits if line.startswith("Max core file size")).split()[4] == "0"
