"""What a well-typed policy file can still get wrong: contradictions, patterns that cannot hold, duplicate names.

Each fault names its place in the document; the loader turns it into a line and a column. A file with a fault is
not a weaker policy, it is none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from tipstaff.model.tiers import OURS, rank
from tipstaff.policy import document
from tipstaff.policy.checks.environment import fault_of_name
from tipstaff.policy.checks.tiers import AUTO
from tipstaff.policy.compiled import grant_id
from tipstaff.policy.hosts import normal_address, normal_pattern
from tipstaff.policy.paths import PathPattern
from tipstaff.policy.patterns import glob, is_literal
from tipstaff.policy.programs import REST, alternatives, basename, launcher_fault
from tipstaff.policy.remedy import Path

RESERVED: Final = frozenset(
    ("safe-mode", "restricted", "principals", "pools", "agents", "secrets", "files", "disclosure", "builtin")
)  # how decisions call the sections; a rule of that name would make a reason ambiguous


class Fault(NamedTuple):
    """One thing that is wrong, and where."""

    path: Path
    message: str
    hint: str = ""


def faults(policy: document.Document) -> Iterator[Fault]:
    """List everything that is wrong with `policy`, in the order of its sections."""
    for index, principal in enumerate(policy.principals):
        yield from _principal(principal, ("principals", index))
    for index, rule in enumerate(policy.rules):
        yield from _rule(rule, ("rules", index))
    yield from _globs(("pools",), policy.pools)
    yield from _globs(("agents",), policy.agents or ())
    for index, grant in enumerate(policy.network.hosts):
        yield from _grant(grant, ("network", "hosts", index))
    yield from _each(("network", "deny"), policy.network.deny, normal_pattern)
    for index, secret in enumerate(policy.secrets):
        yield from _secret(secret, ("secrets", index))
    yield from _globs(("env", "inherit"), policy.env.inherit)
    for section in ("workspaces", "in_place", "readable"):
        yield from _each(("files", section), getattr(policy.files, section), PathPattern)
    yield from _limits(policy.limits)
    yield from _tiers(policy.tiers)
    for index, entry in enumerate(policy.data_classes):
        yield from _globs(("data_classes", index, "pools"), entry.pools)
    yield from _names(policy)


def _each(path: Path, items: Iterable[str], read: Callable[[str], object]) -> Iterator[Fault]:
    for index, item in enumerate(items):
        try:
            read(item)
        except ValueError as fault:
            yield Fault((*path, index), f"`{item}`: {fault}")


def _globs(path: Path, patterns: Iterable[str]) -> Iterator[Fault]:
    yield from _each(path, patterns, glob)


def _principal(principal: document.Principal, path: Path) -> Iterator[Fault]:
    try:
        glob(principal.id)
    except ValueError as fault:
        yield Fault((*path, "id"), str(fault))
    yield from _globs((*path, "tools", "allow"), principal.tools.allow)
    yield from _globs((*path, "tools", "deny"), principal.tools.deny)


def _rule(rule: document.Rule, path: Path) -> Iterator[Fault]:
    if isinstance(rule.when, document.Condition):
        yield from _condition(rule.when, (*path, "when"))
    for index, exception in enumerate(rule.exceptions):
        yield from _condition(exception, (*path, "except", index))
    yield from _approvals(rule, path)
    if rule.tier is not None and rule.tier not in OURS:
        yield Fault((*path, "tier"), f"`{rule.tier}` is not a tier", f"write one of {', '.join(OURS)}")
    if rule.effect == "deny" and (rule.tier or rule.limits != document.RuleLimits()):
        yield Fault((*path, "effect"), "a rule that denies has no use for a tier or limits", "remove them")


def _approvals(rule: document.Rule, path: Path) -> Iterator[Fault]:
    approvals = rule.approvals
    if rule.effect == "ask" and approvals is None:
        yield Fault(
            (*path, "effect"),
            "a rule that asks needs `approvals`",
            "say who may approve: `approvals: {approvers: [alice]}`",
        )
    if approvals is None:
        return
    if rule.effect != "ask":
        yield Fault(
            (*path, "approvals"),
            f"a rule that says `{rule.effect}` asks nobody",
            "write `effect: ask` or remove `approvals`",
        )
    yield from _globs((*path, "approvals", "approvers"), approvals.approvers)
    literal = all(is_literal(name) for name in approvals.approvers if "\\" not in name)
    if literal and approvals.quorum > len(set(approvals.approvers)):
        yield Fault((*path, "approvals", "quorum"), "the quorum is larger than the number of approvers")


def _condition(condition: document.Condition, path: Path) -> Iterator[Fault]:
    given = {key: getattr(condition, key) for key in condition.__struct_fields__ if getattr(condition, key) is not None}
    if not given:
        yield Fault(path, "an empty condition matches everything without saying so", "write `when: any`")
    for key in ("principals", "doors", "tools", "agents", "pools", "secrets"):
        yield from _globs((*path, key), given.get(key, ()))
    yield from _each((*path, "hosts"), given.get("hosts", ()), normal_pattern)
    for index, pattern in enumerate(given.get("argv", ())):
        yield from _argv(pattern, (*path, "argv", index))
    if condition.argv is not None and condition.kinds is not None and "argv" not in condition.kinds:
        yield Fault((*path, "kinds"), "`argv` looks only at executions of kind argv", "add `argv` to the kinds")


def _argv(pattern: tuple[Any, ...], path: Path) -> Iterator[Fault]:
    for index, token in enumerate(pattern):
        if REST in alternatives(token) and (index != len(pattern) - 1 or index == 0 or token != REST):
            yield Fault(
                (*path, index), "`...` stands only as the last token", "write `\\...` for the three dots themselves"
            )
        elif token != REST:
            yield from _each((*path, index) if isinstance(token, tuple) else path, alternatives(token), glob)
    if not all(basename(name) for name in alternatives(pattern[0])):
        yield Fault((*path, 0), "a program has a name")
        return
    if not list(_each(path, alternatives(pattern[0]), glob)) and (launcher := launcher_fault(pattern)):
        yield Fault(
            path,
            f"this rule cannot hold: it constrains the arguments of `{launcher}`, which runs other programs",
            f'match the launcher whole, as `[{launcher}, "..."]`, or match what it would start',
        )


def _grant(grant: document.HostGrant, path: Path) -> Iterator[Fault]:
    yield from ((Fault((*path, "host"), fault.message)) for fault in _each(path, (grant.host,), normal_pattern))
    yield from _each((*path, "addresses"), grant.addresses, normal_address)
    yield from _web((*path,), grant.methods, grant.paths)
    for key in ("principals", "pools"):
        yield from _globs((*path, key), getattr(grant, key))
    if (grant.methods or grant.paths) and not grant.inspect:
        yield Fault(
            (*path, "methods" if grant.methods else "paths"), "methods and paths can be seen only with `inspect: true`"
        )
    if grant.opaque and grant.inspect:
        yield Fault((*path, "opaque"), "a connection is either opaque or inspected")


def _web(path: Path, methods: tuple[str, ...], paths: tuple[str, ...]) -> Iterator[Fault]:
    for index, method in enumerate(methods):
        if not (method.isascii() and method.isalpha() and method.isupper()):
            yield Fault((*path, "methods", index), f"`{method}` is not a method", "write it in upper case, as `GET`")
    for index, text in enumerate(paths):
        if not text.startswith("/"):
            yield Fault((*path, "paths", index), f"`{text}` is not a path", "start it with `/`")
    yield from _globs((*path, "paths"), paths)


def _secret(secret: document.SecretGrant, path: Path) -> Iterator[Fault]:
    yield from (Fault((*path, "name"), fault.message) for fault in _each(path, (secret.name,), glob))
    if "\\" not in secret.name and is_literal(secret.name) and (fault := fault_of_name(secret.name)):
        yield Fault((*path, "name"), f"{fault}, so no secret can have that name")
    for key in ("principals", "pools"):
        yield from _globs((*path, key), getattr(secret, key))
    yield from _each((*path, "hosts"), secret.hosts, normal_pattern)
    yield from _web(path, secret.methods, secret.paths)
    if secret.way == "inject" and not (secret.header and secret.hosts):
        yield Fault((*path, "way"), "a secret that is injected needs a `header` and the `hosts` that may see it")
    if secret.way == "env" and (secret.header or secret.hosts or secret.methods or secret.paths or secret.uses):
        yield Fault(
            (*path, "name"),
            "a secret in the environment cannot be held to a header, hosts, methods, paths or uses",
            "write `way: inject`",
        )


def _limits(limits: document.Limits) -> Iterator[Fault]:
    for name in ("time", "memory", "cpus", "pids", "disk", "output"):
        bound = getattr(limits, name)
        if bound.default is not None and bound.max is not None and bound.default > bound.max:
            yield Fault(("limits", name, "default"), f"the default of `{name}` is above its max")


def _tiers(tiers: document.Tiers) -> Iterator[Fault]:
    for key, names in (("default", (*OURS, AUTO)), ("minimum", OURS), ("fallback", OURS)):
        value = getattr(tiers, key)
        if value is not None and value not in names:
            yield Fault(("tiers", key), f"`{value}` is not a tier", f"write one of {', '.join(names)}")
    if tiers.fallback is not None and (rank(tiers.fallback) or 0) < (rank(tiers.minimum) or 0):
        yield Fault(("tiers", "fallback"), f"the fallback `{tiers.fallback}` is below the minimum `{tiers.minimum}`")


def _names(policy: document.Document) -> Iterator[Fault]:
    """Refuse two things of one name: a reason must name one rule."""
    named: list[tuple[str, Path]] = [(rule.id, ("rules", index, "id")) for index, rule in enumerate(policy.rules)]
    named += [
        (grant_id(grant), ("network", "hosts", index, "id" if grant.id else "host"))
        for index, grant in enumerate(policy.network.hosts)
        if grant.id
    ]
    seen = set(RESERVED)
    for name, path in named:
        if name in seen:
            yield Fault(path, f"the id `{name}` is taken", "give each rule and each grant an id of its own")
        seen.add(name)
