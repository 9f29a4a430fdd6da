"""The `bwrap` tier: Linux namespaces by bubblewrap. Never falls back to another tier."""

import os
from pathlib import Path
from typing import Self

from tipstaff.isolation import bubblewrap, probe, running, verdicts
from tipstaff.isolation.client import SpawnerError
from tipstaff.isolation.tier import Ahead, Ended, Passage, Plan, Source
from tipstaff.isolation.workshop import AT_ONCE, Detachable, Workshop
from tipstaff.model.tiers import TierReport

_JUDGING = running.Judging("bwrap", verdicts.breaches, verdicts.judge)


class Bubblewrap:
    """The default tier. One spawner serves any number of runs; `close` ends it."""

    name = "bwrap"

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
        missing = probe.diagnosis(ended.reason or f"`true` ended {ended.ending} with {ended.exit_code} in a sandbox")
        return TierReport(name=self.name, available=False, missing=missing)

    async def promise(self) -> TierReport:
        """Say what the spawner found when it settled."""
        try:
            settled = await self.workshop.settled()
        except SpawnerError as error:
            return TierReport(name=self.name, available=False, missing=probe.diagnosis(str(error)))
        if not os.access(bubblewrap.PROGRAM, os.X_OK):
            return TierReport(name=self.name, available=False, missing=probe.diagnosis(""))
        return TierReport(name=self.name, verdicts=verdicts.promised(settled["groups"]))

    def begin(self, plan: Plan, stdin: Source | None) -> Ahead | None:
        """Have a sandbox made ahead of its permission."""
        return running.begin(self.workshop, _JUDGING, plan, stdin)

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        """Run one plan to its end; nothing that it started is left."""
        return await running.run(self.workshop, _JUDGING, plan, passage)
