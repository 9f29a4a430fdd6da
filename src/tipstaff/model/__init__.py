"""The nouns: frozen values with camelCase names on the wire and snake_case names in Python.

They hold what was asked, decided, permitted and done; they decide nothing and touch nothing.
"""

from tipstaff.model.decision import Decision, Effective, Reason, Requirement
from tipstaff.model.execution import AgentRun, AgentSpec, Argv, Environment, Execution, Python, Shell
from tipstaff.model.limits import Budget, Limits, Reply
from tipstaff.model.network import Egress, EgressRule, Network
from tipstaff.model.noun import Actor
from tipstaff.model.request import Files, Request, parse_request
from tipstaff.model.tiers import TierReport, Verdict

__all__ = [
    "Actor",
    "AgentRun",
    "AgentSpec",
    "Argv",
    "Budget",
    "Decision",
    "Effective",
    "Egress",
    "EgressRule",
    "Environment",
    "Execution",
    "Files",
    "Limits",
    "Network",
    "Python",
    "Reason",
    "Reply",
    "Request",
    "Requirement",
    "Shell",
    "TierReport",
    "Verdict",
    "parse_request",
]
