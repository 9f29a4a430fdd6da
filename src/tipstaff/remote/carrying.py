"""One request taken through at a plane far away: asked, followed, proved, and told as the embedded one would.

1. The plane's key is settled before anything is sent. 2. The request is sent once: a lost answer is told, not repeated.
3. Output is shown as it comes, across cuts. 4. A wish to stop goes to the plane, again and again until it is heard, and
the receipt is waited for; that it was never heard is told. 5. What the run did is told from its bundle, whose proof was
checked; a proof that does not hold is an error.
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
from tipstaff.model.outcome import Outcome
from tipstaff.remote import outcomes, shapes
from tipstaff.remote.answers import DeniedError
from tipstaff.remote.following import STREAMS, Cut, Ended, Happening, Output, Standing, follow
from tipstaff.remote.outcomes import Decided
from tipstaff.remote.plane import RemotePlane
from tipstaff.remote.showing import Shown, Sink
from tipstaff.remote.stopping import Stopping

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
    errand: _Errand | None = None
    try:
        errand = _Errand(plane, await asyncio.shield(submitting), ends)
        return await errand.run(keep_output=keep_output)
    except DeniedError as error:
        if error.code != "policy_denied":
            raise
        return await in_thread(partial(_denied, plane, error.said))
    except asyncio.CancelledError:  # nobody waits for it any more, also if the plane is only about to take it
        with suppress(TipstaffError):
            errand = errand or _Errand(plane, await submitting, ends)
            await asyncio.shield(errand.give_up())
        raise


def _denied(plane: RemotePlane, said: Json) -> Outcome:
    outcome = outcomes.denied(said)
    if outcome.refusal is not None:
        plane.refuse_unproved_refusal(outcome.refusal)
    return outcome


async def watch(plane: RemotePlane, run_id: str, ends: Ends) -> None:
    """Show what a run prints, from its beginning to its end; whoever watches does not stop it."""
    errand = _Errand(plane, {"runId": run_id}, ends)
    await errand.follow()
    told = await in_thread(partial(plane.told, run_id))
    if "receipt" in told:
        await errand.proved()
    else:
        ends.told(f"what was shown of {run_id} is not proved yet: the plane {plane.url} gives no receipt of it")


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
        self._stopping: Stopping | None = None
        self._telling: asyncio.Future[None] | None = None  # held, so that it goes on
        self._sentences = asker_sentences(plane.url, self._run_id, answer)
        self._patient_until = time.monotonic() + ends.approval_seconds
        self._notice_at: float | None = None

    async def run(self, *, keep_output: bool) -> Outcome:
        """Follow it to its end, and give what came of it."""
        await self.follow()
        try:
            told = await in_thread(partial(self._plane.told, self._run_id))
        except PlaneError:
            self._refuse_unheard()
            raise
        if "receipt" not in told:
            return await self._unproved(told)
        bundle = await self.proved()
        kept = await self._kept(bundle["receipt"]) if keep_output else {}
        return outcomes.ran(self._decided, bundle, kept)

    async def proved(self) -> Json:
        """Give the bundle of a run that has its receipt, checked; what did not come live is shown now."""
        bundle = await in_thread(partial(self._plane.proved, self._run_id))
        await self._complete(bundle["receipt"])
        return bundle

    def stop(self) -> "asyncio.Future[None]":
        """Begin to have the plane stop it."""
        self._stopping = Stopping(partial(self._plane.cancel, self._run_id, {}), self._ends.stop_seconds)
        return asyncio.ensure_future(in_thread(self._stopping.tell))

    async def give_up(self) -> None:
        """Have it stopped, because nobody will wait for it; where that is under way, nothing more is waited for."""
        if self._stopping is None:
            await asyncio.wait([self.stop()], timeout=self._ends.stop_seconds)
        try:
            self._refuse_unheard()
        except PlaneError as error:
            self._ends.told(str(error))

    def _refuse_unheard(self) -> None:
        """Say that a wish to stop never arrived, if that is so."""
        if self._stopping is not None and not self._stopping.is_heard:
            raise PlaneError(
                f"{self._run_id} could not be told to stop, and may go on: {self._stopping.why}",
                status=503,
                code="not_stopped",
                reasons=(f"try again: tipstaff --plane {self._plane.url} cancel {self._run_id}",),
            )

    async def _unproved(self, told: Json) -> Outcome:
        if told["status"] not in {"completed", "failed", "cancelled"}:
            self._refuse_unheard()
            raise PlaneError(
                f"{self._run_id} {'was stopped' if self._stopping else 'has no end'}, and its receipt has not come yet",
                status=503,
                code="stopping",
                reasons=(f"see later: tipstaff --plane {self._plane.url} show {self._run_id}",),
            )
        if "refusal" in told:
            await in_thread(partial(self._plane.refuse_unproved_refusal, told["refusal"], self._run_id))
        return outcomes.unapproved(self._decided, told)

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
            watched = {coming, *self._awaited(stopping)}
            await asyncio.wait(watched, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED)
            if self._is_stop_over():
                return
            if self._stopping is None and (stopping.done() or self._is_impatient()):
                self._telling = self.stop()
            self._notice()

    def _awaited(self, stopping: "asyncio.Future[Any]") -> "list[asyncio.Future[Any]]":
        """Give what may come beside the next happening: a wish to stop, then the news whether it arrived."""
        if self._telling is None:
            return [stopping]
        return [] if self._telling.done() else [self._telling]

    def _is_stop_over(self) -> bool:
        """Say whether there is nothing more to wait for: no time is left, or the stop can never arrive."""
        if self._stopping is None or self._telling is None:
            return False
        is_late = time.monotonic() >= self._stopping.deadline
        return is_late or (self._telling.done() and not self._stopping.is_heard)

    def _seconds_left(self) -> float | None:
        """Say for how long there is nothing to do but to wait; None: for as long as it takes."""
        deadline = self._stopping.deadline if self._stopping is not None else None
        patient_until = self._patient_until if self._waits() and deadline is None else None
        moments = [deadline, self._notice_at, patient_until]
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
        if self._waits() and time.monotonic() >= self._patient_until:
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
            if name not in records:
                self._refuse_unknown(shown, name, says=bool(records))
            else:
                fetch = partial(in_thread, partial(self._plane.output, self._run_id, name))
                missing = await shown.complete(records[name], fetch)
                if missing:
                    self._ends.told(missing)

    def _refuse_unknown(self, shown: Shown, name: str, *, says: bool) -> None:
        """Refuse what was shown of a stream that the receipt does not have, or tell that it has none at all."""
        if shown.count and says:
            raise InputError(
                f"the plane showed something as the run's {name}, of which its receipt knows nothing",
                hint="do not rely on what was shown",
            )
        if shown.count:
            self._ends.told(f"what was shown as {name} is not proved: the receipt does not say what was printed")

    async def _kept(self, receipt: Json) -> dict[str, bytes]:
        wanted = [name for name in outcomes.streams_of(receipt) if name in STREAMS]
        return {name: await in_thread(partial(self._plane.output, self._run_id, name)) for name in wanted}


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
