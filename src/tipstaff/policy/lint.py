"""What looks wrong in a policy that loads: things that never happen, and protection that is less than it seems.

A remark refuses nothing. Each has its place in the file. What cannot hold at all is refused at load, not warned of.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tipstaff.model.tiers import rank
from tipstaff.policy import document, hosts
from tipstaff.policy.compiled import Policy
from tipstaff.policy.patterns import any_of, is_literal, overlaps
from tipstaff.policy.programs import REST, alternatives, basename, is_launcher
from tipstaff.policy.strict_yaml import Path

BLIND: Final = ("shell", "python", "agent")  # executions whose commands no pattern sees


class Remark(NamedTuple):
    """One thing to look at, and where."""

    path: Path
    message: str


def remarks(policy: Policy) -> tuple[Remark, ...]:
    """List what looks wrong in `policy`."""
    source = policy.document
    return tuple(
        remark
        for check in (
            _nothing,
            _blind_rules,
            _spelled_rules,
            _idle_principals,
            _idle_rules,
            _idle_hosts,
            _idle_secrets,
            _approvers,
            _tiers,
        )
        for remark in check(source)
    )


def _nothing(source: document.Document) -> Iterator[Remark]:
    if not source.principals:
        yield Remark((), "nobody is named in `principals`, so every request is refused")
    if not any(rule.effect != "deny" for rule in source.rules):
        yield Remark((), "no rule allows anything, so every request is refused")
    for index, rule in enumerate(source.rules):
        if rule.effect == "deny" and rule.when == "any" and not rule.exceptions:
            yield Remark(("rules", index), f"the rule `{rule.id}` refuses every request")
    if not source.network.default_deny:
        yield Remark(("network", "default_deny"), "a request may ask for an open network, and then reaches every host")


def _blind_rules(source: document.Document) -> Iterator[Remark]:
    """Warn of rules on command lines that an allowed shell, program or agent steps around."""
    around = [rule.id for rule in source.rules if rule.effect != "deny" and _lets_scripts_run(rule)]
    for index, rule in enumerate(source.rules):
        when = _opened(rule)
        if rule.effect == "allow" or when.argv is None or not around:
            continue
        programs = ", ".join(f"`{name}`" for pattern in when.argv for name in alternatives(pattern[0]))
        yield Remark(
            ("rules", index, "when", "argv"),
            f"the rule `{rule.id}` does not see {programs} inside scripts, which `{around[0]}` lets run",
        )


def _spelled_rules(source: document.Document) -> Iterator[Remark]:
    """Warn of rules that forbid some arguments of a program whose other arguments are permitted."""
    for index, rule in enumerate(source.rules):
        for place, pattern in enumerate(_opened(rule).argv or ()):
            programs = alternatives(pattern[0])
            if rule.effect == "allow" or pattern[1:] in ((), (REST,)) or not _elsewhere(source, rule, programs):
                continue
            message = f"the rule `{rule.id}` knows its arguments in this order and spelling only"
            yield Remark(
                ("rules", index, "when", "argv", place),
                f"{message}; safer: allow the command lines of `{programs[0]}` that you mean, and no others",
            )


def _elsewhere(source: document.Document, rule: document.Rule, programs: tuple[str, ...]) -> bool:
    """Say whether a milder rule lets one of `programs` run with any arguments."""
    for other in source.rules:
        when = _opened(other)
        if other is rule or other.effect in ("deny", rule.effect) or "argv" not in (when.kinds or ("argv",)):
            continue
        whole = [pattern[0] for pattern in when.argv or () if pattern[1:] == (REST,)]
        if when.argv is None or any(_meet(alternatives(one), programs) for one in whole):
            return True
    return False


def _lets_scripts_run(rule: document.Rule) -> bool:
    when = _opened(rule)
    if when.argv is not None:
        names = [basename(name) for pattern in when.argv for name in alternatives(pattern[0])]
        return any(is_launcher(name) for name in names)
    return when.kinds is None or any(kind in BLIND for kind in when.kinds)


def _idle_principals(source: document.Document) -> Iterator[Remark]:
    permitting = [_opened(rule).principals for rule in source.rules if rule.effect != "deny"]
    for index, principal in enumerate(source.principals):
        if permitting and not any(names is None or _meet(names, (principal.id,)) for names in permitting):
            yield Remark(("principals", index), f"no rule ever lets `{principal.id}` do anything")


def _idle_rules(source: document.Document) -> Iterator[Remark]:
    known = {
        "principals": tuple(principal.id for principal in source.principals),
        "pools": source.pools,
        "agents": source.agents,
    }
    for index, rule in enumerate(source.rules):
        for key, names in known.items():
            wanted = getattr(_opened(rule), key)
            if wanted is not None and names is not None and not _meet(wanted, names):
                shown = ", ".join(f"`{name}`" for name in wanted)
                yield Remark(
                    ("rules", index, "when", key), f"the rule `{rule.id}` never matches: `{key}` has none of {shown}"
                )


def _idle_hosts(source: document.Document) -> Iterator[Remark]:
    for index, grant in enumerate(source.network.hosts):
        yield from _idle_grant(source, ("network", "hosts", index), grant.host, grant.principals, grant.pools)
        if grant.host in source.network.deny:
            yield Remark(("network", "hosts", index), f"`{grant.host}` is granted here and denied by `network.deny`")


def _idle_secrets(source: document.Document) -> Iterator[Remark]:
    for index, grant in enumerate(source.secrets):
        path: Path = ("secrets", index)
        yield from _idle_grant(source, path, grant.name, grant.principals, grant.pools)
        for host in grant.hosts:
            if not any(
                hosts.overlaps(hosts.normal_pattern(one.host), hosts.normal_pattern(host))
                for one in source.network.hosts
            ):
                yield Remark(path, f"`{grant.name}` is for `{host}`, which no entry of `network.hosts` grants")


def _idle_grant(
    source: document.Document, path: Path, name: str, principals: tuple[str, ...], pools: tuple[str, ...]
) -> Iterator[Remark]:
    if not _meet(principals, tuple(principal.id for principal in source.principals)) and source.principals:
        yield Remark(path, f"`{name}` is granted to nobody that `principals` names")
    if not _meet(pools, source.pools):
        yield Remark(path, f"`{name}` is granted in no pool that `pools` names")


def _approvers(source: document.Document) -> Iterator[Remark]:
    for index, rule in enumerate(source.rules):
        approvals = rule.approvals
        if approvals is None or not approvals.separate or not all(is_literal(name) for name in approvals.approvers):
            continue
        for principal in source.principals:
            others = set(approvals.approvers) - {principal.id}
            asks = _opened(rule).principals
            if len(others) < approvals.quorum and (asks is None or any_of(asks)(principal.id)):
                message = f"a request of `{principal.id}` by the rule `{rule.id}` can never be approved"
                yield Remark(
                    ("rules", index, "approvals"),
                    f"{message}: {approvals.quorum} others are needed, {len(others)} are named",
                )


def _tiers(source: document.Document) -> Iterator[Remark]:
    default, minimum = rank(source.tiers.default), rank(source.tiers.minimum)
    if default is not None and minimum is not None and default < minimum:
        message = f"the default tier {source.tiers.default} is always raised to the minimum, {source.tiers.minimum}"
        yield Remark(("tiers", "default"), message)


def _opened(rule: document.Rule) -> document.Condition:
    return rule.when if isinstance(rule.when, document.Condition) else document.Condition()


def _meet(patterns: Iterable[str], others: tuple[str, ...]) -> bool:
    return any(overlaps(one, other) for one in patterns for other in others)
