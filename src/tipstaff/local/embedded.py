"""A home, opened: its plane, and a runner beside it that carries out what the plane has queued.

Every request takes the one way: submitted, decided, signed, queued, claimed, carried out, signed for. A run belongs to
the process that asked for it, and its lock says whether that one lives: whoever opens the home next closes what a dead
process left. Any number of runs may go on at once, each in a task of its own that its caller cannot take down.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from tipstaff.errors import BusyError
from tipstaff.home import Home
from tipstaff.isolation import places
from tipstaff.isolation.tier import Ahead, Tier
from tipstaff.local import outcomes
from tipstaff.local.host import host_facts
from tipstaff.local.opening import Opened, opened
from tipstaff.local.workspaces import LocalWorkspaces
from tipstaff.model.facts import Facts
from tipstaff.model.outcome import Outcome
from tipstaff.plane import Refused, SteadyClock, Waiting, answer
from tipstaff.policy import Policy
from tipstaff.runner.client import InProcess
from tipstaff.runner.loop import Done, Runner
from tipstaff.session import Host, Outside
from tipstaff.session.plan import UnfitContractError, is_captured, plan_of
from tipstaff.session.reach import usual_way

Json = dict[str, Any]
Answer = TypeVar("Answer")
Asked = Callable[["Local", Waiting], Awaitable[None]]
POOL: Final = "default"
APPROVAL_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.1


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """How people are asked: `asked` runs as a task while the run waits, and may approve or deny it by the plane."""

    asked: Asked | None = None
    timeout_seconds: float = APPROVAL_SECONDS


class Local:
    """One home at work in this process."""

    def __init__(self, home: Home, policy: Policy, opened_home: Opened, tiers: Mapping[str, Tier]) -> None:
        plane, store, identity = opened_home
        self.home = home
        self.plane = plane
        self._store = store
        self._tiers = tiers
        self._protected = _protected(home, policy)
        self._outsides: dict[str, Outside] = {}
        self._done: dict[str, asyncio.Future[Done]] = {}
        self._steps: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        clock = SteadyClock()
        self.workspaces = LocalWorkspaces(home, store.blobs)
        enrolled = plane.enroll(identity.runner.public.pem, POOL)
        self._runner = Runner(
            InProcess(partial(answer, plane), enrolled["runnerToken"], POOL, self._turn),
            Host(
                tiers=tiers,
                blobs=store.blobs.riding(),
                environ=os.environ,
                clock=clock,
                facts=host_facts(),
                workspaces=self.workspaces,
            ),
            identity.runner,
            [identity.plane.public],
            self._outsides.__getitem__,
        )

    async def run(
        self,
        request: Json,
        *,
        outside: Outside | None = None,
        consent: Consent | None = None,
        keep_output: bool = True,
    ) -> Outcome:
        """Take a request through: to its receipt, or to a signed refusal."""
        outside = outside or Outside()
        async with _HeadStart(self._tiers, outside, self.workspaces) as head_start:
            facts = await self.facts()
            intake = await self._ask_plane(lambda: self.plane.submit(request, facts, head_start.take))
            if isinstance(intake, Refused):
                return outcomes.denied(intake)
            if isinstance(intake, Waiting) and not await self._approved(intake, consent or Consent()):
                return outcomes.unapproved(intake, self.plane.run(intake.run_id))
            done = await self._carried_out(intake.run_id, head_start.shared())
            if done is None:
                return outcomes.unapproved(intake, self.plane.run(intake.run_id))
        return outcomes.ran(intake, done, self._store.blobs.get if keep_output else None)

    async def _ask_plane(self, step: Callable[[], Answer]) -> Answer:
        """Have the plane do something at once, or on a thread where it would keep all other runs waiting."""
        async with self._turn:
            try:
                with self.plane.without_waiting():
                    return step()
            except BusyError:
                return await asyncio.to_thread(step)

    async def facts(self) -> Facts:
        """Say what this host can enforce, and which folders no grant may meet."""
        reports = [await tier.promise() for tier in self._tiers.values()]
        return Facts(tiers=tuple(reports), protected=self._protected)

    async def _approved(self, waiting: Waiting, consent: Consent) -> bool:
        """Wait until people have decided, or until nobody waits for them any longer."""
        asking = asyncio.ensure_future(consent.asked(self, waiting)) if consent.asked is not None else None
        try:
            async with asyncio.timeout(consent.timeout_seconds):
                while self.plane.status(waiting.run_id) == "awaiting_approval":
                    await asyncio.sleep(LOOK_SECONDS)
                    if asking is not None and asking.done():
                        asking.result()
        except TimeoutError:
            self.plane.expire(waiting.run_id)
        except asyncio.CancelledError:
            self.plane.cancel(waiting.run_id, {"actor": waiting.contract["requestedBy"]})
            raise
        finally:
            if asking is not None:
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking
        return self.plane.status(waiting.run_id) == "created"

    async def _carried_out(self, run_id: str, outside: Outside) -> Done | None:
        """Have the run carried out; None when it was ended before a runner could have it."""
        self._outsides[run_id] = outside
        future = self._done[run_id] = asyncio.get_running_loop().create_future()
        step = asyncio.create_task(self._step(run_id))
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            outside.cancel.set()
            raise
        finally:
            if future.done():
                self._forget(run_id)
            else:
                future.add_done_callback(lambda _: self._forget(run_id))

    def _forget(self, run_id: str) -> None:
        self._outsides.pop(run_id, None)
        self._done.pop(run_id, None)

    async def _step(self, wanted: str) -> None:
        """Carry one run out: not always the one that was wanted, but there are as many steps as runs."""
        run_id = wanted
        try:
            claim = await self._runner.claim()
            run_id = claim.run_id if claim is not None else wanted
            done = await self._runner.carry_out(claim) if claim is not None else None
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the run, never lost
            self._settle(run_id, error)
        else:
            if done is not None or not self._claimed(wanted):
                self._settle(run_id, done)

    def _claimed(self, run_id: str) -> bool:
        """Say whether another step has the run; one that nobody can claim any more is ended."""
        status = self.plane.status(run_id)
        if status == "created":
            self.plane.cancel(run_id, {"actor": {"kind": "service", "id": "runner"}})
        return status in {"claimed", "provisioning", "running", "completed"}

    def _settle(self, run_id: str, result: Done | BaseException | None) -> None:
        future = self._done.get(run_id)
        if future is None or future.done():
            return
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None: ended before a runner could have it

    async def close(self) -> None:
        """Stop what still goes on, and wait until its receipts are written."""
        for outside in list(self._outsides.values()):
            outside.cancel.set()
        if self._steps:
            await asyncio.wait(self._steps)


class _HeadStart:
    """Has a sandbox made while the plane still writes down that it may be used. Its command waits for the session."""

    def __init__(self, tiers: Mapping[str, Tier], outside: Outside, workspaces: LocalWorkspaces) -> None:
        self._tiers = tiers
        self._workspaces = workspaces
        self._outside = outside
        self._ahead: Ahead | None = None

    def take(self, contract: Json) -> None:
        """Begin, if nothing was begun yet and nothing stands in the way."""
        tier, way = self._tiers.get(contract["tier"]), usual_way(contract)
        if self._ahead is None and tier is not None and way and not contract["secrets"] and _on_loop():
            with suppress(UnfitContractError):  # the session will say so
                base = self._workspaces.known(contract["workspace"]) if is_captured(contract) else None
                plan = plan_of(contract, {}, os.environ, way, base)
                self._ahead = tier.begin(plan, self._outside.stdin) if not plan.harness else None

    def shared(self) -> Outside:
        """Give what the run shares with whoever asked for it, the sandbox with it."""
        return msgspec.structs.replace(self._outside, ahead=self._ahead)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ahead is not None and not self._ahead.taken:
            await self._ahead.abandon()


def _on_loop() -> bool:
    """Say whether we are on the event loop's thread: a plane that was busy is asked again on another."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises where there is none


def _protected(home: Home, policy: Policy) -> tuple[str, ...]:
    """List what no grant may contain or lie in: the keys, the policy, and what spawners keep of this and other runs.

    Who can write a spawner's locks says what the next one removes; who can read its scratch sees other runs' files.
    """
    kept = [Path(places.state_folder(os.environ)), Path(places.scratch_folder())]
    paths = [home.root, *kept, *([source] if (source := Path(policy.source)).exists() else [])]
    return tuple(dict.fromkeys(str(one) for path in paths for one in (path.absolute(), path.resolve())))


@asynccontextmanager
async def open_local(
    home: Home, policy: Policy, *, spawner: tuple[Any, int] | None = None, tiers: Mapping[str, Tier] | None = None
) -> AsyncIterator[Local]:
    """Open a home to run in; `spawner` is one that was forked before, see `isolation.early`."""
    from tipstaff.isolation.bwrap import Bubblewrap  # noqa: PLC0415 - whoever brings tiers needs none of ours

    own = Bubblewrap(spawner=spawner)
    shared: dict[str, Tier] = {"bwrap": own}
    if policy.document.tiers.minimum == "process":  # under any other minimum nothing can run in it
        from tipstaff.isolation.process import Process  # noqa: PLC0415 - few policies take it

        shared["process"] = Process(workshop=own.workshop)
    try:
        with opened(home, policy, owned=True) as found:
            local = Local(home, policy, found, shared if tiers is None else tiers)
            try:
                yield local
            finally:
                await local.close()
    finally:
        await own.close()
