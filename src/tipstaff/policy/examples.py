"""Examples in a policy file, checked when it is loaded: a rule that does not do what its author says is an error.

A rule's example speaks only of what it mentions: a command line tests the command line, a mapping tests the fields of
a request that it has; the rest of the rule's condition is taken as met. A whole-policy example is decided as it is.
"""

from collections.abc import Iterator
from typing import Any, Final

from tipstaff.errors import InputError
from tipstaff.model.execution import Argv, Shell
from tipstaff.model.facts import Facts
from tipstaff.model.noun import to_wire
from tipstaff.model.request import Request, parse_request
from tipstaff.policy import document
from tipstaff.policy.case import open_case
from tipstaff.policy.compiled import Policy
from tipstaff.policy.judge import judge
from tipstaff.policy.rules import Rule
from tipstaff.policy.validate import Fault

NOBODY: Final = {"requestedBy": {"kind": "human", "id": "anybody"}}
FACETS: Final = {
    "requestedBy": ("principals",),
    "door": ("doors",),
    "tool": ("tools",),
    "pool": ("pools",),
    "secretNames": ("secrets",),
    "network": ("hosts",),
    "egress": ("hosts",),
    "execution": ("kinds", "agents", "argv"),
    "agentKind": ("kinds", "agents", "argv"),
    "prompt": ("kinds", "agents", "argv"),
}


def faults(policy: Policy) -> Iterator[Fault]:
    """List the examples that do not hold."""
    for rule in policy.tables.rules.rules:
        yield from _rule_faults(policy, rule, rule.source.match, "match")
        yield from _rule_faults(policy, rule, rule.source.no_match, "no_match")
    for index, example in enumerate(policy.document.examples):
        fault = failing(policy, example)
        if fault:
            yield Fault(("examples", index), fault)


def failing(policy: Policy, example: document.Example) -> str | None:
    """Say how `policy` fails `example`, or None when it holds."""
    try:
        decision = judge(_completed(example.request), policy, example.facts).decision
    except InputError as error:
        return f"the example's {error.message.removeprefix('the ')}"
    reasons = "; ".join(f"{reason.rule}: {reason.message}" for reason in decision.reasons)
    if decision.effect != example.expect:
        return f"the example expects `{example.expect}` and the policy says `{decision.effect}` ({reasons})"
    missing = [rule for rule in example.rules if rule not in decision.rules]
    return (
        f"the example expects the rule `{missing[0]}` and the decision names {', '.join(decision.rules)}"
        if missing
        else None
    )


def _rule_faults(policy: Policy, rule: Rule, examples: tuple[Any, ...], section: str) -> Iterator[Fault]:
    for index, example in enumerate(examples):
        path = ("rules", rule.index, section, index)
        try:
            request, given = _fragment(example)
        except InputError as error:
            yield Fault(path, f"the example's {error.message.removeprefix('the ')}")
            continue
        matched = rule.matches_given(open_case(request, policy, Facts()), given)
        if matched != (section == "match"):
            says = "matches" if matched else "does not match"
            yield Fault(
                path, f"the rule `{rule.id}` {says} this example under `{section}`", "mend the rule or the example"
            )


def _fragment(example: str | tuple[str, ...] | dict[str, Any]) -> tuple[Request, frozenset[str]]:
    """Give the request that an example stands for, and the facets of it that the example speaks of."""
    if isinstance(example, dict):
        given = frozenset(facet for key in example for facet in FACETS.get(key, ()))
        return _completed(example), given
    if isinstance(example, str):
        execution: Any = to_wire(Shell(script=example))
    elif example:
        execution = to_wire(Argv(command=example[0], args=example[1:]))
    else:
        raise InputError("example is an empty command line")
    return _completed({"execution": execution}), frozenset(FACETS["execution"])


def _completed(fragment: dict[str, Any]) -> Request:
    return parse_request(NOBODY | fragment)
