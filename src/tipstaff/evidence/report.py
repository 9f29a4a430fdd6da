"""What verification answers: a list of problems, each with the number of the check that found it.

Wrong and could-not-check are different answers: a problem that is not `certain` (an unknown key, an event type of a
newer version) makes the verdict `unproven`, any other makes it `invalid`, none at all makes it `valid`.
"""

from collections import Counter
from typing import Final, Literal

import msgspec

Verdict = Literal["valid", "invalid", "unproven"]
Kind = Literal["bundle", "refusal", "journal", "unknown"]

CHECKS: Final = {
    0: "the document can be read and has its fields",
    1: "all versions are known",
    2: "the contract is signed by the plane",
    3: "the receipt is for the contract's run",
    4: "the receipt names the contract's hash",
    5: "the receipt names the key of the runner",
    6: "the receipt and the contract name the same pool",
    7: "the receipt is signed by the runner",
    8: "the events form one chain from the contract's hash",
    9: "the receipt names the chain's head and length",
    10: "the last event fits the receipt's status",
    11: "the receipt names the workspace of the contract",
    12: "the secrets of the receipt are those of the events",
    13: "the receipt's diff is an artifact of the events",
    14: "the receipt is countersigned by the plane",
    15: "nothing stands outside the hashes and signatures",
    16: "the network accesses of the receipt are those of the events",
    17: "the disclosures of the receipt are those of the events",
    18: "the artifacts of the receipt are those of the events",
    19: "the runner of the receipt is the one that claimed the run",
    20: "what was executed, released and reached was in the contract",
    21: "the run was isolated at least as the contract demands",
    22: "the times are in order, and the run was claimed before its contract expired",
    23: "each event stands where its author may write it",
    24: "the approvals are over this contract, in time, and signed",
    25: "the artifacts given have the digests of the receipt",
    26: "the models of the receipt are those of the events",
    27: "the signing keys are trusted, and were at that time",
    28: "the refusal is signed by the plane",
    29: "the journal's entries form one chain",
    30: "the journal's head is signed by the plane, and fits the entries",
    31: "the checkpoints of the receipt are signed by the plane, and fit the events",
}
MOST_PER_CHECK: Final = 20  # a broken chain of a million events must not make a million sentences
MOST_CHARACTERS: Final = 300  # nor may one sentence quote a name of a million characters


def printable(text: str) -> str:
    """Shorten hostile text, and escape what a terminal would obey or could not encode."""
    shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, or could not be checked."""

    number: int
    message: str
    place: str = ""
    certain: bool = True

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{self.number}. {where}{self.message}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about one document."""

    kind: Kind
    problems: tuple[Problem, ...]
    run_id: str = ""
    status: str = ""
    events: int = 0
    plane_key: str = ""
    runner_key: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Everything was checked and nothing is wrong."""
        return not self.problems

    @property
    def verdict(self) -> Verdict:
        """One word for the whole."""
        if not self.problems:
            return "valid"
        return "invalid" if any(problem.certain for problem in self.problems) else "unproven"


class Findings:
    """Collects problems while checks run, at most a few of each number."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._counts: Counter[int] = Counter()
        self._certain: set[int] = set()

    def add(self, number: int, message: str, place: str = "", *, certain: bool = True) -> None:
        """Note one problem."""
        self._counts[number] += 1
        if self._counts[number] <= MOST_PER_CHECK:
            problem = Problem(number=number, message=printable(message), place=printable(place), certain=certain)
            self._problems.append(problem)
        elif certain:
            self._certain.add(number)

    def sorted(self) -> tuple[Problem, ...]:
        """All problems by number, with a line for those that were left out."""
        more = [
            Problem(
                number=number,
                message=f"{count - MOST_PER_CHECK} more problems of this kind",
                certain=number in self._certain,
            )
            for number, count in self._counts.items()
            if count > MOST_PER_CHECK
        ]
        return tuple(sorted([*self._problems, *more], key=lambda problem: problem.number))
