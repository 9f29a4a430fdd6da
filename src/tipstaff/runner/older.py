"""A contract that leaves out what ours say, as a session reads it: with this site's defaults where it is silent. Pure.

Planes of the protocol's first version write no limits, no tier and no egress rules. What is filled in here is a view
for the session; the signed document stays as it came, and every hash is over that one. A tier that is weaker than the
one that this site has is served by the stronger, and the receipt names the actual one.
"""

from collections.abc import Collection
from typing import Any, Final

from tipstaff.model.tiers import rank
from tipstaff.policy import table

Json = dict[str, Any]
DEFAULT_TIER: Final = "bwrap"
MINUTE_MS: Final = 60_000
LONGEST: Final = 2**53
_EMPTY: Final[Json] = {"files": {}, "demands": [], "restricted": {}, "withheldClasses": []}


def view_of(contract: Json, tiers: Collection[str]) -> Json:
    """Give the contract with everything in it that a session reads."""
    filled = {"tier": contract.get("tier") or _tier(contract, tiers), "limits": _limits(contract)}
    # What is missing grants and demands nothing: older planes know of no clauses, and of no folders.
    missing = {name: empty for name, empty in _EMPTY.items() if contract.get(name) is None}
    return {**contract, **missing, **filled}


def _tier(contract: Json, tiers: Collection[str]) -> str:
    """Choose the tier that a contract without one gets: the one that it names, or this site's if that is stronger."""
    named = contract.get("isolation")
    if type(named) is not str or not named:
        return DEFAULT_TIER
    if named in tiers:
        return named
    ranks = rank(named), rank(DEFAULT_TIER)
    is_weaker = ranks[0] is not None and ranks[1] is not None and ranks[0] < ranks[1]
    return DEFAULT_TIER if is_weaker else named


def _limits(contract: Json) -> Json:
    """Fill in each limit that is not there, from the protocol's row of the built-in table."""
    row = table.row("protocol")
    said = contract.get("limits")
    given = {name: value for name, value in said.items() if value is not None} if type(said) is dict else {}
    return {
        "timeMs": _time_ms(contract, row.time),
        "memoryBytes": row.memory.default,
        "cpuMillis": row.cpus.default,
        "pids": row.pids.default,
        "diskBytes": row.disk.default,
        "outputBytes": row.output.default,
        **given,
    }


def _time_ms(contract: Json, bound: table.Bound) -> int:
    """Give the time of a run: its own, but no more than its budget; else its budget's, else ten minutes.

    Nothing lasts longer than this site lets it.
    """
    execution, budget = contract.get("execution"), contract.get("budget")
    own = _amount(execution.get("timeoutMs") if type(execution) is dict else None)
    minutes = _amount(budget.get("maxDurationMin") if type(budget) is dict else None)
    said = [time for time in (own, minutes and minutes * MINUTE_MS) if time is not None]
    return min(max(1, int(min(said, default=bound.default))), bound.most)


def _amount(value: Any) -> float | None:
    """Give a number that can be a time; None for anything else."""
    return value if type(value) in {int, float} and 0 < value < LONGEST else None
