"""The one question that everybody asks of a policy, whether this may run."""

from tipstaff.model.decision import Decision
from tipstaff.model.facts import Facts
from tipstaff.model.request import Request
from tipstaff.policy.compiled import Policy
from tipstaff.policy.judge import NO_FACTS, judge


def decide(request: Request, policy: Policy, facts: Facts = NO_FACTS) -> Decision:
    """Decide `request` by `policy`: pure, total, and every decision names at least one rule."""
    return judge(request, policy, facts).decision
