"""`tipstaff verify` as a process: what it prints, and what it exits with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tipstaff.keys import PrivateKey

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
VECTORS = Path(__file__).resolve().parent.parent / "vectors"
INDEX = json.loads((VECTORS / "index.json").read_text())
BUNDLE = VECTORS / "other" / "command-shell.bundle.json"
PLANE = VECTORS / "other" / "plane.pem"
OTHER_PEM = PrivateKey.generate().public.pem
EXIT_CODES = {"valid": 0, "invalid": 1, "unproven": 2}


@pytest.fixture
def tipstaff(tmp_path):
    """Run the program with a home of its own."""

    def run(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        environ = {"TIPSTAFF_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        command = [TIPSTAFF, *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, env=environ, check=False, timeout=60)

    return run


def one_of_each() -> list[str]:
    """Name one file for each verdict and kind of document, among those that need a pinned key at the most."""
    found: dict[tuple[str, str], str] = {}
    for name, entry in INDEX["files"].items():
        if "known" not in entry and "artifacts" not in entry:
            kind = name.split("/")[-1].split(".")[0].split("-")[0]
            found.setdefault((entry["verdict"], kind if kind in {"refusal", "journal", "lost"} else "bundle"), name)
    return list(found.values())


@pytest.mark.parametrize("name", one_of_each())
def test_the_exit_code_is_the_verdict(tipstaff, tmp_path, name):
    """Valid exits 0, invalid 1, unproven 2; the numbers of the problems are those of the index."""
    entry = INDEX["files"][name]
    pins = []
    for number, who in enumerate(entry["pin"]):
        (tmp_path / f"{number}.pem").write_text(INDEX["keys"][who])
        pins += ["--key", tmp_path / f"{number}.pem"]

    ended = tipstaff("verify", VECTORS / name, *pins, "--json")

    (answer,) = json.loads(ended.stdout)["files"]
    assert (ended.returncode, answer["verdict"]) == (EXIT_CODES[entry["verdict"]], entry["verdict"])
    assert sorted({problem["number"] for problem in answer["problems"]}) == entry["problems"]


def test_any_edit_is_found(tipstaff, tmp_path):
    """The same bundle verifies, and does not after one digit was changed."""
    edited = tmp_path / "edited.json"
    edited.write_text(BUNDLE.read_text().replace('"exitCode": 0', '"exitCode": 1'))

    assert tipstaff("verify", BUNDLE, "--key", PLANE).returncode == 0
    ended = tipstaff("verify", edited, "--key", PLANE)
    assert ended.returncode == 1
    assert b"8. events[4]: its hash does not fit its content" in ended.stdout


def test_a_known_key_is_enough(tipstaff):
    """Without a key the answer is 2; once the plane's key is trusted it is 0, and 1 for what a revoked key signed."""
    key_id = json.loads(tipstaff("keys", "show", PLANE, "--json").stdout)["keyId"]

    assert tipstaff("verify", BUNDLE).returncode == 2
    assert tipstaff("keys", "trust", PLANE, "--role", "plane").returncode == 0
    assert tipstaff("verify", BUNDLE).returncode == 0
    assert tipstaff("keys", "revoke", key_id, "--since", "2026-01-01").returncode == 0
    assert tipstaff("verify", BUNDLE).returncode == 1


def test_a_pinned_plane_is_enough(tipstaff, tmp_path):
    """What a plane signed whose key was pinned is valid, and says whose it is; --key, and a revocation, still win."""
    pin(tmp_path / "home", PLANE.read_text())

    ended = tipstaff("verify", "-", stdin=BUNDLE.read_bytes())
    assert ended.returncode == 0
    assert b"note: the plane's key is the one that was pinned for https://plane.example.com\n" in ended.stdout
    (tmp_path / "other.pem").write_text(OTHER_PEM)
    assert tipstaff("verify", BUNDLE, "--key", tmp_path / "other.pem").returncode == 2
    assert tipstaff("keys", "trust", PLANE, "--role", "plane").returncode == 0
    assert b"pinned" not in tipstaff("verify", BUNDLE).stdout
    key_id = json.loads(tipstaff("keys", "show", PLANE, "--json").stdout)["keyId"]
    assert tipstaff("keys", "revoke", key_id, "--since", "2026-01-01").returncode == 0
    assert tipstaff("verify", BUNDLE).returncode == 1


def test_another_planes_pin_proves_nothing(tipstaff, tmp_path):
    """A pin counts for what its own key signed; a damaged list of pins is an error, never an empty one."""
    pin(tmp_path / "home", OTHER_PEM)
    assert tipstaff("verify", BUNDLE).returncode == 2
    (tmp_path / "home" / "known-planes.json").write_text("{}")
    ended = tipstaff("verify", BUNDLE)
    assert (ended.returncode, b"is damaged" in ended.stderr) == (65, True)
    assert tipstaff("verify", BUNDLE, "--key", PLANE).returncode == 0


def test_verifying_needs_no_client(tmp_path):
    """What speaks to planes is not even loaded."""
    pin(tmp_path / "home", PLANE.read_text())
    code = "import sys; from tipstaff.doors.cli import main; print(main(sys.argv[1:]), 'httpx2' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code, "verify", str(BUNDLE)],
        capture_output=True, check=True, timeout=60, env={"TIPSTAFF_HOME": str(tmp_path / "home")},
    )  # fmt: skip

    assert ended.stdout.splitlines()[-1] == b"0 False"


def pin(home: Path, pem: str) -> None:
    """Write the list of pins as a client leaves it that used one plane."""
    home.mkdir(mode=0o700)
    planes = {"version": "tipstaff.known-planes.v1", "planes": {"https://plane.example.com": [pem]}}
    (home / "known-planes.json").write_text(json.dumps(planes))
    (home / "known-planes.json").chmod(0o600)


def test_the_worst_file_decides(tipstaff, tmp_path):
    """Of several files each is answered; one that is invalid makes it 1, else one that cannot be read makes it 2."""
    (tmp_path / "broken.json").write_text("{")
    missing = tmp_path / "missing.json"

    ended = tipstaff("verify", missing, BUNDLE, tmp_path / "broken.json", "--key", PLANE)
    assert ended.returncode == 1
    assert b"valid: " in ended.stdout
    assert b"there is no file" in ended.stderr
    assert tipstaff("verify", missing, BUNDLE, "--key", PLANE).returncode == 2


def test_a_pipe_is_read(tipstaff):
    """A dash reads the document from stdin."""
    assert tipstaff("verify", "-", "--key", PLANE, stdin=BUNDLE.read_bytes()).returncode == 0
    assert tipstaff("verify", "-", "--key", PLANE, stdin=b"\x00\xff").returncode == 1


@pytest.mark.parametrize("closed", ["2>&-", "<&-"])
def test_a_closed_stream_that_is_not_needed_changes_nothing(closed):
    """Without a stderr, or without a stdin that nobody asked for, the verdict is the same."""
    assert in_shell(f'"$0" verify {BUNDLE} --key {PLANE} {closed}').returncode == 0


def test_a_closed_stdin_is_an_answer():
    """A dash without a stdin is a file that cannot be read, not a fault of ours."""
    ended = in_shell(f'"$0" verify - --key {PLANE} <&-')

    assert (ended.returncode, ended.stderr) == (2, b"tipstaff: stdin is closed\n")


def test_memory_is_asked_for_as_bytes_come():
    """A small bundle is verified in little memory, from a file and from a pipe; endless input ends with a sentence."""
    little = "ulimit -v 600000;"

    assert in_shell(f'{little} "$0" verify {BUNDLE} --key {PLANE}').returncode == 0
    assert in_shell(f'{little} cat {BUNDLE} | "$0" verify - --key {PLANE}').returncode == 0
    assert in_shell(f'{little} "$0" verify /dev/zero --key {PLANE}').returncode == 71


def in_shell(command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which $0 is the program."""
    return subprocess.run(["/bin/sh", "-c", command, TIPSTAFF], capture_output=True, check=False, timeout=60)


def test_a_wrong_key_file_is_an_error(tipstaff, tmp_path):
    """A key that is not there, or is no key, is a sentence with its own exit code and no verdict."""
    (tmp_path / "nonsense.pem").write_text("nonsense")

    assert tipstaff("verify", BUNDLE, "--key", tmp_path / "absent.pem").returncode == 66
    ended = tipstaff("verify", BUNDLE, "--key", tmp_path / "nonsense.pem")
    assert (ended.returncode, ended.stdout) == (77, b"")
    assert b"not a public key" in ended.stderr


def test_artifacts_are_compared(tipstaff, tmp_path):
    """Artifacts in a folder, each named by its digest, are checked against the receipt."""
    entry = INDEX["files"]["valid/artifacts.json"]
    folder = tmp_path / "artifacts"
    folder.mkdir()
    for name, content in entry["artifacts"].items():
        (folder / name).write_text(content)
    (tmp_path / "plane.pem").write_text(INDEX["keys"]["plane"])
    command = ("verify", VECTORS / "valid/artifacts.json", "--key", tmp_path / "plane.pem", "--artifacts", folder)

    assert tipstaff(*command).returncode == 0
    (folder / "unasked").touch()
    os.truncate(folder / "unasked", 1 << 36)  # more than there is memory: what the receipt does not name is not read
    assert tipstaff(*command).returncode == 0
    (folder / next(iter(entry["artifacts"]))).write_text("something else")
    assert tipstaff(*command).returncode == 1
