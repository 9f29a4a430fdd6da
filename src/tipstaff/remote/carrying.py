"""One request taken through at a plane far away: asked, followed, proved, and told as the embedded one would.

1. The plane's key is settled before anything is sent. 2. The request is sent once: a lost answer is told, not repeated.
3. Output is shown as it comes, across cuts. 4. A wish to stop goes to the plane, whose receipt is waited for.
5. What the run did is told from its bundle, whose proof was checked; a proof that does not hold is an error.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from tipstaff.errors import InputError, PlaneError, TipstaffError
from tipstaff.evidence import verify
from tipstaff.model.outcome import Outcome
from tipstaff.remote import outcomes, shapes
from tipstaff.remote.answers import DeniedError
from tipstaff.remote.following import STREAMS, Cut, Ended, Happening, Output, Standing, follow
from tipstaff.remote.outcomes import Decided
from tipstaff.remote.plane import RemotePlane
from tipstaff.remote.showing import Shown, Sink

Json = dict[str, Any]
Answer = TypeVar("Answer")
Told = Callable[[str], None]
APPROVAL_SECONDS: Final = 600.0
STOP_SECONDS: Final = (
    30.0  # for the receipt of a run that was stopped: its runner hears of it within a third of a lease
)
NOTICE_SECONDS: Final = 2.0  # in the queue, before people are told so
WAITING: Final = "awaiting_approval"
QUEUED: Final = "created"


class Ends(msgspec.Struct, kw_only=True):
    """What a run shares with whoever asked for it."""

    stdout: Sink | None = None
    stderr: Sink | None = None
    cancel: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    told: Told = lambda _: None  # a sentence for people
    approval_seconds: float = APPROVAL_SECONDS
    stop_seconds: float = STOP_SECONDS


async def carry_out(plane: RemotePlane, request: Json, ends: Ends, *, keep_output: bool = True) -> Outcome:
    """Take a request through: to its receipt, or to a signed refusal."""
    await in_thread(plane.trusted)
    submitting = asyncio.ensure_future(in_thread(partial(plane.submit, request)))
    try:
        answer = await asyncio.shield(submitting)
        return await _Errand(plane, answer, ends).run(keep_output=keep_output)
    except DeniedError as error:
        if error.code != "policy_denied":
            raise
        return await in_thread(partial(_denied, plane, error.said))
    except asyncio.CancelledError:  # nobody waits for it any more, also if the plane is only about to take it
        with suppress(TipstaffError):
            await asyncio.shield(_Errand(plane, await submitting, ends).stop())
        raise


def prove(plane: RemotePlane, document: Json, what: str) -> None:
    """Check a bundle or a refusal with the plane's pinned key."""
    report = verify(document, known=plane.trusted())
    if report.verdict != "valid":
        problems = "; ".join(map(str, report.problems)) or report.verdict
        raise InputError(f"the proof of {what} from the plane {plane.url} does not hold: {problems}")


def _denied(plane: RemotePlane, said: Json) -> Outcome:
    outcome = outcomes.denied(said)
    if outcome.refusal is not None:
        prove(plane, outcome.refusal, "the refusal")
    return outcome


async def watch(plane: RemotePlane, run_id: str, ends: Ends) -> None:
    """Show what a run prints, from its beginning to its end; whoever watches does not stop it."""
    errand = _Errand(plane, {"runId": run_id}, ends)
    await errand.follow()
    told = await in_thread(partial(plane.run, run_id))
    if "receipt" in told:
        await errand.proved()


class _Errand:
    """One run that the plane has taken."""

    def __init__(self, plane: RemotePlane, answer: Json, ends: Ends) -> None:
        self._plane = plane
        self._run_id: str = answer["runId"]
        self._decided = Decided(answer)
        self._ends = ends
        self._shown = {name: Shown(name, sink) for name in STREAMS if (sink := getattr(ends, name)) is not None}
        self._standing: Standing | None = None
        self._was_cut = False
        self._deadline: float | None = None
        self._sentences = asker_sentences(plane.url, self._run_id, answer)
        self._patient_until = time.monotonic() + ends.approval_seconds
        self._notice_at: float | None = None

    async def run(self, *, keep_output: bool) -> Outcome:
        """Follow it to its end, and give what came of it."""
        await self.follow()
        told = await in_thread(partial(self._plane.run, self._run_id))
        if "receipt" not in told:
            return await self._unproved(told)
        bundle = await self.proved()
        kept = await self._kept(bundle["receipt"]) if keep_output else {}
        return outcomes.ran(self._decided, bundle, kept)

    async def proved(self) -> Json:
        """Give the bundle of a run that has its receipt, checked; what did not come live is shown now."""
        bundle = await in_thread(partial(self._plane.bundle, self._run_id))
        await in_thread(partial(self._checked, bundle))
        await self._complete(bundle["receipt"])
        return bundle

    async def stop(self) -> None:
        """Have the plane stop it, if it can be told."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._ends.stop_seconds
            with suppress(TipstaffError):
                await in_thread(partial(self._plane.cancel, self._run_id, {}))

    async def _unproved(self, told: Json) -> Outcome:
        if told["status"] not in {"completed", "failed", "cancelled"}:
            raise PlaneError(
                f"{self._run_id} was stopped, and its receipt has not come yet",
                status=503,
                code="stopping",
                reasons=(f"see later: tipstaff --plane {self._plane.url} show {self._run_id}",),
            )
        if isinstance(told.get("refusal"), dict):
            await in_thread(partial(prove, self._plane, told["refusal"], self._run_id))
        return outcomes.unapproved(self._decided, told)

    def _checked(self, bundle: Json) -> None:
        prove(self._plane, bundle, self._run_id)
        receipt, contract = shapes.receipt_of(bundle.get("receipt")), shapes.contract_of(bundle.get("contract"))
        if {receipt["runId"], contract["runId"]} != {self._run_id}:
            raise InputError(f"the plane {self._plane.url} gives the proof of another run than {self._run_id}")

    async def follow(self) -> None:
        """Take what happens, until the run is over or nobody waits for it any longer."""
        happenings = follow(self._plane.wire, self._run_id)
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._ends.cancel.wait())
        try:
            while True:
                coming: asyncio.Future[Any] = asyncio.ensure_future(in_thread(partial(next, happenings, None)))
                await self._until(coming, stopping)
                if not coming.done():
                    coming.cancel()
                    return
                happening = coming.result()
                if happening is None or isinstance(happening, Ended):
                    return
                await self._take(happening)
        finally:
            stopping.cancel()

    async def _until(self, coming: "asyncio.Future[Any]", stopping: "asyncio.Future[Any]") -> None:
        """Wait for what comes next; meanwhile a wish to stop is passed on, and patience ends."""
        while not coming.done():
            watched = {coming} if self._deadline is not None else {coming, stopping}
            await asyncio.wait(watched, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return
            if stopping.done() or self._is_impatient():
                await self.stop()
            self._notice()

    def _seconds_left(self) -> float | None:
        """Say for how long there is nothing to do but to wait; None: for as long as it takes."""
        moments = [self._deadline, self._notice_at, self._patient_until if self._waits() else None]
        known = [moment for moment in moments if moment is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    def _notice(self) -> None:
        """Tell people where a run stands that has been in the queue for a while."""
        if self._notice_at is None or time.monotonic() < self._notice_at or self._standing is None:
            return
        self._notice_at = None
        before = f", behind {self._standing.position} others" if self._standing.position else ""
        self._ends.told(f"{self._run_id} waits for a runner{before}; Ctrl-C gives it up")

    def _waits(self) -> bool:
        return self._standing is not None and self._standing.status == WAITING

    def _is_impatient(self) -> bool:
        if self._deadline is None and self._waits() and time.monotonic() >= self._patient_until:
            self._ends.told(f"{self._run_id} was not approved in {self._ends.approval_seconds:g} s, and is stopped")
            return True
        return False

    async def _take(self, happening: Happening) -> None:
        match happening:
            case Output(stream, offset, data):
                if stream in self._shown:
                    await self._show(self._shown[stream], offset, data)
            case Standing():
                self._tell_standing(happening)
            case Cut(why):
                if not self._was_cut:
                    self._ends.told(f"{why}; trying again, {self._run_id} goes on meanwhile")
                self._was_cut = True

    async def _show(self, shown: Shown, offset: int, data: bytes) -> None:
        had_gap = shown.has_gap
        await shown.take(offset, data)
        if shown.has_gap and not had_gap:
            self._ends.told(f"{self._run_id} prints faster than it can be shown: the rest follows when it has ended")

    def _tell_standing(self, standing: Standing) -> None:
        before, self._standing, self._was_cut = self._standing, standing, False
        if standing == before:
            return
        if standing.status == WAITING and (before is None or before.status != WAITING):
            for sentence in self._sentences:
                self._ends.told(sentence)
            self._ends.told(f"{self._run_id} waits {self._ends.approval_seconds:g} s for that")
        self._notice_at = time.monotonic() + NOTICE_SECONDS if standing.status == QUEUED else None

    async def _complete(self, receipt: Json) -> None:
        """Show what did not come live, and hold everything against the receipt."""
        records = outcomes.streams_of(receipt)
        for name, shown in self._shown.items():
            if name in records:
                fetch = partial(in_thread, partial(self._plane.output, self._run_id, name))
                missing = await shown.complete(records[name], fetch)
                if missing:
                    self._ends.told(missing)

    async def _kept(self, receipt: Json) -> dict[str, bytes]:
        kept = {}
        for name, record in outcomes.streams_of(receipt).items():
            if record.kept and record.bytes and name in STREAMS:
                kept[name] = await in_thread(partial(self._plane.blob, self._run_id, record.kept))
        return kept


def asker_sentences(url: str, run_id: str, answer: Json) -> list[str]:
    """Say who must approve a run, and how."""
    try:
        wanted = [shapes.requirement_of(one) for one in shapes.list_of(answer, "requirements", "consentRequirements")]
    except InputError:
        wanted = []
    said = [
        f"rule {one['rule']}: {one['quorum']} of {', '.join(one['approvers'])} must approve"
        + (", not by who asked" if one["separate"] else "")
        for one in wanted
    ]
    return [*said, f"to answer: tipstaff --plane {url} approve {run_id}"] if said else said


async def in_thread(act: Callable[[], Answer]) -> Answer:
    """Do something that may wait on a thread that nobody waits for at the end of the program."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def settle(result: Answer | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # it is one where there is no error

    def work() -> None:
        result, fault = None, None
        try:
            result = act()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the answer
            fault = error
        with suppress(RuntimeError):  # a loop that is closed wants no answer
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=work, daemon=True).start()
    return await answer
