"""One run in a sandbox that the spawner makes, from its order to its end: what all tiers of the spawner's share.

Asks for the sandbox, has what the kernel says of it judged, lets the command go, passes its streams on, and stops it
by time, by output or when asked. A sandbox that is not what it should be is ended before its command runs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.isolation import endings
from tipstaff.isolation.client import Box, Link, SpawnerError
from tipstaff.isolation.order import Kind, Order
from tipstaff.isolation.streams import Streams
from tipstaff.isolation.tier import Ended, Gate, Leaving, Passage, Plan, Source
from tipstaff.isolation.workshop import Workshop
from tipstaff.model.limits import Limits
from tipstaff.model.tiers import Verdict

SETUP_SECONDS: Final = 60.0
PROBE: Final = Plan(
    argv=("true",),
    environ={"PATH": "/usr/bin:/bin"},
    limits=Limits(
        time_ms=30_000, memory_bytes=1 << 26, cpu_millis=1000, pids=16, disk_bytes=1 << 24, output_bytes=1 << 16
    ),
)


class Judging(NamedTuple):
    """How one kind of sandbox is judged by what the kernel says of it."""

    kind: Kind
    breaches: Callable[[Plan, Mapping[str, Any]], list[str]]
    judge: Callable[[Plan, Mapping[str, Any]], tuple[Verdict, ...]]


async def run(workshop: Workshop, judging: Judging, plan: Plan, passage: Passage) -> Ended:
    """Run one plan to its end; nothing that it started is left."""
    async with workshop.places:
        try:
            await _check_in_place(plan)
            making = Making(await workshop.link(), judging, plan, passage.stdin)
        except (ValueError, OSError, SpawnerError) as error:
            return endings.setup_failed(str(error))
        return await making.run(passage)


def begin(workshop: Workshop, judging: Judging, plan: Plan, stdin: Source | None) -> "Making | None":
    """Have a sandbox made ahead, while others still decide about it; None where that cannot be done at once."""
    link = workshop.idle_link()
    if link is None or plan.mode == "in-place":
        return None
    try:
        return Making(link, judging, plan, stdin)
    except (ValueError, OSError, SpawnerError):
        return None  # whoever runs the plan finds out, and says so


class Making:
    """One sandbox that is being made, and what passes to and from it. Its command waits until `run` lets it go."""

    def __init__(self, link: Link, judging: Judging, plan: Plan, stdin: Source | None) -> None:
        self.plan = plan
        self.taken = False
        self._judging = judging
        self._streams = Streams(stdin)
        self._passage = Passage()
        try:
            inside = [plan.port] if plan.port and judging.kind == "bwrap" else []
            self._box = link.build(order(plan, judging.kind), self._streams.theirs, inside)
            self._listening = self._box.expect(plan.port) if inside else None
        except BaseException:
            self._streams.close()
            raise
        self._streams.hand_over()

    async def run(self, passage: Passage) -> Ended:
        """Stay with the sandbox until it is gone."""
        self._passage, self.taken = passage, True
        try:
            return await self._through()
        except SpawnerError as error:
            return endings.setup_failed(str(error))
        finally:
            self._close()

    async def abandon(self) -> None:
        """End it: nobody will let its command go."""
        self._box.end("cancelled")
        try:
            await asyncio.shield(self._box.ended)
        finally:
            self._close()

    def _close(self) -> None:
        """Close what nobody took, and have removed what was kept."""
        self._box.let_go()
        self._streams.close()
        if self._listening is not None and self._listening.done() and self._listening.exception() is None:
            self._listening.result().close()

    async def _through(self) -> Ended:
        box, problem = self._box, ""
        async with _ended_with_us(box):
            facts = await self._ready()
            judged = self._judging.judge(self.plan, facts) if facts else ()
            if facts:
                problem = await _problem(self._judging.breaches(self.plan, facts), judged, self._passage.gate)
                if problem:
                    box.end("setup-failed")
                else:
                    await self._released()
            told = await box.ended
            if told.get("kept") and self._passage.left is not None:
                await self._passage.left(_leaving(self.plan, told["kept"]))
            ended = _ended(box, told)
        return msgspec.structs.replace(endings.setup_failed(problem) if problem else ended, verdicts=judged)

    async def _ready(self) -> dict[str, Any]:
        """Wait until the command waits; empty when the sandbox ended before."""
        with _stopping(self._box, self._passage.cancel, SETUP_SECONDS, "setup-failed"):
            return await self._box.ready

    async def _released(self) -> None:
        """Let the command go, and stay with it until its output has ended."""
        box, passage = self._box, self._passage
        if self._listening is not None:
            with await self._listening as listener:
                if passage.outlet is not None:
                    passage.outlet(listener.dup())
        feeding = asyncio.create_task(self._streams.feed())
        try:
            with _stopping(box, passage.cancel, (self.plan.limits.time_ms or 0) / 1000, "timed-out"):
                box.release()
                sinks = passage.stdout, passage.stderr
                await self._streams.drain(sinks, self.plan.kill_output_bytes, lambda: box.end("output-limit"))
                await box.ended  # a command may close its output and go on
        finally:
            await _stopped(feeding)


def order(plan: Plan, kind: Kind) -> Order:
    """Spell a plan as the spawner takes it; ValueError for one that leaves a limit open."""
    limits = msgspec.structs.asdict(plan.limits)
    if absent := [name for name, value in limits.items() if value is None]:
        raise ValueError(f"the plan has no limit for {', '.join(absent)}")
    return Order(
        kind=kind,
        argv=plan.argv,
        environ=dict(plan.environ),
        cwd=plan.cwd,
        workspace=None if plan.workspace is None else str(plan.workspace),
        in_place=plan.mode == "in-place",
        keep=plan.keep and plan.workspace is not None and plan.mode == "copy-on-write",
        readable=tuple(map(str, plan.readable)),
        masked=plan.masked,
        files=plan.files,
        port=plan.port if plan.on_trust else 0,
        **{name: limits[name] for name in ("memory_bytes", "cpu_millis", "pids", "disk_bytes")},
    )


async def _check_in_place(plan: Plan) -> None:
    """Refuse a folder with sockets or pipes in place: through these a command reaches processes outside."""
    if plan.workspace is not None and plan.mode == "in-place":
        from tipstaff.isolation import trees  # noqa: PLC0415 - few runs are in place

        found = await asyncio.to_thread(trees.doors, str(plan.workspace))
        if found:
            raise ValueError(f"'{found}' is a socket, a pipe or a device: a command in place could reach outside by it")


async def _problem(breaches: list[str], judged: tuple[Verdict, ...], gate: Gate | None) -> str:
    """Say why the command that waits must not run, or nothing."""
    if breaches:
        return f"the sandbox is not one: {'; '.join(breaches)}"
    return await gate(judged) if gate is not None else ""


def _leaving(plan: Plan, kept: Mapping[str, str]) -> Leaving:
    assert plan.workspace is not None  # noqa: S101 - nothing is kept without one
    upper, copy = (Path(kept[name]) if name in kept else None for name in ("upper", "copy"))
    return Leaving(base=plan.workspace, upper=upper, copy=copy, marks=kept.get("marks", ""))


def _ended(box: Box, told: dict[str, Any]) -> Ended:
    return endings.orphaned(released=box.released) if told["event"] == "orphaned" else endings.read(told)


@contextlib.asynccontextmanager
async def _ended_with_us(box: Box) -> AsyncIterator[None]:
    """Whatever happens here, the sandbox is gone afterwards."""
    try:
        yield
    except BaseException:
        box.end("cancelled")
        await asyncio.shield(box.ended)
        raise


@contextlib.contextmanager
def _stopping(box: Box, cancel: asyncio.Event, seconds: float, cause: str) -> Iterator[None]:
    """Stop the sandbox after some time, or when asked."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, box.end, cause)
    waiting = loop.create_task(cancel.wait())
    waiting.add_done_callback(lambda task: None if task.cancelled() else box.end("cancelled"))
    try:
        yield
    finally:
        timer.cancel()
        waiting.cancel()


async def _stopped(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
