"""How much a run may use: a wish is clamped, never refused, and the reason says so.

The ceiling is the least of the policy's maximum, the maxima of the rules that match, and the request's own budget.
A wish that is missing takes the default, clamped as well. Nothing here can raise a number.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tipstaff.model.decision import SecretLease
from tipstaff.model.limits import Budget, Limits, Reply
from tipstaff.policy.bounds import MILLIS, least
from tipstaff.policy.case import Case, Findings
from tipstaff.policy.rules import Rule
from tipstaff.policy.units import LARGEST, show_duration, show_size

SECOND: Final = 1000
MINUTE: Final = 60_000


class Granted(NamedTuple):
    """The bounds of a run."""

    limits: Limits
    budget: Budget
    reply: Reply


def check(case: Case, findings: Findings, rules: Iterable[Rule], leases: tuple[SecretLease, ...] = ()) -> Granted:
    """Clamp every wish. A secret that a process has cannot be taken back: its time is the run's."""
    _check_budget(case.request.budget, findings)
    bounds, reply = case.policy.tables.bounds(case.door)
    wishes, given = _wishes(case), {}
    narrowing = [rule for rule in rules if rule.maxima]
    for name, bound in bounds:
        ceiling = bound.most
        for rule in narrowing:
            ceiling = min(ceiling, rule.maxima.get(name, ceiling))
        wish = wishes[name]
        given[name] = min(bound.default if wish is None else wish, ceiling)
        if wish is not None and given[name] < wish:
            show = _SHOW[name]
            findings.note(f"limits.{name}", f"{name} was asked as {show(wish)} and is clamped to {show(given[name])}")
    for lease in leases:
        if lease.way == "env" and lease.ttl_seconds is not None:
            given["time"] = min(given["time"], lease.ttl_seconds * SECOND)
    return Granted(_limits(given), _budget(case, findings, rules, given["time"]), reply)


def _wishes(case: Case) -> dict[str, int | None]:
    """Collect what is asked for; where the request says it twice, the smaller number is meant."""
    limits, execution = case.request.limits, case.execution
    minutes = _minutes(case.request.budget.max_duration_min)
    return {
        "time": least(least(execution.timeout_ms, minutes), limits.time_ms),
        "memory": limits.memory_bytes,
        "cpus": limits.cpu_millis,
        "pids": limits.pids,
        "disk": limits.disk_bytes,
        # A log of no bytes at all is kept as one byte and its marker: a limit of zero means `none` to too many.
        "output": least(
            None if execution.log.max_bytes is None else max(1, execution.log.max_bytes), limits.output_bytes
        ),
    }


def _minutes(minutes: float | None) -> int | None:
    if minutes is None or not _is_amount(minutes):
        return None
    return max(1, int(min(minutes * MINUTE, LARGEST)))


def _is_amount(value: float) -> bool:
    return 0 <= value <= LARGEST  # not a number is neither


def _check_budget(budget: Budget, findings: Findings) -> None:
    for name, value in (("maxSpendUsd", budget.max_spend_usd), ("maxDurationMin", budget.max_duration_min)):
        if value is not None and not _is_amount(value):
            findings.deny("builtin.budget", f"the budget's {name} is not a number of zero or more")


def _budget(case: Case, findings: Findings, rules: Iterable[Rule], time_ms: int) -> Budget:
    """Give the protocol's own words for the clamped time and money."""
    wish, most = case.request.budget.max_spend_usd, case.policy.document.limits.spend_usd.max
    ceilings = [limit for limit in (most, *(rule.source.limits.spend_usd for rule in rules)) if limit is not None]
    spend = min([*ceilings, *([wish] if wish is not None and _is_amount(wish) else [])], default=None)
    if wish is not None and spend is not None and spend < wish:
        findings.note("limits.spend_usd", f"spend_usd was asked as {wish:g} and is clamped to {spend:g}")
    minutes = time_ms // MINUTE if time_ms % MINUTE == 0 else time_ms / MINUTE
    return Budget(max_spend_usd=spend, max_duration_min=minutes)


def _limits(given: dict[str, int]) -> Limits:
    return Limits(
        time_ms=given["time"],
        memory_bytes=given["memory"],
        cpu_millis=given["cpus"],
        pids=given["pids"],
        disk_bytes=given["disk"],
        output_bytes=given["output"],
    )


def _cores(millis: int) -> str:
    return f"{millis / MILLIS:g}"


_SHOW: Final[dict[str, Callable[[int], str]]] = {
    "time": show_duration, "memory": show_size, "cpus": _cores, "pids": str, "disk": show_size, "output": show_size,
}  # fmt: skip
