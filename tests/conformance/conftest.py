"""What the conformance suite shares: every tier that there is, and a short way to run something in one."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.process import Process
from tipstaff.isolation.tier import Ended, Passage, Plan, Source, Tier
from tipstaff.model.limits import Limits
from tipstaff.model.tiers import TierReport

TIERS: dict[str, Callable[[Path], Bubblewrap | Process]] = {
    "bwrap": lambda scratch: Bubblewrap(scratch=scratch),
    "process": lambda scratch: Process(scratch=scratch),
}
ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/home"}
LIMITS = {
    "time_ms": 30_000,
    "memory_bytes": 1 << 28,
    "cpu_millis": 2000,
    "pids": 64,
    "disk_bytes": 1 << 28,
    "output_bytes": 1 << 20,
}


# What a tier keeps on every host that it works on; a test that is about something else is not asked of it.
PROMISED = {
    "bwrap": {"files", "secrets", "pids", "sockets"},
    "process": {"pids"} if os.geteuid() == 0 else set(),
}


class Outcome(NamedTuple):
    """How a run ended and what it said."""

    ended: Ended
    stdout: bytes
    stderr: bytes

    @property
    def told(self) -> tuple[str, int]:
        """The ending and the exit code."""
        return self.ended.ending, self.ended.exit_code

    @property
    def text(self) -> str:
        """Standard output, without the last newline."""
        return self.stdout.decode().rstrip("\n")


Run = Callable[..., Awaitable[Outcome]]


@pytest.fixture(params=sorted(TIERS))
async def tier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tier]:
    """Every tier in turn, but for what it does not promise (PROMISED); one that this host cannot have is skipped."""
    name = request.param
    tier = TIERS[name](scratch_folder(tmp_path))
    try:
        report = await tier.report()
        if not report.available:
            required = name in request.config.getoption("--require-tier")
            (pytest.fail if required else pytest.skip)(f"{name}: {report.missing}")
        _hold_to_its_word(request, report)
        yield tier
    finally:
        await tier.close()


def _hold_to_its_word(request: pytest.FixtureRequest, report: TierReport) -> None:
    """Fail where the tier says that it does not keep what the test is about, although it should."""
    said = {verdict.clause: verdict for verdict in report.verdicts}
    for mark in request.node.iter_markers("promise"):
        if mark.args[0] in said:
            assert said[mark.args[0]].strength == "enforced", said[mark.args[0]]


def scratch_folder(tmp_path: Path) -> Path:
    """A folder for what commands write, that others may pass through."""
    return tmp_path / "scratch"


@pytest.fixture
def run(tier: Tier) -> Run:
    """Run a command to its end in the tier at hand."""

    async def run(
        *argv: str, stdin: Source | bytes | None = None, cancel: asyncio.Event | None = None, **options: Any
    ) -> Outcome:
        stdout, stderr = bytearray(), bytearray()
        passage = Passage(
            stdin=fed(stdin) if isinstance(stdin, bytes) else stdin,
            stdout=stdout.extend,
            stderr=stderr.extend,
            cancel=cancel or asyncio.Event(),
        )
        ended = await tier.run(plan(*argv, **options), passage)
        return Outcome(ended, bytes(stdout), bytes(stderr))

    return run


def plan(*argv: str, **options: Any) -> Plan:
    """A plan with generous limits; options are its fields, and limits by their names."""
    limits = {name: options.pop(name, value) for name, value in LIMITS.items()}
    return Plan(**{"argv": argv, "environ": ENVIRON, "limits": Limits(**limits), **options})


def fed(data: bytes) -> asyncio.StreamReader:
    """A reader that gives `data`, and then its end."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


@pytest.fixture
def as_root() -> bool:
    """Whether the suite runs as root; it is run again as somebody else then."""
    return os.geteuid() == 0


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder of ours with one file, a folder with a file, and a link."""
    folder = tmp_path / "workspace"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("before\n")
    (folder / "inner" / "deep").write_text("deep\n")
    (folder / "link").symlink_to("file")
    return folder
