"""The narrowest rule or exception that would let one request through: exactly this requester, exactly this command.

A launcher's arguments cannot be held by a pattern, so there the whole launcher is named; what it then runs is for
the sandbox to bound. A suggestion is a value; whoever applies it has read it.
"""

import re
from typing import Any, Final

from tipstaff.policy.case import Case, Cure
from tipstaff.policy.patterns import escape
from tipstaff.policy.programs import REST, basename, is_launcher
from tipstaff.policy.remedy import Edit, appended
from tipstaff.policy.rules import Rule

LONGEST: Final = 1000  # characters of an argument that a rule spells out


def exact_condition(case: Case) -> dict[str, Any]:
    """Describe this requester and this command, and nothing else."""
    condition: dict[str, Any] = {"principals": [escape(case.principal)]}
    if case.command is None:
        condition["kinds"] = [case.kind]
        if case.kind == "agent":
            condition["agents"] = [escape(case.agent)]
        return condition
    program = escape(case.command)
    if is_launcher(basename(case.command)):
        return condition | {"argv": [[program, REST]]}
    return condition | {"argv": [[program, *(_argument(text) for text in case.args)]]}


def _argument(text: str) -> str:
    return escape(text) if len(text) <= LONGEST else escape(text[:LONGEST]) + "*"


def allowing_rule(case: Case) -> Cure:
    """Suggest a new rule that allows this request."""

    def cure() -> tuple[Edit, ...]:
        rule = {"id": _fresh_id(case), "effect": "allow", "when": exact_condition(case)}
        return (appended(case.policy.value, ("rules",), rule),)

    return cure


def excepting(case: Case, rule: Rule) -> Cure:
    """Suggest an exception to `rule` for this request."""

    def cure() -> tuple[Edit, ...]:
        condition = exact_condition(case) | _told_apart(case, rule)
        return (appended(case.policy.value, ("rules", rule.index, "except"), condition),)

    return cure


def _told_apart(case: Case, rule: Rule) -> dict[str, Any]:
    """Describe what else the rule looks at, so that what it says of another host, secret or pool stays."""
    seen = {"doors": (case.door,), "pools": (case.pool,), "tools": case.tools, "secrets": case.secrets}
    names = {key: [escape(name) for name in dict.fromkeys(found)] for key, found in seen.items()}
    names["hosts"] = list(dict.fromkeys(case.hosts))
    return {key: found for key, found in names.items() if getattr(rule.source.when, key, None) is not None}


def _fresh_id(case: Case) -> str:
    """Name the new rule after what it allows, unlike every rule that is there."""
    words = [basename(case.command), *case.args[:1]] if case.command is not None else [case.kind]
    slug = re.sub(r"[^a-z0-9]+", "-", "-".join(["allow", *words]).lower())[:48].strip("-")
    taken = {rule.id for rule in case.policy.tables.rules.rules} | {grant.id for grant in case.policy.tables.hosts}
    candidates = [slug, *(f"{slug}-{number}" for number in range(2, len(taken) + 3))]
    return next(candidate for candidate in candidates if candidate not in taken)
