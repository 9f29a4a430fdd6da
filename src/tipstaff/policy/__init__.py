"""Policy: a strict file, and one pure question, `decide`.

Reading a file is the business of `load_policy`; everything else here touches nothing, knows no clock and never raises
on a request that parsed. PyYAML is imported when a policy is read from text, not before.
"""

from typing import TYPE_CHECKING

from tipstaff.model.facts import Facts
from tipstaff.policy.compiled import Policy
from tipstaff.policy.decide import decide
from tipstaff.policy.judge import Judgement, judge

if TYPE_CHECKING:
    from tipstaff.policy.load import load_policy, parse_policy

__all__ = ["Facts", "Judgement", "Policy", "decide", "judge", "load_policy", "parse_policy"]


def __getattr__(name: str) -> object:
    """Import what reads text when it is first used: a shipped policy that stands ready is not read."""
    if name not in {"load_policy", "parse_policy"}:
        raise AttributeError(f"module 'tipstaff.policy' has no attribute {name!r}")
    from tipstaff.policy import load  # noqa: PLC0415 - what this function is for

    return getattr(load, name)
