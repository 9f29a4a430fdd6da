"""The lease of a run beside its plane: what a renewal's answer does to the run."""

import asyncio
from typing import Any

import pytest

from tests.unit.plane.embedded import ANNA
from tests.unit.runner.conftest import SECONDS
from tipstaff.errors import PlaneError
from tipstaff.runner.client import Claim
from tipstaff.runner.lease import Lease
from tipstaff.session import Outside

CLAIM = Claim("run_1", {}, "token", 1, [], {}, 30)


class Answering:
    """A plane whose renewals end in one way."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def renew(self, claim: Claim) -> Any:
        """Say it."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return claim, self._answer


class Told:
    """A session that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def given_up(self, reason: str) -> None:
        """Keep it."""
        self.said.append(reason)

    def cancelled_by(self, actor: Any) -> None:
        """Keep it."""
        self.said.append(actor)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (PlaneError("replaced", status=409, code="claim_stale"), "the run is not this runner's any more"),
        (PlaneError("over", status=409, code="completed"), "the run is not this runner's any more"),
        (ANNA, ANNA),
    ],
)
async def test_a_run_is_stopped_by_whom_the_plane_names_and_else_by_nobody(answer, said):
    """Somebody who cancels is named; a run that is another's by now is given up, and nobody is blamed for it."""
    session, outside = Told(), Outside()
    lease = Lease(Answering(answer), CLAIM)  # type: ignore[arg-type]  # of a client, renewals are all that is asked
    async with lease.kept(session, outside):  # type: ignore[arg-type]  # as above
        await asyncio.wait_for(outside.cancel.wait(), SECONDS)

    assert session.said == [said]


async def test_a_renewal_that_fails_otherwise_stops_nothing():
    """Trouble with one renewal is left to the next."""
    session, outside = Told(), Outside()
    lease = Lease(Answering(PlaneError("busy", status=503)), CLAIM)  # type: ignore[arg-type]  # as above
    async with lease.kept(session, outside):  # type: ignore[arg-type]  # as above
        await asyncio.sleep(0.1)

    assert session.said == []
    assert not outside.cancel.is_set()
