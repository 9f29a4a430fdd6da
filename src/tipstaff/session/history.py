"""The runner's part of a run's chain: events put behind those of the claim, each dated by the runner's own clock.

Times never go back: the clock is the wall clock at the runner's start plus the time since. What was added and not yet
sent is `unsent`; a fold of the whole gives what the receipt has to repeat.
"""

from collections.abc import Sequence
from typing import Any

from tipstaff.evidence.chain import Chain, chained
from tipstaff.evidence.report import Findings
from tipstaff.model.times import Clock, timestamp

Json = dict[str, Any]


class History:
    """One chain, from the claim on."""

    def __init__(self, claimed: Sequence[Json], clock: Clock) -> None:
        self._clock = clock
        self.findings = Findings()
        self.chain = Chain(self.findings)
        for link in claimed:
            self.chain.add(link)
        self._unsent: list[Json] = []

    def add(self, name: str, **fields: Any) -> None:
        """Write down one event."""
        now = max(timestamp(self._clock()), self.chain.last_runner_time)
        link = chained(self.chain.count, now, self.chain.head, {"type": name, **fields})
        self.chain.add(link)
        self._unsent.append(link)

    def put_back(self, events: list[Json]) -> None:
        """Take back events that could not be sent."""
        self._unsent = events + self._unsent

    def unsent(self) -> list[Json]:
        """Give the events that were not given before."""
        events, self._unsent = self._unsent, []
        return events
