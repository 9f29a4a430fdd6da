"""One claim on a plane elsewhere, carried out: checked, kept on disk, run, signed for and sent.

1. What is not our plane's contract for this runner and this moment, or was taken before, is dropped: nothing runs,
   nothing is signed. All but the last is looked at when an `AtWork` is made.
2. Whatever else happens, there is a receipt: what cannot be kept here, what breaks down and what a restart cut off is
   told as a failure, from the events that are on our disk.
3. Times are the plane's, where it signed for the claim: its time plus the time since, by our own clock.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.errors import PlaneError, StoreError, TipstaffError
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import Signer
from tipstaff.model.times import Clock, milliseconds
from tipstaff.runner.blobs import RunBlobs
from tipstaff.runner.client import Claim
from tipstaff.runner.contracts import ForeignContractError, Place, refuse_foreign, refuse_unfit
from tipstaff.runner.held import HeldLease
from tipstaff.runner.http import OverHttp
from tipstaff.runner.live import LiveOutput
from tipstaff.runner.older import view_of
from tipstaff.runner.proofs import claimed_at
from tipstaff.runner.seen import Seen
from tipstaff.runner.sending import Sender
from tipstaff.runner.spool import Entry, Parcel, Spool
from tipstaff.runner.workspaces import RunnerWorkspaces
from tipstaff.session import Host, Outside, Session, Told
from tipstaff.session.failed import Failure, failed
from tipstaff.session.plan import UnfitContractError
from tipstaff.session.session import LOG, may_leave, stream_names

Json = dict[str, Any]
MILLION: Final = 1_000_000
RESTARTED: Final = Failure("session_failed", "the runner was restarted while it ran")
_plain_name = re.compile(r"[A-Za-z0-9_-]{1,128}\Z").match


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner carries contracts out with."""

    client: OverHttp
    host: Host  # its clock is ours; each run's is the plane's, where that is known
    key: Signer
    place: Place
    spool: Spool
    seen: Seen
    data: Path
    sender: Sender
    chance: Callable[[], float]


class AtWork:
    """One claim at work; `stop` ends it at once, in the operator's name.

    ForeignContractError where the claim is nobody's, or another's.
    """

    def __init__(self, means: Means, claim: Claim, nonce: str) -> None:
        if _plain_name(claim.run_id) is None:
            raise ForeignContractError(f"{claim.run_id[:64]!r} is no name of a run")
        self._means = means
        self._claim = claim
        self._clock = _clock(means, claim, nonce)
        refuse_foreign(claim, means.place, self._clock())
        self._outside = Outside()
        self._session: Session | None = None
        self._is_stopped = False
        self.run_id = claim.run_id

    def stop(self) -> None:
        """End the run's processes; its receipt says that this runner's operator wanted it."""
        self._is_stopped = True
        self._blame()
        self._outside.cancel.set()

    def _blame(self) -> None:
        if self._is_stopped and self._session is not None:
            self._session.cancelled_by({"kind": "service", "id": self._means.place.runner_id})

    async def carry_out(self) -> Json | None:
        """Carry the claim out, to its countersigned receipt; None where the plane does not want it any more.

        ForeignContractError where it was taken before.
        """
        means, claim = self._means, self._claim
        view = view_of(claim.contract, means.host.tiers)
        entry = means.spool.open(claim)
        lease = HeldLease(means.client, entry, means.place, means.chance)
        told = await self._told(view, entry, lease)
        parcel = self._parcel(told, entry, lease)
        try:
            entry.finish(parcel)
        except StoreError as error:  # the plane may still have it
            means.sender.say(f"the receipt of {claim.run_id} cannot be kept here: {error}")
        return await means.sender.send(entry, parcel)

    def _refuse_seen(self) -> None:
        """Refuse a claim that was taken before; a disk that cannot note it is a reason not to run it."""
        claim = self._claim
        attempt = claim.attempt if claim.proof is not None else 1  # what nobody signed for says nothing
        expires = milliseconds(claim.contract["expiresAt"])
        if not self._means.seen.take(payload_digest(claim.contract), attempt, expires):
            raise ForeignContractError(f"this claim on {claim.run_id} was taken before", "contract_replayed")

    async def _told(self, view: Json, entry: Entry, lease: HeldLease) -> Told:
        """Carry the contract out, or say why that failed."""
        try:
            self._refuse_seen()
            entry.begin()
            refuse_unfit(view, self._means.host.tiers)
            return await self._session_told(view, entry, lease)
        except ForeignContractError:
            raise
        except UnfitContractError as error:
            failure = Failure(error.failure, error.message)
        except Exception as error:  # noqa: BLE001 - the outermost edge of a run: whatever happened, there is a receipt
            failure = _failure(error)
            self._means.sender.say(f"run {self.run_id} broke down: {failure.message}")
        unsent = self._session.unsent() if self._session is not None else []
        lasting = [*entry.events, *(link for link in unsent if link["seq"] >= _next(entry))]
        told = failed(view, [*self._claim.events, *lasting], failure, self._clock, self._means.host.facts)
        return msgspec.structs.replace(told, events=[*lasting, *told.events])

    async def _session_told(self, view: Json, entry: Entry, lease: HeldLease) -> Told:
        means = self._means
        blobs = lease.blobs = RunBlobs(entry, lease.fetch, asyncio.get_running_loop())
        host = msgspec.structs.replace(
            means.host,
            blobs=blobs,
            clock=self._clock,
            workspaces=RunnerWorkspaces(means.data / "workspaces", blobs),
        )
        live = LiveOutput(lease.log) if "log" in means.client.offers and may_leave(view, LOG) else None
        outside = self._outside
        if live is not None:
            outside = msgspec.structs.replace(
                outside, stdout=live.sink("stdout"), stderr=live.sink(stream_names(view)[-1])
            )
        session = self._session = Session(host, view, self._claim.events, self._claim.secrets)
        self._blame()
        async with lease.kept(session, outside):
            try:
                return await session.carry_out(outside, lease)
            finally:
                if live is not None:
                    await live.close()

    def _parcel(self, told: Told, entry: Entry, lease: HeldLease) -> Parcel:
        """Sign for the run, and put together what the plane has to get."""
        receipt = told.receipt | ({"checkpoints": lease.checkpoints} if lease.checkpoints else {})
        named = list(dict.fromkeys(receipt["workspaceOut"]["artifactHashes"]))
        small = lease.blobs.small if lease.blobs is not None else {}
        missing = [digest for digest in named if digest not in lease.delivered]
        return Parcel(
            receipt=signed(receipt, self._means.key, "runner"),
            events=told.events,
            inline={digest: small[digest] for digest in missing if digest in small},
            files=tuple(digest for digest in missing if digest not in small and entry.blob(digest).exists()),
        )


async def resume(means: Means, entry: Entry) -> None:
    """Bring to its end what a former process of this runner left of a run."""
    parcel = entry.parcel
    if parcel is None:
        view = view_of(entry.claim.contract, means.host.tiers)
        told = failed(view, [*entry.claim.events, *entry.events], RESTARTED, means.host.clock, means.host.facts)
        parcel = Parcel(signed(told.receipt, means.key, "runner"), [*entry.events, *told.events])
        entry.finish(parcel)
    await means.sender.send(entry, parcel)


def _next(entry: Entry) -> int:
    links = entry.events or entry.claim.events
    return int(links[-1]["seq"]) + 1


def _failure(error: Exception) -> Failure:
    """Name what went wrong; of errors that are not ours only the kind, because their words may hold anything."""
    if isinstance(error, StoreError | OSError):
        return Failure("transfer_failed", f"the runner's disk does not take what the run left: {_words(error)}")
    if isinstance(error, PlaneError):
        return Failure("session_failed", f"the plane did not take what had to be there first: {error.message}")
    if isinstance(error, TipstaffError):
        return Failure("session_failed", error.message)
    return Failure("session_failed", f"a fault of the runner ended it: {type(error).__name__}")


def _words(error: StoreError | OSError) -> str:
    """Say why the disk said no, without the names of this host's folders."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return cause.strerror or "no reason given" if isinstance(cause, OSError) else "no reason given"


def _clock(means: Means, claim: Claim, nonce: str) -> Clock:
    """Give the run's clock: the plane's word plus the time since, else our own."""
    at = claimed_at(claim, nonce, means.place)
    if at is None:
        return means.host.clock
    return partial(_since, at, time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def _since(at_ms: int, started_ns: int) -> int:
    return at_ms + (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns) // MILLION


def new_nonce() -> str:
    """Make a question to which only a fresh answer fits."""
    return os.urandom(16).hex()
