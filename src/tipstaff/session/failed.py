"""The account of a run that no session tells of: it broke down, it was refused here, or its runner was restarted.

Written from the events that the runner had put on record, and nothing else; one more event says why. Unsigned.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tipstaff.isolation.tier import Ended
from tipstaff.model.events import FailureClass
from tipstaff.model.times import Clock, timestamp
from tipstaff.session.history import History
from tipstaff.session.record import Account, receipt_of
from tipstaff.session.session import KILLED, SETUP_FAILED, Told

Json = dict[str, Any]
_BEGUN: Final = "workspace.materialized"


class Failure(msgspec.Struct, frozen=True):
    """Why there is no better account: the protocol's name for it, and a sentence."""

    name: FailureClass
    message: str


def failed(contract: Json, events: Sequence[Json], failure: Failure, clock: Clock, facts: Json) -> Told:
    """Write the receipt of a run that failed; `events` are all that are on record, those of the claim first."""
    history = History(events, clock)
    begun = any(link["event"].get("type") == _BEGUN for link in events)
    ended = Ended(
        ending="signalled" if begun else "setup-failed",  # what had begun was killed with all that it started
        exit_code=KILLED if begun else SETUP_FAILED,
        reason=failure.message,
    )
    history.add("run.failed", failure=failure.name, message=failure.message)
    account = Account(
        ended=ended,
        tier=contract["tier"],
        streams={},
        executed_at="",
        ended_at=max(timestamp(clock()), history.chain.last_runner_time),
        host=facts,
    )
    return Told(receipt_of(contract, history.chain, account), history.unsent(), ended)
