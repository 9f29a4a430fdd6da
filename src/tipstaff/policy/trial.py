"""The examples of a policy, each with its outcome: for those who want to see them all, not to stop at the first.

Loading refuses a policy whose examples fail. Here such a file is loaded all the same, if that is all that is wrong
with it; whoever does so must not decide real requests by it.
"""

from typing import Any, NamedTuple

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import PolicyError
from tipstaff.policy import examples, strict_yaml
from tipstaff.policy.compiled import Policy
from tipstaff.policy.document import typed
from tipstaff.policy.load import policy_from_value
from tipstaff.policy.strict_yaml import Path


class Trial(NamedTuple):
    """One example, and how it fails; None when it holds."""

    path: Path
    line: int
    column: int
    example: Any
    problem: str | None


def load_untested(text: str, source: str) -> Policy:
    """Load a policy of which only the examples may be wrong; anything else is a `PolicyError`."""
    return untested(strict_yaml.read(text, source))


def untested(tree: strict_yaml.Tree) -> Policy:
    """As `load_untested`, for a text that was read already."""
    value, source = tree.value, tree.source
    try:
        return policy_from_value(value, source, tree)
    except PolicyError as error:
        policy_from_value(_without_examples(value), source, tree)
        try:
            document = typed(value)
        except msgspec.ValidationError:
            raise error from None  # an example that is not even written as one
        return Policy(document=document, hash=digest(value), value=value, source=source, tree=tree)


def trials(policy: Policy) -> tuple[Trial, ...]:
    """Try every example: those of the rules, then those of the whole policy."""
    problems = {fault.path: fault.message for fault in examples.faults(policy)}
    paths: list[Path] = []
    for index, rule in enumerate(policy.document.rules):
        paths += [("rules", index, "match", number) for number in range(len(rule.match))]
        paths += [("rules", index, "no_match", number) for number in range(len(rule.no_match))]
    paths += [("examples", number) for number in range(len(policy.document.examples))]
    return tuple(_trial(policy, path, problems.get(path)) for path in paths)


def _trial(policy: Policy, path: Path, problem: str | None) -> Trial:
    value = policy.value
    for step in path:
        value = value[step]
    spot = policy.tree.spot(path) if policy.tree else strict_yaml.Spot(0, 0, 0, 0)
    return Trial(path, spot.line, spot.column, value, problem)


def _without_examples(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    rules = value.get("rules")
    bare = {key: item for key, item in value.items() if key != "examples"}
    if isinstance(rules, list):
        bare["rules"] = [_without_matches(rule) for rule in rules]
    return bare


def _without_matches(rule: Any) -> Any:
    return (
        {key: item for key, item in rule.items() if key not in ("match", "no_match")}
        if isinstance(rule, dict)
        else rule
    )
