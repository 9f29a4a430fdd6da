"""One session: plan, sandbox, command, account. The one place where a contract becomes processes.

1. The contract is read as a plan; one that cannot be kept here ends before anything is built.
2. While the sandbox is being built, the plane is told that the workspace stands; the command is let go only when that
   word is durable and the sandbox, as read back, holds what the contract demands.
3. Output is handed on and kept; a limit, or whoever asked, may stop it.
4. Events and receipt are written from what was seen.
Knows no database and no plane: both are handed in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.isolation.tier import Ahead, Ended, Passage, Plan, Sink, Source, Tier
from tipstaff.model.blobs import BlobStore
from tipstaff.model.outcome import StreamRecord
from tipstaff.model.tiers import Verdict
from tipstaff.model.times import Clock, timestamp
from tipstaff.session.capture import Capture
from tipstaff.session.history import History
from tipstaff.session.plan import UnfitContractError, command_hash, execution_of, plan_of
from tipstaff.session.record import FAILURES, Account, failure_message, receipt_of, status_of, too_weak

if TYPE_CHECKING:
    from tipstaff.model.events import FailureClass

Json = dict[str, Any]
Release = Callable[[Sequence[Json]], Awaitable[Json | None]]  # events that must be durable → who cancelled meanwhile
CLOSED_DISCLOSURES: Final = ("none", "metadata-only")  # under these no output leaves the runner
LOG: Final = "session-log"
SETUP_FAILED: Final = 125


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What this runner has to carry out contracts with."""

    tiers: Mapping[str, Tier]
    blobs: BlobStore
    environ: Mapping[str, str]
    clock: Clock
    facts: Json


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What one run shares with whoever asked for it."""

    stdin: Source | None = None
    stdout: Sink | None = None
    stderr: Sink | None = None
    ahead: Ahead | None = None  # a sandbox that is being made already; used if it is for this very plan
    cancel: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Told(msgspec.Struct, frozen=True):
    """What a session says at its end: the unsigned receipt, and the events that were not sent yet."""

    receipt: Json
    events: list[Json]
    ended: Ended


class Session:
    """The contract of one claim, in one sandbox."""

    def __init__(self, host: Host, contract: Json, claimed: Sequence[Json], secrets: Mapping[str, str]) -> None:
        self._host = host
        self._contract = contract
        self._secrets = secrets
        self._history = History(claimed, host.clock)
        self._canceller: Json = contract["requestedBy"]
        self._failure: FailureClass | None = None
        self._executed_at = ""

    async def carry_out(self, outside: Outside, release: Release) -> Told:
        """Run the contract's command to its end, whatever that is."""
        streams = self._captures()
        try:
            plan = plan_of(self._contract, self._secrets, self._host.environ)
            ended = await self._run(plan, outside, streams, release)
        except UnfitContractError as error:
            self._failure = error.failure
            ended = Ended(ending="setup-failed", exit_code=SETUP_FAILED, reason=error.message)
        except BaseException:
            for capture in streams.values():
                capture.discard()
            raise
        return await self._told(ended, streams)

    async def _run(self, plan: Plan, outside: Outside, streams: dict[str, Capture], release: Release) -> Ended:
        name = self._contract["tier"]
        tier = self._host.tiers.get(name)
        if tier is None:
            raise UnfitContractError("capability_mismatch", f"this runner has no tier {name!r}")
        self._history.add("workspace.materialized", manifestHash=digest(self._contract["workspace"]))
        durable = asyncio.ensure_future(release(self._history.unsent()))

        async def gate(verdicts: tuple[Verdict, ...]) -> str:
            await self._heed(durable, outside)
            problem = too_weak(self._contract.get("demands", []), verdicts)
            self._executed_at = "" if problem else timestamp(self._host.clock())
            return problem

        passage = Passage(
            stdin=outside.stdin,
            stdout=streams["stdout"].sink(outside.stdout),
            stderr=streams.get("stderr", streams["stdout"]).sink(outside.stderr),
            cancel=outside.cancel,
            gate=gate,
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

    def _captures(self) -> dict[str, Capture]:
        """Make a capture for each log: the protocol merges both streams into one unless told otherwise."""
        most = self._contract["limits"]["outputBytes"]
        withheld = LOG in self._contract.get("withheldClasses", ())
        closed = withheld or self._contract["disclosure"] in CLOSED_DISCLOSURES
        blobs = None if closed else self._host.blobs
        log = (self._contract.get("execution") or {}).get("log") or {}
        names = ("stdout", "stderr") if log.get("stderr") == "capture" else ("stdout",)
        return {name: Capture(most, blobs) for name in names}

    async def _told(self, ended: Ended, streams: dict[str, Capture]) -> Told:
        records = {name: await capture.finish() for name, capture in streams.items()}
        history = self._history
        if ended.ending != "setup-failed":
            executed = command_hash(execution_of(self._contract))
            history.add("command.executed", argvHash=executed, exitCode=ended.exit_code, ending=ended.ending)
            self._disclose(records)
        self._end(ended)
        account = Account(
            ended=ended,
            tier=self._contract["tier"],
            streams=records,
            executed_at=self._executed_at if ended.ending != "setup-failed" else "",
            ended_at=max(timestamp(self._host.clock()), history.chain.last_runner_time),
            host=self._host.facts,
        )
        return Told(receipt_of(self._contract, history.chain, account), history.unsent(), ended)

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
            failure = self._failure or FAILURES[ended.ending]
            self._history.add("run.failed", failure=failure, message=failure_message(ended))


def _with_content(records: list[StreamRecord]) -> list[StreamRecord]:
    """Leave out empty streams at the end: nothing of them crosses. The first log of a run is its standard output."""
    while len(records) > 1 and not records[-1].bytes:
        records.pop()
    return records
