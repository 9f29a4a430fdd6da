"""The `bwrap` tier: Linux namespaces by bubblewrap. Never falls back to another tier."""

import os
from pathlib import Path
from typing import Self

from tipstaff.isolation import places, running, verdicts
from tipstaff.isolation.client import SpawnerError
from tipstaff.isolation.tier import Ahead, Ended, Passage, Plan, Source
from tipstaff.isolation.workshop import AT_ONCE, Detachable, Workshop
from tipstaff.model.tiers import TierReport

_JUDGING = running.Judging("bwrap", verdicts.breaches, verdicts.judge)


class Bubblewrap:
    """The default tier. One spawner serves any number of runs; `close` ends it."""

    name = "bwrap"
    harnesses: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        state: Path | None = None,
        scratch: Path | None = None,
        at_once: int = AT_ONCE,
        mounts: bool = True,
        spawner: tuple[Detachable, int] | None = None,
    ) -> None:
        self.workshop = Workshop(state=state, scratch=scratch, at_once=at_once, mounts=mounts, spawner=spawner)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the spawner and everything that it still runs."""
        await self.workshop.close()

    async def report(self) -> TierReport:
        """Say what this host enforces, by running `true` and reading back what held for it."""
        ended = await self.run(running.PROBE, Passage())
        if ended.ending == "exited" and ended.exit_code == 0:
            return TierReport(name=self.name, verdicts=ended.verdicts)
        return self._missing(ended.reason or f"`true` ended {ended.ending} with {ended.exit_code} in a sandbox")

    async def promise(self) -> TierReport:
        """Say what the spawner found when it settled."""
        try:
            settled = await self.workshop.settled()
        except SpawnerError as error:
            return self._missing(str(error))
        if not os.access(places.BUBBLEWRAP, os.X_OK):
            return self._missing("")
        return TierReport(name=self.name, verdicts=verdicts.promised(settled))

    def _missing(self, reason: str) -> TierReport:
        from tipstaff.isolation import probe  # noqa: PLC0415 - most hosts lack nothing

        return TierReport(name=self.name, available=False, missing=probe.diagnosis(reason))

    def begin(self, plan: Plan, stdin: Source | None) -> Ahead | None:
        """Have a sandbox made ahead of its permission."""
        return running.begin(self.workshop, _JUDGING, plan, stdin)

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        """Run one plan to its end; nothing that it started is left."""
        return await running.run(self.workshop, _JUDGING, plan, passage)
