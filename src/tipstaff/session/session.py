"""One session: plan, sandbox, command, account. The one place where a contract becomes processes.

1. The contract is read as a plan; one that cannot be kept here ends before anything is built.
2. While the sandbox is being built, the plane is told that the workspace stands; the command is let go only when that
   word is durable and the sandbox, as read back, holds what the contract demands.
3. Output is handed on and kept; a limit, or whoever asked, may stop it.
4. Who knocks at the gate is judged by the contract's rules, and each attempt is an event, sent on soon.
5. What it changed in its workspace is looked at when its last process is gone; nothing of it reaches the host.
6. Events and receipt are written from what was seen. Secrets are taken out of output, events and reasons.
Knows no database and no plane: both are handed in.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import PlaneError, TipstaffError
from tipstaff.isolation.tier import Ahead, Ended, Passage, Plan, Sink, Source, Tier
from tipstaff.model.blobs import BlobStore
from tipstaff.model.outcome import StreamRecord
from tipstaff.model.tiers import Verdict
from tipstaff.model.times import Clock, timestamp
from tipstaff.session.capture import Capture
from tipstaff.session.changes import CODE, Changes
from tipstaff.session.held import Held
from tipstaff.session.history import History
from tipstaff.session.plan import UnfitContractError, command_hashes, execution_of, is_captured, plan_of
from tipstaff.session.reach import Reach, asks
from tipstaff.session.record import FAILURES, Account, failure_message, receipt_of, status_of, too_weak

if TYPE_CHECKING:
    from tipstaff.model.events import FailureClass
    from tipstaff.session.questions import Questions

Json = dict[str, Any]
CLOSED_DISCLOSURES: Final = ("none", "metadata-only")  # under these no output leaves the runner
LOG: Final = "session-log"
SETUP_FAILED: Final = 125
KILLED: Final = 137
ANSWER_SECONDS: Final = 600.0
TELL_SECONDS: Final = 0.05  # how long an event waits for others before it is sent


class Workspaces(Protocol):
    """Where captured workspaces stand, unpacked, for runs to look at."""

    def base(self, manifest: Json) -> AbstractContextManager[Path]:
        """Give the folder of a workspace, unpacked if need be, and hold on to it; TipstaffError when it cannot be."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What this runner has to carry out contracts with."""

    tiers: Mapping[str, Tier]
    blobs: BlobStore
    environ: Mapping[str, str]
    clock: Clock
    facts: Json
    workspaces: Workspaces | None = None


class Line(Protocol):
    """A session's line to its plane."""

    async def release(self, events: Sequence[Json]) -> Json | None:
        """Send events that must be durable before the command is let go; says who wants the run stopped."""

    async def tell(self, events: Sequence[Json]) -> None:
        """Send events; PlaneError when they did not arrive."""

    async def ask(self, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer; with `give_up`, for the last time."""

    async def deliver(self, contents: Sequence[str]) -> str:
        """Bring contents to where the receipt will say that they are; says why that cannot be done, or nothing."""


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What one run shares with whoever asked for it."""

    stdin: Source | None = None
    stdout: Sink | None = None
    stderr: Sink | None = None
    asked: Callable[[str, str], None] | None = None  # hears the run's id, and the place that it asks to reach
    answer_seconds: float = ANSWER_SECONDS  # how long it waits for people to answer that
    ahead: Ahead | None = None  # a sandbox that is being made already; used if it is for this very plan
    cancel: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Told(msgspec.Struct, frozen=True):
    """What a session says at its end: the unsigned receipt, and the events that were not sent yet."""

    receipt: Json
    events: list[Json]
    ended: Ended
    refusals: tuple[str, ...] = ()  # what was refused while it ran
    changes: Sequence[Json] = ()  # what it changed in its workspace


class Session:
    """The contract of one claim, in one sandbox."""

    def __init__(self, host: Host, contract: Json, claimed: Sequence[Json], secrets: Mapping[str, str]) -> None:
        self._host = host
        self._contract = contract
        self._secrets = secrets
        self._held = Held(contract, {}, os.urandom)
        self._reach: Reach | None = None
        self._telling: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._changes = Changes(contract, self._held, None)
        self._history = History(claimed, host.clock)
        self._canceller: Json = contract["requestedBy"]
        self._failure: FailureClass | None = None
        self._executed_at = ""
        self._given_up = ""

    async def carry_out(self, outside: Outside, line: Line) -> Told:
        """Run the contract's command to its end, whatever that is."""
        streams = self._captures()
        try:
            ended = await self._reaching(outside, streams, line)
        except UnfitContractError as error:
            self._failure = error.failure
            ended = Ended(ending="setup-failed", exit_code=SETUP_FAILED, reason=error.message)
        except BaseException:
            for capture in streams.values():
                capture.discard()
            raise
        return await self._told(ended, streams, line)

    async def _reaching(self, outside: Outside, streams: dict[str, Capture], line: Line) -> Ended:
        """Run it with its way out, which is closed when it has ended."""
        try:
            self._held = Held(self._contract, self._secrets, os.urandom)
            told, questions = partial(self._tried, line), self._questions(outside, line)
            self._reach = Reach(self._contract, self._held, self._host.environ, told, questions)
        except TipstaffError as error:
            raise UnfitContractError("capability_mismatch", str(error)) from error
        self._changes = Changes(self._contract, self._held, self._blobs_for(CODE))
        try:
            async with self._base() as base:
                plan = plan_of(self._contract, self._held.environ, self._host.environ, self._reach.way, base)
                return await self._run(plan, outside, streams, line)
        finally:
            await self._reach.close()
            self._hurry.set()
            if self._telling is not None:
                await self._telling

    @asynccontextmanager
    async def _base(self) -> AsyncIterator[Path | None]:
        """Hold on to the captured workspace; None for a run without one."""
        if not is_captured(self._contract):
            yield None
            return
        if self._host.workspaces is None:
            raise UnfitContractError("capability_mismatch", "this runner cannot unpack a captured workspace")
        held = self._host.workspaces.base(self._contract["workspace"])
        try:
            base = await asyncio.to_thread(held.__enter__)
        except (TipstaffError, OSError) as error:
            raise UnfitContractError("transfer_failed", f"the workspace cannot be unpacked: {error}") from error
        try:
            yield base
        finally:
            held.__exit__(None, None, None)

    def _questions(self, outside: Outside, line: Line) -> "Questions | None":
        """Make what asks people, where the contract has a rule that does."""
        if not asks(self._contract):
            return None
        from tipstaff.session.questions import Patience, Questions  # noqa: PLC0415 - few runs ask while they run

        told = partial(outside.asked, self._contract["runId"]) if outside.asked is not None else None
        return Questions(line.ask, self._held, Patience(outside.answer_seconds), told)

    def _tried(self, line: Line, said: Json) -> None:
        """Write down that somebody tried to get out, and have it sent with what else comes in the next moment."""
        approval = {"approval": said.pop("approval")} if "approval" in said else {}  # signed: not a byte may change
        # Numbers are ours, and an approval is signed as it is: only words may hold a secret.
        clean = {
            name: self._held.redacted("events", word) if type(word) is str else word for name, word in said.items()
        }
        self._history.add("network.connected", **clean, **approval)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell(line))

    async def _tell(self, line: Line) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), TELL_SECONDS)
        events = self._history.unsent()
        try:
            await line.tell(events)
        except PlaneError:
            self._history.put_back(events)  # they go with the receipt

    async def _run(self, plan: Plan, outside: Outside, streams: dict[str, Capture], line: Line) -> Ended:
        name = self._contract["tier"]
        tier = self._host.tiers.get(name)
        if tier is None:
            raise UnfitContractError("capability_mismatch", f"this runner has no tier {name!r}")
        if plan.harness and plan.harness not in tier.harnesses:
            raise UnfitContractError("capability_mismatch", f"the tier {name!r} has no harness for {plan.harness!r}")
        self._history.add("workspace.materialized", manifestHash=digest(self._contract["workspace"]))
        durable = asyncio.ensure_future(line.release(self._history.unsent()))
        reach = self._reach
        if reach is not None:
            reach.begin()

        async def gate(verdicts: tuple[Verdict, ...]) -> str:
            await self._heed(durable, outside)
            problem = too_weak(self._contract.get("demands", []), verdicts)
            self._executed_at = "" if problem else timestamp(self._host.clock())
            return problem

        passage = Passage(
            stdin=outside.stdin,
            stdout=streams["stdout"].sink(outside.stdout, self._held.stream("stdout")),
            stderr=streams.get("stderr", streams["stdout"]).sink(outside.stderr, self._held.stream("stderr")),
            cancel=outside.cancel,
            gate=gate,
            outlet=reach.listen if reach is not None else None,
            left=self._changes.collect,
        )
        try:
            if outside.ahead is not None and outside.ahead.plan == plan:
                return await outside.ahead.run(passage)
            return await tier.run(plan, passage)
        finally:
            await durable  # also where no sandbox could be had: the chain must know what was sent

    async def _heed(self, durable: "asyncio.Future[Json | None]", outside: Outside) -> None:
        """Wait until the plane has it in writing; stop when somebody else wants that."""
        canceller = await durable
        if canceller is not None:
            self.cancelled_by(canceller)
            outside.cancel.set()

    def cancelled_by(self, actor: Json) -> None:
        """Note who stopped the run, if it is not the one who asked for it."""
        self._canceller = actor

    def given_up(self, reason: str) -> None:
        """Note that the run is stopped for no wish of anybody's: it then ends as one that failed."""
        self._given_up = reason

    def unsent(self) -> list[Json]:
        """Give the events that were not sent, for whoever has to tell of a session that broke down."""
        return self._history.unsent()

    def _captures(self) -> dict[str, Capture]:
        """Make a capture for each log: the protocol merges both streams into one unless told otherwise."""
        most = self._contract["limits"]["outputBytes"]
        blobs = self._blobs_for(LOG)
        return {name: Capture(most, blobs) for name in stream_names(self._contract)}

    def _blobs_for(self, data_class: str) -> BlobStore | None:
        """Give where content of a class may be kept; None where the contract does not let it leave."""
        return self._host.blobs if may_leave(self._contract, data_class) else None

    async def _told(self, ended: Ended, streams: dict[str, Capture], line: Line) -> Told:
        records = {name: await capture.finish() for name, capture in streams.items()}
        history, reach, changes = self._history, self._reach, self._changes
        if self._given_up and ended.ending == "cancelled":
            ended = msgspec.structs.replace(ended, ending="signalled", exit_code=KILLED, reason=self._given_up)
        ran, ended = ended.ending != "setup-failed", changes.ended(ended)
        if ran and (problem := await line.deliver(self._contents(records))):
            records, ended = self._undelivered(records, ended, problem)
        ended = msgspec.structs.replace(ended, reason=self._held.redacted("events", ended.reason))
        if ran:
            executed = command_hashes(execution_of(self._contract))
            history.add("command.executed", **executed, exitCode=ended.exit_code, ending=ended.ending)
            changes.tell(history)
            self._disclose(records)
        self._end(ended)
        account = Account(
            ended=ended,
            tier=self._contract["tier"],
            streams=records,
            executed_at=self._executed_at if ran else "",
            ended_at=max(timestamp(self._host.clock()), history.chain.last_runner_time),
            host=self._host.facts,
            changes=changes.summary,
            leaks=self._held.leaks(reach.injector if reach is not None else None),
        )
        receipt = receipt_of(self._contract, history.chain, account)
        refusals = reach.refusals if reach is not None else ()
        return Told(receipt, history.unsent(), ended, refusals, changes.told)

    def _contents(self, records: dict[str, StreamRecord]) -> list[str]:
        """List what the receipt will say that it was kept."""
        logs = [record.kept for record in _with_content(list(records.values())) if record.kept is not None]
        return [*self._changes.contents, *logs]

    def _undelivered(
        self, records: dict[str, StreamRecord], ended: Ended, problem: str
    ) -> tuple[dict[str, StreamRecord], Ended]:
        """Take back what was kept here and is not to be had by anybody: no receipt may name it."""
        self._changes.withdraw(problem)
        records = {name: msgspec.structs.replace(record, kept=None) for name, record in records.items()}
        if ended.ending != "exited":
            return records, ended
        self._failure = "transfer_failed"
        reason = f"{problem}; it had exited {ended.exit_code}"
        return records, msgspec.structs.replace(ended, ending="setup-failed", exit_code=SETUP_FAILED, reason=reason)

    def _disclose(self, records: dict[str, StreamRecord]) -> None:
        for record in _with_content(list(records.values())):
            if record.kept is not None:
                self._history.add("artifact.created", kind="log", hash=record.kept)
                self._history.add("boundary.crossed", direction="out", contentHash=record.kept, dataClass=LOG)

    def _end(self, ended: Ended) -> None:
        status = status_of(ended)
        if status == "completed":
            self._history.add("run.completed")
        elif status == "cancelled":
            self._history.add("run.cancelled", actor=self._canceller)
        else:
            failure = self._failure or ("transfer_failed" if self._changes.failed else FAILURES[ended.ending])
            self._history.add("run.failed", failure=failure, message=failure_message(ended))


def stream_names(contract: Json) -> tuple[str, ...]:
    """Name the logs of a run: one in which both streams stand in the order in which they came, or one for each."""
    log = (contract.get("execution") or {}).get("log") or {}
    return ("stdout", "stderr") if log.get("stderr") == "capture" else ("stdout",)


def may_leave(contract: Json, data_class: str) -> bool:
    """Say whether the contract lets content of a class leave the runner."""
    withheld = data_class in (contract.get("withheldClasses") or ())
    return not withheld and contract["disclosure"] not in CLOSED_DISCLOSURES


def _with_content(records: list[StreamRecord]) -> list[StreamRecord]:
    """Leave out empty streams at the end: nothing of them crosses. The first log of a run is its standard output."""
    while len(records) > 1 and not records[-1].bytes:
        records.pop()
    return records
