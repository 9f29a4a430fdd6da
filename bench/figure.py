"""A figure: its value, its unit, and the bound it must keep, where one is promised."""

from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    is_gate: bool = True  # else a bound that was missed is told, and explained, and does not fail
    detail: dict[str, Any] | None = None

    @property
    def kept(self) -> bool:
        """Say whether the promised bound holds."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def as_json(self) -> dict[str, Any]:
        """Spell the figure, without what it does not have."""
        fields = {"value": round(self.value, 3), "unit": self.unit, "atLeast": self.at_least, "atMost": self.at_most}
        bounded = self.at_least is not None or self.at_most is not None
        return {
            **{key: value for key, value in fields.items() if value is not None},
            **({"kept": self.kept, "gate": self.is_gate} if bounded else {}),
            **(self.detail or {}),
        }


def seconds(action: Any, *arguments: Any) -> float:
    """Time one call."""
    start = perf_counter()
    action(*arguments)
    return perf_counter() - start


def interleaved(rounds: int, *actions: Any) -> list[float]:
    """Time several actions in turn, so that a noisy moment hits all alike; the median of each, in seconds."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, taken in zip(actions, times, strict=True):
            taken.append(seconds(action))
    return [median(taken) for taken in times]
