"""The `process` tier: a child process on the host's own kernel and file system, narrowed down as far as that goes.

Scrubbed environment, a session of its own, limits, Landlock, a filter that lets no socket be made, and as root a uid of
its own. For hosts without bubblewrap or user namespaces; weaker than `bwrap`, and says so clause by clause. Refuses to
run where a command could read our signing keys. Never a silent fallback: policy has to name it.
"""

from pathlib import Path
from typing import Self

from tipstaff.isolation import narrowed, running
from tipstaff.isolation.client import SpawnerError
from tipstaff.isolation.tier import Ahead, Ended, Passage, Plan, Source
from tipstaff.isolation.workshop import Detachable, Workshop
from tipstaff.model.tiers import TierReport

_JUDGING = running.Judging("process", narrowed.breaches, narrowed.judge)


class Process:
    """The tier without namespaces. `workshop` is shared with another tier, whose business its end then is."""

    name = "process"
    harnesses: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        state: Path | None = None,
        scratch: Path | None = None,
        mounts: bool = True,
        spawner: tuple[Detachable, int] | None = None,
        workshop: Workshop | None = None,
    ) -> None:
        self._owned = workshop is None
        self.workshop = workshop or Workshop(state=state, scratch=scratch, mounts=mounts, spawner=spawner)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the spawner and everything that it still runs, where it is ours alone."""
        if self._owned:
            await self.workshop.close()

    async def report(self) -> TierReport:
        """Say what this host enforces, by running `true` and reading back what held for it."""
        ended = await self.run(running.PROBE, Passage())
        if ended.ending == "exited" and ended.exit_code == 0:
            return TierReport(name=self.name, verdicts=ended.verdicts)
        missing = ended.reason or f"`true` ended {ended.ending} with {ended.exit_code}"
        return TierReport(name=self.name, available=False, missing=missing)

    async def promise(self) -> TierReport:
        """Say what the spawner found when it settled."""
        try:
            settled = await self.workshop.settled()
        except SpawnerError as error:
            return TierReport(name=self.name, available=False, missing=str(error))
        if settled["mode"] != "root" and not settled["landlock"]:
            return TierReport(name=self.name, available=False, missing=narrowed.KEYS_IN_REACH)
        return TierReport(name=self.name, verdicts=narrowed.promised(settled))

    def begin(self, plan: Plan, stdin: Source | None) -> Ahead | None:
        """Have a sandbox made ahead of its permission."""
        return running.begin(self.workshop, _JUDGING, plan, stdin)

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        """Run one plan to its end; nothing that it started is left."""
        return await running.run(self.workshop, _JUDGING, plan, passage)
