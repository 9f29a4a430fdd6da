"""Runs of the real program that want to get out, and what they left: output, our own words, the bundle with its events.

One home for a whole file of tests, because what is tested is the run and not the first use of a home.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.web import Web, open_web
from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.keys.known import read_known_keys

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
TRUSTING = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS")
BASE = {
    "version": "tipstaff.policy.v1",
    "name": "outing",
    "principals": [{"id": "*"}],
    "rules": [{"id": "all", "effect": "allow", "when": "any", "reason": "a test"}],
    "pools": ["*"],
    "files": {"readable": ["/**"], "workspaces": ["/**"]},
    "tiers": {"tolerate": {"memory": "weaker", "cpu": "unenforceable"}},
}
Json = dict[str, Any]


class Went(NamedTuple):
    """How a run went."""

    code: int
    stdout: bytes
    stderr: bytes
    bundle: Json

    @property
    def text(self) -> str:
        """Standard output, without white space around it."""
        return self.stdout.decode().strip()

    @property
    def said(self) -> str:
        """Standard error: the command's and ours."""
        return self.stderr.decode()

    @property
    def events(self) -> list[Json]:
        """What the chain says."""
        return [link["event"] for link in self.bundle["events"]]

    @property
    def attempts(self) -> list[Json]:
        """What the chain says about how attempts to get out ended."""
        return [event for event in self.events if event["type"] == "network.connected" and "opened" not in event]

    @property
    def leaks(self) -> list[tuple[str, str]]:
        """Which secrets the receipt says were found, and where."""
        return [(leak["secret"], leak["stream"]) for leak in self.bundle["receipt"].get("leaks", [])]


class Outing:
    """A home and a folder, from which runs start."""

    def __init__(self, folder: Path, web: Web) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.environ = {
            "TIPSTAFF_HOME": str(self.home),
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
            "SSL_CERT_FILE": str(web.authority),
        }
        self._web = web
        self._runs = 0

    def policy(self, **sections: Any) -> str:
        """Write a policy that lets everything run, with these sections; gives its path."""
        self._runs += 1
        path = self.folder / f"policy-{self._runs}.yaml"
        path.write_text(json.dumps(BASE | sections))
        return str(path)

    def run(self, *words: object, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end."""
        return subprocess.run(
            [TIPSTAFF, *map(str, words)],
            input=stdin,
            env=self.environ | environ,
            cwd=self.folder,
            capture_output=True,
            timeout=100,
            check=False,
        )

    def go(self, *words: object, stdin: bytes = b"", **environ: str) -> Went:
        """Have a command run, and verify what it left."""
        self._runs += 1
        path = self.folder / f"bundle-{self._runs}.json"
        ended = self.run("run", "--bundle", path, *words, stdin=stdin, **environ)
        assert b"Traceback" not in ended.stderr.split(b"tipstaff:")[-1], ended.stderr
        assert path.exists(), ended.stderr
        bundle: Json = json.loads(path.read_text())
        assert verify(bundle, known=read_known_keys(Home(self.home).known_keys)).verdict == "valid"
        return Went(ended.returncode, ended.stdout, ended.stderr, bundle)

    def trusting(self, *command: object) -> list[object]:
        """Spell a command whose programs trust the web's authority; its file must be readable for them."""
        named = " ".join(f"{name}={self._web.authority}" for name in TRUSTING)
        return ["--read", self._web.authority, "--", "sh", "-c", f'export {named}; exec "$@"', "sh", *command]


def everything_in(*folders: Path) -> dict[str, bytes]:
    """Read every file below some folders, by name; what vanishes meanwhile is left out."""
    found = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = Path(place, name)
                try:
                    if path.is_file() and not path.is_symlink():
                        found[str(path)] = path.read_bytes()
                except OSError:
                    continue
    return found


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """What is out there: a web of its own for each file of tests."""
    with open_web(tmp_path_factory.mktemp("web") / "web") as web:
        yield web


@pytest.fixture(scope="module")
def outing(tmp_path_factory: pytest.TempPathFactory, web: Web) -> Outing:
    """A home from which runs start."""
    return Outing(tmp_path_factory.mktemp("outing"), web)
