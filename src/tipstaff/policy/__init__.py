"""Policy: a strict file, and one pure question, `decide`.

Reading a file is the business of `load_policy`; everything else here touches nothing, knows no clock and never raises
on a request that parsed. PyYAML is imported when a policy is read from text, not before.
"""

from tipstaff.model.facts import Facts
from tipstaff.policy.compiled import Policy
from tipstaff.policy.decide import decide
from tipstaff.policy.judge import Judgement, judge
from tipstaff.policy.load import load_policy, parse_policy

__all__ = ["Facts", "Judgement", "Policy", "decide", "judge", "load_policy", "parse_policy"]
