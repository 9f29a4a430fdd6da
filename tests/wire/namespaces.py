"""Namespaces of a test's own, held by a process: a small disk, or two machines with a cable between them.

As root they are plain namespaces. An ordinary user needs a user namespace around them, and the programs run one user
namespace further in, where they are that user again. Nothing of the host is mounted or configured.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = os.geteuid() == 0
UNSHARE, NSENTER = "/usr/bin/unshare", "/usr/bin/nsenter"
ORDINARY = [UNSHARE, "--user", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}", "--"]
TOOLS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class Held:
    """Namespaces that a sleeping process holds open."""

    def __init__(self, holder: int, kinds: str, *, user: bool) -> None:
        self._words = [NSENTER, "--target", str(holder), *([f"--{kind}" for kind in kinds.split()])]
        self._words += ["--user", "--preserve-credentials"] if user else []
        self.holder, self._user = holder, user

    @property
    def before(self) -> list[str]:
        """The words in front of a program that is to run in here."""
        return [*self._words, "--", *(ORDINARY if self._user else [])]

    def do(self, *words: str) -> str:
        """Run a tool in here, with the rights over these namespaces."""
        ended = subprocess.run([*self._words, "--", *words], capture_output=True, env=TOOLS, check=False, timeout=20)
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout.decode()


@contextmanager
def _held(options: list[str], kinds: str, inside: Held | None = None) -> Iterator[Held]:
    """Start a process in new namespaces that sleeps until it is not needed any more."""
    around = [*inside._words, "--"] if inside is not None else []
    own_user = not ROOT and inside is None
    words = [*around, UNSHARE, *(["--user", "--map-root-user"] if own_user else []), *options, "--", "sleep", "600"]
    process = subprocess.Popen(words, env=TOOLS, stdin=subprocess.DEVNULL)
    try:
        _wait_for_sleep(process.pid)
        yield Held(process.pid, kinds, user=not ROOT)
    finally:
        process.kill()
        process.wait()


def _wait_for_sleep(holder: int) -> None:
    until = time.monotonic() + 10
    while Path(f"/proc/{holder}/comm").read_text().strip() != "sleep":
        assert time.monotonic() < until, "the namespaces were not made"
        time.sleep(0.01)


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Held]:
    """Put a small disk at a folder, for programs that are started in here only."""
    folder.mkdir(parents=True, exist_ok=True)
    with _held(["--mount", "--propagation", "private"], "mount") as held:
        held.do("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0777", "tmpfs", str(folder))
        yield held


class Cable:
    """Two machines and what connects them."""

    def __init__(self, plane: Held, runner: Held) -> None:
        self.plane, self.runner = plane, runner
        self.address = "10.99.0.1"

    def cut(self) -> None:
        """Pull the cable out."""
        self.plane.do("ip", "link", "set", "tip0", "down")

    def heal(self) -> None:
        """Put it back in."""
        self.plane.do("ip", "link", "set", "tip0", "up")


@contextmanager
def two_machines() -> Iterator[Cable]:
    """Make two networks with a cable between them, and no way to anywhere else."""
    with _held(["--net"], "net") as plane, _held(["--net"], "net", plane) as runner:
        plane.do("ip", "link", "add", "tip0", "type", "veth", "peer", "name", "tip1", "netns", str(runner.holder))
        for held, name, address in ((plane, "tip0", "10.99.0.1/24"), (runner, "tip1", "10.99.0.2/24")):
            held.do("ip", "address", "add", address, "dev", name)
            held.do("ip", "link", "set", "lo", "up")
            held.do("ip", "link", "set", name, "up")
        yield Cable(plane, runner)
