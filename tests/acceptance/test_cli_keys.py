"""`tipstaff keys` as a process: keys are made privately, shown publicly, trusted on purpose."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tipstaff.keys import PrivateKey

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))


@pytest.fixture
def tipstaff(tmp_path):
    """Run the program with a home of its own."""

    def run(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
        places = {"TIPSTAFF_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", **environ}
        command = [TIPSTAFF, "keys", *map(str, arguments)]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=places, check=False, timeout=60, text=True
        )

    return run


def listed(tipstaff):
    """List all keys."""
    return json.loads(tipstaff("list", "--json").stdout)


def test_a_key_is_made_privately(tipstaff, tmp_path):
    """The private half is 0600 in a 0700 home, whatever the umask; the public half and the id can be shown."""
    before = os.umask(0)
    try:
        made = json.loads(tipstaff("new", "plane", "--json").stdout)
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(made["privateKey"]).stat().st_mode) == 0o600
    shown = tipstaff("show", "plane")
    assert shown.stdout == Path(made["publicKey"]).read_text()
    assert shown.stderr.strip() == made["keyId"]


def test_a_key_is_never_overwritten(tipstaff):
    """A second key of the same name is refused, and the first one stays."""
    first = tipstaff("new", "plane").stdout
    second = tipstaff("new", "plane")

    assert second.returncode == 77
    assert "exists already" in second.stderr
    assert listed(tipstaff)["own"][0]["keyId"] in first


@pytest.mark.parametrize("name", ["../outside", "a/b", "", ".hidden", "a" * 65, "a\nb"])
def test_a_name_is_not_a_path(tipstaff, tmp_path, name):
    """What could leave the folder, or hide, cannot name a key."""
    assert tipstaff("new", name).returncode == 64
    assert not list(tmp_path.rglob("*.pem"))


def test_a_passphrase_encrypts(tipstaff, tmp_path):
    """With a passphrase file the private key is encrypted; a short one, and no terminal to ask on, are refused."""
    (tmp_path / "passphrase").write_text("correct horse\n")
    (tmp_path / "short").write_text("abc\n")

    assert tipstaff("new", "alice", "--passphrase-file", tmp_path / "passphrase").returncode == 0
    private = next((tmp_path / "home").rglob("alice.key.pem")).read_bytes()
    assert PrivateKey.parse(private, b"correct horse").public.key_id == listed(tipstaff)["own"][0]["keyId"]
    assert listed(tipstaff)["own"][0]["private"] == "encrypted"
    assert tipstaff("new", "bob", "--passphrase-file", tmp_path / "short").returncode == 64
    assert "no terminal" in tipstaff("new", "bob", "--passphrase").stderr


def test_a_passphrase_has_a_bound(tipstaff, tmp_path):
    """The longest that the cipher takes is taken; a longer one, or a file without an end, is a mistake."""
    (tmp_path / "longest").write_text("é" * 511 + "x\n")
    (tmp_path / "longer").write_text("é" * 512)

    assert tipstaff("new", "alice", "--passphrase-file", tmp_path / "longest").returncode == 0
    assert tipstaff("new", "bob", "--passphrase-file", tmp_path / "longer").returncode == 64
    assert tipstaff("new", "bob", "--passphrase-file", "/dev/zero").returncode == 64


@pytest.mark.parametrize("early", ["0001-01-01", "0999-12-31T23:59:59Z"])
def test_any_year_can_be_said(tipstaff, tmp_path, early):
    """A time of the first thousand years is spelled with four digits too, so that the file can be read again."""
    (tmp_path / "plane.pem").write_text(PrivateKey.generate().public.pem)

    assert tipstaff("trust", tmp_path / "plane.pem", "--not-before", early).returncode == 0
    assert listed(tipstaff)["known"][0]["notBefore"].startswith(f"from {early[:10]}T")


def test_a_name_that_is_not_text_is_refused(tipstaff, tmp_path):
    """A name with bytes that are not UTF-8 is a mistake, and the known keys can still be read."""
    (tmp_path / "plane.pem").write_text(PrivateKey.generate().public.pem)

    assert tipstaff("trust", tmp_path / "plane.pem", "--name", "\udcff").returncode == 65
    assert tipstaff("trust", tmp_path / "plane.pem", "--name", "é").returncode == 0
    assert listed(tipstaff)["known"][0]["name"] == "é"


def test_two_at_once_lose_nothing(tipstaff, tmp_path):
    """Keys that are trusted by many processes at once are all there afterwards."""
    files = []
    for number in range(12):
        files.append(tmp_path / f"{number}.pem")
        files[-1].write_text(PrivateKey.from_seed(bytes([number]) * 32).public.pem)
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda path: tipstaff("trust", path).returncode, files))

    assert codes == [0] * 12
    assert len(listed(tipstaff)["known"]) == 12


def test_what_is_wrong_is_said(tipstaff, tmp_path):
    """Unknown keys, odd times, a damaged file and no agent are one sentence each, without a traceback."""
    (tmp_path / "key.pem").write_text(PrivateKey.generate().public.pem)
    for arguments, code, words in (
        (("show", "nobody"), 66, "no key 'nobody'"),
        (("revoke", "ed25519:0000000000000000"), 66, "there is no home"),
        (("trust", tmp_path / "key.pem", "--not-after", "tomorrow"), 64, "not a time"),
        (("trust", tmp_path), 77, "cannot be read"),
        (("list", "--agent"), 64, "no ssh-agent"),
    ):
        ended = tipstaff(*arguments)
        assert (ended.returncode, ended.stdout) == (code, ""), arguments
        assert words in ended.stderr
        assert "Traceback" not in ended.stderr
    assert tipstaff("trust", tmp_path / "key.pem").returncode == 0
    (tmp_path / "home" / "known-keys.json").write_text("{")
    assert "is damaged" in tipstaff("list").stderr
