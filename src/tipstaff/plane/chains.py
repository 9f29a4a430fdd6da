"""What a runner adds to a chain: looked at before it is kept.

New events must follow the last one in order, hold together by their hashes, be of a type that a runner may author, and
stand where such an event may stand. Events that are there already, exactly so, are passed over: a runner may send
twice. An ending is held aside until the receipt confirms it: a chain only ever grows, so nothing may stand in it that
may turn out not to hold. The folded chain of a run at work is remembered, so that one more event costs no more.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.canonical import canonical
from tipstaff.errors import CanonicalError, PlaneError
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.report import Findings
from tipstaff.model.events import AUTHORS, ENDINGS, KINDS
from tipstaff.store import Run, Runs

Json = dict[str, Any]
MOST_EVENT_BYTES: Final = 1024 * 1024
REMEMBERED: Final = 256  # runs at work at once


class Folded(NamedTuple):
    """A chain, as far as it was read without a problem."""

    chain: Chain
    findings: Findings


class Extension(NamedTuple):
    """What would follow the events that are kept, and the whole chain with it, folded without a problem."""

    links: list[Json]
    chain: Chain

    @property
    def ending(self) -> Json | None:
        """Give the last of the links, if it says how the run ended."""
        last = self.links[-1] if self.links else None
        return last if last and KINDS[last["event"]["type"]] in ENDINGS else None

    @property
    def lasting(self) -> list[Json]:
        """Give the links that stand whatever the receipt will say."""
        return self.links[:-1] if self.ending else self.links


class Chains:
    """The chains of the runs at work."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._folded: dict[str, Folded] = {}

    def extension(self, run: Run, links: Any) -> "Extension":
        """Take those of `links` that are new, if they continue the chain as a runner may; else refuse them all."""
        if type(links) is not list or not all(type(link) is dict for link in links):
            raise broken(["events is not a list of events"])
        fresh = self._fresh(run, links)
        for link in fresh:
            _refuse_foreign(link)
        folded = self._fold(run)
        for link in fresh:
            folded.chain.add(link)
        if problems := folded.findings.sorted():
            self.forget(run.run_id)
            raise broken([str(problem) for problem in problems])
        return Extension([*([run.ending] if run.ending else []), *fresh], folded.chain)

    def forget(self, run_id: str) -> None:
        """Forget a chain that has ended."""
        self._folded.pop(run_id, None)

    def _fresh(self, run: Run, links: Sequence[Json]) -> list[Json]:
        count = run.told[0]
        again = [link for link in links if type(link.get("seq")) is int and link["seq"] < count]
        if again:
            since = max(0, min(link["seq"] for link in again))
            kept = {link["seq"]: canonical(link) for link in self._told(run, since)}
            for link in again:
                if _bytes(link) != kept.get(link["seq"]):
                    raise broken([f"event {link['seq']} is there already, and is another"])
        return [link for link in links if type(link.get("seq")) is not int or link["seq"] >= count]

    def _told(self, run: Run, since: int = 0) -> Iterator[Json]:
        yield from self._runs.events(run.run_id, since)
        if run.ending:
            yield run.ending

    def _fold(self, run: Run) -> Folded:
        found = self._folded.get(run.run_id)
        if found and (found.chain.count, found.chain.head) == run.told:
            return found
        if len(self._folded) >= REMEMBERED:
            self._folded.clear()
        folded = self._folded[run.run_id] = fold(self._told(run))
        return folded


def fold(links: Iterable[Json]) -> Folded:
    """Fold a chain from its beginning."""
    findings = Findings()
    chain = Chain(findings)
    for link in links:
        chain.add(link)
    return Folded(chain, findings)


def broken(reasons: list[str]) -> PlaneError:
    """Say that events do not continue the chain."""
    return PlaneError(
        "the events do not continue the run's chain", status=400, code="chain_broken", reasons=tuple(reasons)
    )


def _refuse_foreign(link: Json) -> None:
    """Refuse what a runner may not author: a plane's event, and the plane's word that the runner was lost."""
    if _size(link) > MOST_EVENT_BYTES:
        raise PlaneError(f"an event is larger than {MOST_EVENT_BYTES} bytes", status=413, code="event_too_large")
    event = link.get("event")
    name = event.get("type") if type(event) is dict else None
    kind = KINDS.get(name) if type(name) is str else None
    if kind is None or AUTHORS[kind] == "plane" or (type(event) is dict and event.get("failure") == "runner_lost"):
        raise PlaneError(f"a runner may not author {str(name)[:64]!r}", status=403, code="event_not_yours")


def _size(link: Json) -> int:
    """Say how long an event is, near enough and much faster than by its canonical form."""
    try:
        return len(msgspec.json.encode(link))
    except (ValueError, TypeError, RecursionError) as error:
        raise broken(["an event is not JSON"]) from error


def _bytes(link: Json) -> bytes:
    try:
        return canonical(link)
    except CanonicalError as error:
        raise broken([error.message]) from error
