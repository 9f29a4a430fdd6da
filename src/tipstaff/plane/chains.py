"""What a runner adds to a chain: looked at before it is kept.

New events must follow the last one in order, hold together by their hashes, be of a type that a runner may author, and
stand where such an event may stand. Events that are there already, exactly so, are passed over: a runner may send
twice. An ending is held aside until the receipt confirms it: a chain only ever grows, so nothing may stand in it that
may turn out not to hold. The folded chain of a run at work is remembered, and taken back to where it stood when what
was added is refused: a message costs what it holds, whatever the chain's length.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tipstaff.canonical import digest
from tipstaff.errors import BusyError, CanonicalError, PlaneError
from tipstaff.evidence.chain import WRAPPER, Chain, Mark
from tipstaff.evidence.report import Findings
from tipstaff.model.noun import VERSION_EVENT
from tipstaff.plane.bounds import is_ending, refuse_far, refuse_flood, refuse_foreign, refuse_long
from tipstaff.store import Run, Runs
from tipstaff.store.database import Database

Json = dict[str, Any]
REMEMBERED: Final = 256  # runs at work at once
REMEMBERED_EVENTS: Final = 1_000_000  # of all of them
LONG: Final = 1_000  # events: folding so many is not done while others wait


class Extension:
    """What would follow the events that are kept, and the whole chain with it, folded without a problem."""

    def __init__(self, links: list[Json], chain: Chain) -> None:
        self.links = links
        self.chain = chain

    @property
    def ending(self) -> Json | None:
        """Give the last of the links, if it says how the run ended."""
        last = self.links[-1] if self.links else None
        return last if last and is_ending(last) else None

    @property
    def lasting(self) -> list[Json]:
        """Give the links that stand whatever the receipt will say."""
        return self.links[:-1] if self.ending else self.links


class Remembered:
    """A folded chain, and where it can be taken back to."""

    def __init__(self, links: Iterable[Json]) -> None:
        self.chain = Chain(Findings())
        self._marks: list[Mark] = []
        self.add(links)

    def stands_at(self, count: int, head: str) -> bool:
        """Bring the chain to where it had so many events, if it was there just now; says whether it is."""
        if (self.chain.count, self.chain.head) == (count, head):
            return True
        for mark in self._marks:
            if (mark.event_count, mark.events_head) == (count, head):
                self.chain.rewind(mark)
                return True
        return False

    def add(self, links: Iterable[Json]) -> None:
        """Fold more events."""
        self._marks = [self.chain.mark()]
        for link in links:
            if is_ending(link):
                self._marks.append(self.chain.mark())  # an ending may be taken back, and what is before it stays
            self.chain.add(link)


class Chains:
    """The chains of the runs at work."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._remembered: dict[str, Remembered] = {}  # the one that was used last comes last
        self._taken: set[str] = set()
        self._preparing = threading.Lock()

    def extension(self, run: Run, links: Any, now: int | None = None) -> Extension:
        """Take those of `links` that are new, if they continue the chain as a runner may; else refuse them all.

        With `now`, at a plane that serves several, there may not be too many, nor may they be dated far from it.
        """
        if type(links) is not list or not all(type(link) is dict for link in links):
            raise broken(["events is not a list of events"])
        if now is not None:
            refuse_flood(links)
        if run.run_id in self._taken:
            raise BusyError(f"a receipt of run {run.run_id} is being looked at", hint="try again")
        remembered = self._fold(run)
        if problems := remembered.chain.findings.sorted():
            raise broken([str(problem) for problem in problems])
        fresh = _fresh(run, links, remembered.chain)
        for link in fresh:
            refuse_foreign(link)
        if now is not None:
            refuse_long(run, fresh)
            refuse_far(fresh, remembered.chain.claimed_at, now)
        remembered.add(fresh)
        if problems := remembered.chain.findings.sorted():
            raise broken([str(problem) for problem in problems])
        return Extension([*([run.ending] if run.ending else []), *fresh], remembered.chain)

    def prepare(self, run: Run, database: Database) -> None:
        """Fold a long chain that is not remembered, outside of any transaction: others must not wait for it."""
        if run.event_count < LONG or self._stands(run, database):
            return
        with database.alone():
            database.take_time()
        with self._preparing:
            if not self._stands(run, database):
                remembered = Remembered(self._told(run))
                with database.alone():
                    self._keep(run.run_id, remembered)

    def lasting(self, run: Run) -> Chain:
        """Give the chain of the events that are kept, which is then the caller's."""
        remembered = self._remembered.pop(run.run_id, None) if run.run_id not in self._taken else None
        if remembered is not None and remembered.stands_at(run.event_count, run.events_head):
            return remembered.chain
        return Remembered(self._runs.events(run.run_id)).chain

    def take(self, run_id: str) -> None:
        """Have a chain for oneself, to look at it while others go on; whoever adds to it meanwhile comes again."""
        self._taken.add(run_id)

    def give_back(self, run_id: str) -> None:
        """Let others add to a chain again."""
        self._taken.discard(run_id)

    def forget(self, run_id: str) -> None:
        """Forget a chain that has ended."""
        self._remembered.pop(run_id, None)

    def _told(self, run: Run) -> Iterator[Json]:
        yield from self._runs.events(run.run_id)
        if run.ending:
            yield run.ending

    def _stands(self, run: Run, database: Database) -> bool:
        with database.alone():
            found = self._remembered.get(run.run_id)
            return run.run_id in self._taken or (found is not None and found.stands_at(*run.told))

    def _fold(self, run: Run) -> Remembered:
        found = self._remembered.pop(run.run_id, None)
        if found is None or not found.stands_at(*run.told):
            found = Remembered(self._told(run))
        self._keep(run.run_id, found)
        return found

    def _keep(self, run_id: str, remembered: Remembered) -> None:
        """Remember a chain, and forget those that were not used for the longest."""
        self._remembered[run_id] = remembered
        while len(self._remembered) > 1 and (
            len(self._remembered) > REMEMBERED
            or sum(one.chain.count for one in self._remembered.values()) > REMEMBERED_EVENTS
        ):
            del self._remembered[next(iter(self._remembered))]


def broken(reasons: list[str]) -> PlaneError:
    """Say that events do not continue the chain."""
    return PlaneError(
        "the events do not continue the run's chain", status=400, code="chain_broken", reasons=tuple(reasons)
    )


def _fresh(run: Run, links: Sequence[Json], chain: Chain) -> list[Json]:
    """Leave out the events that are there already, exactly so: by their hashes, which the folded chain has."""
    count, fresh = run.told[0], []
    for link in links:
        seq = link.get("seq")
        if type(seq) is not int or seq >= count:
            fresh.append(link)
        elif not _is_kept(link, chain.hash_after(seq + 1)):
            raise broken([f"event {seq} is there already, and is another"])
    return fresh


def _is_kept(link: Json, kept: str) -> bool:
    if link.keys() != WRAPPER or link["version"] != VERSION_EVENT or link["hash"] != kept:
        return False
    try:
        return digest({name: link[name] for name in ("seq", "ts", "prev", "event")}) == kept
    except CanonicalError as error:
        raise broken([error.message]) from error
