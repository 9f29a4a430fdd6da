"""Runs at a plane elsewhere, from Python: the same face as a home held open.

The workspace of a run is captured and sent; what the plane says is believed as far as its proof holds. The certificates
that vouch for it, and leave for plain HTTP, come from the environment, as at the command line.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from tipstaff.doors.asking import Asked
from tipstaff.doors.elsewhere import Errand, errand_of
from tipstaff.doors.folders import Surroundings
from tipstaff.doors.python.box import Box
from tipstaff.errors import UsageError
from tipstaff.home import Home
from tipstaff.model.outcome import Outcome
from tipstaff.remote.address import address_of, find_token
from tipstaff.remote.carrying import Ends, carry_out, in_thread
from tipstaff.remote.noted import note_folder
from tipstaff.remote.plane import RemotePlane, opened
from tipstaff.runner.address import plain_is_meant

Json = dict[str, Any]


class BoxElsewhere(Box):
    """A plane elsewhere; made by `open(plane=…)`."""

    def __init__(self, plane: RemotePlane, home: Home) -> None:
        self._plane = plane
        self._home = home

    async def _carried_out(self, asked: Asked, stdin: bytes | None, approval_seconds: float) -> Outcome:
        if stdin is not None:
            raise UsageError("input is not carried to a plane elsewhere", hint="put it into a file of the workspace")
        errand = errand_of(asked, Surroundings.of(self._home.root, os.environ), os.environ)
        await in_thread(self._plane.trusted)
        if errand.folder is not None:
            await in_thread(partial(self._send, errand))
        ends = Ends(cancel=asyncio.Event(), approval_seconds=approval_seconds)
        outcome = await carry_out(self._plane, errand.request, ends)
        if errand.folder is not None and outcome.run_id is not None:
            note_folder(self._home, outcome.run_id, str(errand.folder))
        return outcome

    def _send(self, errand: Errand) -> None:
        from tipstaff.remote import sending  # noqa: PLC0415 - most runs have no workspace

        with sending.opened(self._home) as sender:
            assert errand.folder is not None  # noqa: S101 - nobody sends without one
            parcel = sender.packed(errand.folder, errand.wish)
            sender.send(self._plane.wire, sender.missing(self._plane.wire, parcel.items))
        errand.request["workspace"] = parcel.manifest


@asynccontextmanager
async def open_elsewhere(plane: str, token: str | None, home: Home) -> AsyncIterator[BoxElsewhere]:
    """Open a plane elsewhere for many runs; without a `token` it is the environment's."""
    where = address_of(
        plane,
        token if token is not None else find_token(os.environ),
        os.environ.get("TIPSTAFF_CA_FILE") or None,
        plain=plain_is_meant(os.environ),
    )
    if where.token is None:
        raise UsageError(f"there is no token for the plane {where.url}", hint="give token=…, or set TIPSTAFF_TOKEN")
    with opened(where, home) as found:
        yield BoxElsewhere(found, home)
