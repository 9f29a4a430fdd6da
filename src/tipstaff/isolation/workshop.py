"""Where sandboxes are made: one spawner for any number of runs and tiers, started when it is first needed.

One that dies is replaced by the next run; the runs that it had are told. At most so many sandboxes stand at once, the
others wait their turn, so that a thousand runs need no more descriptors than a few.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from tipstaff.isolation import places
from tipstaff.isolation.client import Link

AT_ONCE: Final = 64


class Detachable(Protocol):
    """A socket of any kind, to be taken over."""

    def detach(self) -> int:
        """Give the descriptor away."""
        ...


class Workshop:
    """One spawner at a time; `close` ends it and everything that it still runs."""

    def __init__(
        self,
        *,
        state: Path | None = None,
        scratch: Path | None = None,
        at_once: int = AT_ONCE,
        mounts: bool = True,
        spawner: tuple[Detachable, int] | None = None,
    ) -> None:
        self._state = str(state or places.state_folder(os.environ))
        self._scratch = str(scratch or places.scratch_folder())
        self._mounts = mounts  # False: as on a host that lets bubblewrap mount, and an ordinary user not
        self._early = spawner
        self._link: Link | None = None
        self._starting = asyncio.Lock()
        self._at_once = at_once
        self.places = asyncio.Semaphore(at_once)

    async def link(self) -> Link:
        """Give a spawner that has settled; SpawnerError when there is none to be had."""
        async with self._starting:
            if self._link is not None and not self._link.alive:
                await self._closed()
            if self._link is None:
                self._link = self._adopted() or Link.start(self._state, self._scratch, mounts=self._mounts)
                await self._link.wait_settled()
            return self._link

    def idle_link(self) -> Link | None:
        """Give the spawner if it is there, has settled, and has a place free; None otherwise."""
        link = self._link
        ready = link is not None and link.alive and link.settled.done() and not self.places.locked()
        return link if ready and link is not None and link.standing < self._at_once else None

    async def settled(self) -> Mapping[str, Any]:
        """Say what the spawner found when it settled."""
        return await (await self.link()).settled

    def _adopted(self) -> Link | None:
        early, self._early = self._early, None
        return Link.adopt(socket.socket(fileno=early[0].detach()), early[1]) if early is not None else None

    async def close(self) -> None:
        """End the spawner, also one that nobody has asked for anything."""
        async with self._starting:
            self._link = self._link or self._adopted()
            await self._closed()

    async def _closed(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()
