"""A session's surroundings that stand still: an obedient tier, blobs in memory, and a claim to carry out."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.plane.embedded import REQUEST, Embedded
from tests.unit.workspace.shelf import Shelf
from tipstaff.isolation.tier import Ended, Leaving, Passage, Plan, Source
from tipstaff.model.tiers import TierReport, Verdict, at_best
from tipstaff.session import Host, Outside, Session, Told
from tipstaff.session.session import Workspaces

Json = dict[str, Any]
Carry = Callable[..., Any]


class Obedient:
    """A tier that runs nothing: it prints what it is told to print and ends as it is told to end."""

    name = "bwrap"
    harnesses: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.ended = Ended(ending="exited", exit_code=0)
        self.prints: Sequence[tuple[str, bytes]] = ()
        self.verdicts: tuple[Verdict, ...] = at_best("bwrap").verdicts
        self.plans: list[Plan] = []
        self.leaves: Leaving | None = None
        self.released = False

    async def report(self) -> TierReport:
        return at_best("bwrap")

    async def promise(self) -> TierReport:
        return at_best("bwrap")

    def begin(self, plan: Plan, stdin: Source | None) -> None:
        pass

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        self.plans.append(plan)
        problem = await passage.gate(self.verdicts) if passage.gate else ""
        if problem:
            return Ended(ending="setup-failed", exit_code=125, reason=problem, verdicts=self.verdicts)
        self.released = True
        for stream, content in self.prints:
            getattr(passage, stream)(content)
        if passage.cancel.is_set():
            return Ended(ending="cancelled", exit_code=130)
        if self.leaves is not None and passage.left is not None:
            await passage.left(self.leaves)
        return self.ended


class Line:
    """A line to nobody, which keeps what it was told."""

    def __init__(self, answer: Json | None) -> None:
        self._answer = answer
        self.released: list[Json] = []
        self.told: list[Json] = []
        self.delivered: list[str] = []
        self.problem = ""

    async def release(self, events: Sequence[Json]) -> Json | None:
        """Keep it, and say who wants the run stopped."""
        self.released.extend(events)
        return self._answer

    async def tell(self, events: Sequence[Json]) -> None:
        """Keep it."""
        self.told.extend(events)

    async def ask(self, question: Json, *, give_up: bool = False) -> Json:
        """Have nobody who answers."""
        return {"answer": "no" if give_up else "waiting", "question": question}

    async def deliver(self, contents: Sequence[str]) -> str:
        """Keep what it should bring, and say what it is told to say."""
        self.delivered.extend(contents)
        return self.problem


@pytest.fixture
def tier() -> Obedient:
    """The tier that the session finds."""
    return Obedient()


@pytest.fixture
def blobs() -> Shelf:
    """The blobs that the session finds."""
    return Shelf()


@pytest.fixture
def carry(tmp_path: Any, tier: Obedient, blobs: Shelf) -> Carry:
    """Carry out one request under a policy that allows it; gives what the session told, and the events it released."""
    site = Embedded(tmp_path)

    async def carried(
        outside: Outside | None = None,
        environ: dict[str, str] | None = None,
        answer: Json | None = None,
        change: Json | None = None,
        *,
        workspaces: Workspaces | None = None,
        **fields: Any,
    ) -> tuple[Told, list[Json]]:
        site.plane.submit({**REQUEST, **fields})
        claim = site.claim()
        line = Line(answer)
        host = Host(
            tiers={"bwrap": tier},
            blobs=blobs,
            environ=environ or {},
            clock=site.clock,
            facts={"kernel": "x"},
            workspaces=workspaces,
        )
        session = Session(host, {**claim["contract"], **(change or {})}, claim["events"], {})
        return await session.carry_out(outside or Outside(), line), line.released

    return carried
