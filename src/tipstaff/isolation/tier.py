"""What every tier answers to: a plan goes in, output streams while it runs, and a word on how it ended comes out.

A tier confines; it decides nothing. It either keeps every clause of the plan or says in its verdicts which one is
weaker, read back for this very run. It never falls back to a weaker tier. Everything that a run started is gone when
`run` returns.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from tipstaff.model.limits import Limits
from tipstaff.model.outcome import Usage
from tipstaff.model.receipt import Ending
from tipstaff.model.tiers import TierReport, Verdict

Sink = Callable[[bytes], Awaitable[None] | None]
# Asked once, when the sandbox stands and its command waits, with what was read back: an empty answer lets the command
# go, any other is the reason why it never runs.
Gate = Callable[[tuple[Verdict, ...]], Awaitable[str]]
# Takes the socket that listens inside, before the command is let go; without a taker nobody listens.
Outlet = Callable[[socket.socket], None]


class Leaving(msgspec.Struct, frozen=True):
    """What a command wrote in its copy-on-write workspace, as it lies on this host; all of it is the command's word."""

    base: Path  # the plan's workspace, as it is now
    upper: Path | None  # the upper layer of an overlay over the base
    copy: Path | None  # a whole copy of the base, where this host could not mount
    marks: str = ""  # how the names of the overlay's own attributes begin; any other name was set by the command


# Called once, when every process of a kept sandbox is gone and before anything of it is removed. It takes its time.
Left = Callable[[Leaving], Awaitable[None]]


class Source(Protocol):
    """Where standard input comes from; an `asyncio.StreamReader` is one."""

    async def read(self, n: int = -1, /) -> bytes:
        """Give up to `n` bytes, and nothing at the end."""
        ...


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, with everything decided. Paths are the host's; inside, the workspace is /workspace."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]  # complete: nothing is added
    limits: Limits  # all set
    files: tuple[tuple[str, str], ...] = ()  # (where inside /tmp, content): written before the command starts
    cwd: str = "."  # below the workspace
    workspace: Path | None = None  # None: an empty folder
    mode: Literal["copy-on-write", "in-place"] = "copy-on-write"
    keep: bool = False  # what it wrote in a copy-on-write workspace is handed over (Passage.left), then removed
    readable: tuple[Path, ...] = ()  # shown at the same place, read-only
    masked: tuple[str, ...] = ()  # names of programs that do not exist inside
    kill_output_bytes: int | None = None  # of both streams; None: what passes through is never cut
    port: int = 0  # of 127.0.0.1 inside, where a socket of ours is the only way out; 0: there is none
    harness: str = ""  # an agent that is no program: only a tier that brings its harness may take the plan
    on_trust: bool = False  # the host's own network, which nothing keeps it from; only `process` can do no better


def dropped(_: bytes) -> None:
    """Take output and do nothing with it."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What passes between one run and whoever asked for it: its streams, a way to stop it, and the last word."""

    stdin: Source | None = None
    stdout: Sink = dropped
    stderr: Sink = dropped
    cancel: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    gate: Gate | None = None
    outlet: Outlet | None = None
    left: Left | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, by the one table that all tiers share."""

    ending: Ending
    exit_code: int
    usage: Usage = Usage()
    verdicts: tuple[Verdict, ...] = ()
    reason: str = ""  # a sentence, where the ending needs one


class Ahead(Protocol):
    """A sandbox that is being made for `plan` before its command may run; somebody must run or abandon it."""

    plan: Plan
    taken: bool  # somebody runs it

    async def run(self, passage: Passage) -> Ended:
        """Run the plan to its end."""
        ...

    async def abandon(self) -> None:
        """End it; its command never ran."""
        ...


class Tier(Protocol):
    """One way to confine a command."""

    name: str
    harnesses: frozenset[str]  # agents whose harness it brings; every other agent is a command like any

    async def report(self) -> TierReport:
        """Say what this host enforces, what is missing, and how to mend it."""
        ...

    async def promise(self) -> TierReport:
        """Say at once what this host will enforce, without a run; each run is read back and may turn out otherwise."""
        ...

    def begin(self, plan: Plan, stdin: Source | None) -> Ahead | None:
        """Have a sandbox made ahead of its permission, where that can be done at once; its command waits."""
        ...

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        """Run one plan to its end. Output is handed on as it comes, and waits for its taker; nothing is collected."""
        ...
