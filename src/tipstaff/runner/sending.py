"""Brings what a run left to its plane: contents, then events, then the receipt. Never loses it, never sends two.

1. The plane has it when its signature is under our very receipt; any other answer of success is none.
2. A plane that cannot be reached is tried again, ever more rarely, for as long as it takes; what is sent then is what
   was written down. So is one in whose name something on the way says no: a plane of ours gives each refusal a code.
3. A plane that has given the run away, or ended it (409, by its code), is still told once, because it keeps what comes
   late beside the run; then it is forgotten. What it refuses for another reason is put aside, contents and all.
Who leaves stops trying: the next start goes on.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.runner.client import MALFORMED, UnreachableError, unreadable
from tipstaff.runner.contracts import Place
from tipstaff.runner.http import OverHttp
from tipstaff.runner.lease import GONE, STALE
from tipstaff.runner.proofs import is_countersigned
from tipstaff.runner.spool import Entry, Parcel
from tipstaff.runner.waiting import Backoff

Json = dict[str, Any]
Say = Callable[[str], None]
Offers = frozenset[str]
Answer = TypeVar("Answer")
SOON_SECONDS: Final = 0.05  # a plane that answers within this keeps the receipt better than our disk does
LOT_BYTES: Final = 4 * 1024**2
LOT_EVENTS: Final = 5_000
FEW: Final = 200  # events: so many are never too much for one body
CONFLICT: Final = 409
LOOK_SECONDS: Final = 0.25


class Sender:
    """One runner's way to be rid of what its runs left."""

    def __init__(self, client: OverHttp, place: Place, chance: Callable[[], float], say: Say) -> None:
        self._client = client
        self._place = place
        self._chance = chance
        self.say = say
        self.leave_after_seconds: float | None = None  # of trying; None: for as long as it takes

    async def send(self, entry: Entry, parcel: Parcel) -> Json | None:
        """Bring a parcel to the plane; gives the countersigned receipt, or None where the plane does not want it."""
        backoff, started = Backoff(self._chance), time.monotonic()
        while True:
            try:
                receipt = await self._soon(entry, parcel)
            except PlaneError as error:
                if self._is_refusal(error):
                    self._refused(entry, error)
                    return None
                seconds = backoff.next_seconds(getattr(error, "retry_seconds", 0.0))
                self.say(f"the receipt of {entry.claim.run_id} waits: {error.message}; next try in {seconds:.1f} s")
                if not await self._pause(seconds, started):
                    return None
            else:
                entry.remove()
                return receipt

    async def _pause(self, seconds: float, started: float) -> bool:
        """Wait until the next try; gives whether there is to be one."""
        end = time.monotonic() + seconds
        while True:
            now, most = time.monotonic(), self.leave_after_seconds
            if most is not None and now - started >= most:
                return False
            if now >= end:
                return True
            await asyncio.sleep(min(LOOK_SECONDS, end - now))

    def _is_refusal(self, error: PlaneError) -> bool:
        """Say whether the plane itself said no, so that to ask again would not change it."""
        if isinstance(error, UnreachableError) or error.code == MALFORMED:
            return False
        if not (self._place.proves or self._client.offers):
            return True  # an older plane's refusals have no code
        return error.code in GONE if error.status == CONFLICT else bool(error.code)

    def _refused(self, entry: Entry, error: PlaneError) -> None:
        if error.status == CONFLICT:
            self.say(f"the plane does not want {entry.claim.run_id} any more: {error.message}")
            entry.remove()
        else:
            self.say(f"the plane does not take the receipt of {entry.claim.run_id}: {error}; it is put aside")
            entry.reject()

    async def _soon(self, entry: Entry, parcel: Parcel) -> Json:
        """Send it; where the answer takes long, have our own disk keep it in the meantime."""
        sending = asyncio.ensure_future(self._once(entry, parcel))
        try:
            done, _ = await asyncio.wait([sending], timeout=SOON_SECONDS)
            if not done or sending.exception() is not None:
                await asyncio.to_thread(entry.sync)
            return await sending
        except asyncio.CancelledError:
            sending.cancel()
            raise

    async def _once(self, entry: Entry, parcel: Parcel) -> Json:
        offers = self._client.offers  # now: another answer in between must not leave something out
        try:
            await self._with_newest(entry, lambda: self._bring(entry, parcel, offers))
        except PlaneError as error:
            if error.status != CONFLICT or not self._is_refusal(error):
                raise  # else the run is not ours any more, and the receipt is told all the same
        receipt = await self._with_newest(entry, lambda: self._tell(entry, parcel, offers))
        if not is_countersigned(receipt, parcel.receipt, self._place.plane_key):
            raise unreadable("a receipt", "it is not signed by our plane, or is not the one that was sent")
        return receipt

    async def _with_newest(self, entry: Entry, step: Callable[[], Awaitable[Answer]]) -> Answer:
        """Take a step; where the token is void, ask for the newest and take it again.

        The answer to a renewal may have been lost, with the newest token; the same question gives it again.
        """
        try:
            return await step()
        except PlaneError as error:
            if error.code != STALE:
                raise
        claim, _ = await self._client.renew(entry.claim)
        entry.renewed(claim)
        return await step()

    async def _bring(self, entry: Entry, parcel: Parcel, offers: Offers) -> None:
        """Bring what the receipt names, and the events that do not go with it."""
        token = entry.claim.token
        for digest in parcel.files:
            await self._client.upload(token, entry.blob(digest), digest)
        if "blobs" not in offers:
            for digest, content in parcel.inline.items():
                await self._client.upload(token, content, digest)
        if _go_along(parcel.events, offers):
            return
        inline = list(parcel.inline.values()) if "blobs" in offers else []
        # Ours take an event twice; of others, those must be left out that are there.
        for lot in _lots(parcel.events if offers else [one for one in parcel.events if one["seq"] > entry.sent]):
            await self._client.send(entry.claim, lot, blobs=inline)  # which must be there before they are named
            if not offers:
                entry.arrived(lot)
            inline = []

    async def _tell(self, entry: Entry, parcel: Parcel, offers: Offers) -> Json:
        """Send the receipt, with the rest where that goes along."""
        along = _go_along(parcel.events, offers)
        inline = parcel.inline.values() if along and "blobs" in offers else ()
        return await self._client.complete(entry.claim, parcel.receipt, parcel.events if along else (), inline)


def _go_along(events: Sequence[Json], offers: Offers) -> bool:
    """Say whether events go with the receipt."""
    return "events-in-complete" in offers and len(events) <= FEW


def _lots(events: Sequence[Json]) -> Iterator[list[Json]]:
    """Cut events into bodies that any plane takes."""
    lot: list[Json] = []
    size = 0
    for event in events:
        length = len(msgspec.json.encode(event))
        if lot and (size + length > LOT_BYTES or len(lot) >= LOT_EVENTS):
            yield lot
            lot, size = [], 0
        lot.append(event)
        size += length
    if lot:
        yield lot
