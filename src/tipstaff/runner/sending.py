"""Brings what a run left to its plane: contents, then events, then the receipt. Never loses it, never sends two.

A plane that cannot be reached is tried again, ever more rarely, for as long as it takes; what is sent then is what was
written down. A plane that has given the run away, or ended it, does not want it any more (409): it is forgotten. What
the plane refuses for another reason is put aside, because nothing that we could send instead would be true. An answer
that no plane gives is somebody else's on the way, and counts as none. Who leaves stops trying: the next start goes on.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.runner.client import MALFORMED, UnreachableError
from tipstaff.runner.http import OverHttp
from tipstaff.runner.lease import STALE
from tipstaff.runner.spool import Entry, Parcel
from tipstaff.runner.waiting import Backoff

Json = dict[str, Any]
Say = Callable[[str], None]
SOON_SECONDS: Final = 0.05  # a plane that answers within this keeps the receipt better than our disk does
LOT_BYTES: Final = 4 * 1024**2
FEW: Final = 200  # events: so many are never too much for one body
CONFLICT: Final = 409
LOOK_SECONDS: Final = 0.25


class Sender:
    """One runner's way to be rid of what its runs left."""

    def __init__(self, client: OverHttp, chance: Callable[[], float], say: Say) -> None:
        self._client = client
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
                if not _may_be_tried_again(error):
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
        try:
            return await self._parts(entry, parcel)
        except PlaneError as error:
            if error.code != STALE:
                raise
            # The answer to a renewal may have been lost, with the newest token; the same question gives it again.
            claim, _ = await self._client.renew(entry.claim)
            entry.renewed(claim)
            return await self._parts(entry, parcel)

    async def _parts(self, entry: Entry, parcel: Parcel) -> Json:
        offers, token = self._client.offers, entry.claim.token
        for digest in parcel.files:
            await self._client.upload(token, entry.blob(digest), digest)
        if "blobs" not in offers:
            for digest, content in parcel.inline.items():
                await self._client.upload(token, content, digest)
        events, inline = parcel.events, list(parcel.inline.values()) if "blobs" in offers else []
        if "events-in-complete" not in offers or len(events) > FEW:
            # Ours take an event twice; of others, those must be left out that are there.
            for lot in _lots(events if offers else [link for link in events if link["seq"] > entry.sent]):
                await self._client.send(entry.claim, lot, blobs=inline)  # which must be there before they are named
                if not offers:
                    entry.arrived(lot)
                inline = []
            events = []
        return await self._client.complete(entry.claim, parcel.receipt, events, inline)


def _may_be_tried_again(error: PlaneError) -> bool:
    return isinstance(error, UnreachableError) or error.code == MALFORMED


def _lots(events: Sequence[Json]) -> Iterator[list[Json]]:
    """Cut events into bodies that any plane takes."""
    lot: list[Json] = []
    size = 0
    for event in events:
        length = len(msgspec.json.encode(event))
        if lot and size + length > LOT_BYTES:
            yield lot
            lot, size = [], 0
        lot.append(event)
        size += length
    if lot:
        yield lot
