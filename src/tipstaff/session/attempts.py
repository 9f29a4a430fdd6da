"""What is written down about attempts to get out: each one, as far as their number is bearable; then sums.

Those that were let out and those that were refused have room of their own, so that a flood of refusals hides nothing
that was reached. What no longer has an event of its own is added up by place; beyond that, what was let out is added up
under the host that its rule names, and what was refused under no name at all. A place that was reached is told when it
is, before anything goes there: a runner that is killed meanwhile leaves that word.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tipstaff.policy.hosts import covers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tipstaff.egress.attempt import Attempt

Json = dict[str, Any]
MOST: Final = 1000  # of one run and one decision, and as many places beyond
MOST_SENTENCES: Final = 20
OTHERS: Final = "…"


class Attempts:
    """The record of one run."""

    def __init__(self, contract: Json, told: "Callable[[Json], None]", most: int = MOST) -> None:
        self._rules = (contract.get("egress") or {}).get("rules") or ()
        self._told = told
        self._most = most
        self._counts: Counter[str] = Counter()
        self._opened: set[tuple[Any, ...]] = set()
        self._sums: dict[tuple[Any, ...], Json] = {}
        self._places: Counter[str] = Counter()
        self.sentences: dict[str, None] = {}

    def opened(self, attempt: "Attempt", approved: Json) -> None:
        """Write down that a place was reached, the first time."""
        place = (attempt.host, attempt.port, attempt.rule)
        if place not in self._opened and len(self._opened) < self._most:
            self._opened.add(place)
            self._told({**_place(attempt), "decision": "allowed", "opened": True, **approved})

    def ended(self, attempt: "Attempt", approved: Json) -> None:
        """Write down how an attempt ended."""
        if attempt.failed and len(self.sentences) < MOST_SENTENCES:
            self.sentences[_sentence(attempt)] = None
        said = {**_spelled(attempt), **approved}
        if self._counts[attempt.decision] < self._most:
            self._counts[attempt.decision] += 1
            self._told(said)
        else:
            self._add(attempt, said, alone=bool(approved))

    def _add(self, attempt: "Attempt", said: Json, *, alone: bool) -> None:
        place = (attempt.decision, attempt.host, attempt.port, attempt.rule, attempt.depth)
        # An approval is for one place; of those there are few.
        if place not in self._sums and self._places[attempt.decision] >= self._most and not alone:
            said = {**said, "host": self._together(attempt)}
            place = (attempt.decision, said["host"], attempt.port if attempt.decision == "allowed" else 0, "", "")
        if place not in self._sums:
            self._places[attempt.decision] += 1
            self._sums[place] = {**said, "count": 0, "bytesOut": 0, "bytesIn": 0}
        sums = self._sums[place]
        sums["count"] += 1
        sums["bytesOut"] += attempt.bytes_out
        sums["bytesIn"] += attempt.bytes_in

    def _together(self, attempt: "Attempt") -> str:
        """Give the host under which those are added up that have no place of their own."""
        if attempt.decision == "blocked":
            return OTHERS
        named = [
            rule["host"]
            for rule in self._rules
            if attempt.rule in (rule.get("rule"), rule["host"])
            and covers(rule["host"], attempt.host)
            and (not rule.get("ports") or attempt.port in rule["ports"])
        ]
        return max(named, key=len, default=OTHERS)  # the longest is the most specific: all of them cover one host

    def close(self) -> None:
        """Tell the sums."""
        for said in self._sums.values():
            self._told(said)
        self._sums.clear()


def _place(attempt: "Attempt") -> Json:
    said = {
        "host": attempt.host,
        "port": attempt.port,
        "rule": attempt.rule,
        "depth": attempt.depth,
        "address": attempt.address,
        "method": attempt.method,
    }
    return {name: value for name, value in said.items() if value != "" or name == "host"}


def _spelled(attempt: "Attempt") -> Json:
    reason = {"reason": attempt.reason} if attempt.reason else {}
    moved = {"bytesOut": attempt.bytes_out, "bytesIn": attempt.bytes_in}
    return {**_place(attempt), "decision": attempt.decision, **reason, **moved}


def _sentence(attempt: "Attempt") -> str:
    place = f"{attempt.host}:{attempt.port}" if attempt.host else "a request"
    return f"{place}: {attempt.reason}" + (f"; to allow it: {attempt.advice}" if attempt.advice else "")
