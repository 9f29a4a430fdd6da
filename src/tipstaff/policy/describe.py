"""A policy in words: what it allows, what it asks about and what it refuses, one sentence for each rule and grant.

For people who read a policy before they trust it. Says what the file says; `lint` says what looks wrong.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tipstaff.policy import document
from tipstaff.policy.compiled import Policy
from tipstaff.policy.units import show_duration, show_size

RUNS: Final = {"argv": "a program", "shell": "a shell script", "python": "a Python program", "agent": "an agent"}
BESIDES: Final = {
    "doors": "at the doors {}",
    "pools": "in the pools {}",
    "secrets": "with a secret among {}",
    "hosts": "with a host among {}",
}


class Description(NamedTuple):
    """The sentences, by what they say."""

    allows: tuple[str, ...]
    asks: tuple[str, ...]
    refuses: tuple[str, ...]
    grants: tuple[str, ...]


def describe(policy: Policy) -> Description:
    """Put `policy` in words."""
    source = policy.document
    return Description(
        allows=tuple(_rule(rule, "may run") for rule in source.rules if rule.effect == "allow"),
        asks=tuple(f"{_rule(rule, 'may run')}; {_approvals(rule)}" for rule in source.rules if rule.effect == "ask"),
        refuses=tuple(_refusals(source)),
        grants=tuple(_grants(source)),
    )


def _rule(rule: document.Rule, verb: str) -> str:
    when = rule.when if isinstance(rule.when, document.Condition) else document.Condition()
    bounds = f", at least in {rule.tier}" if rule.tier else ""
    who = _who(when, "anybody" if rule.effect == "deny" else "whoever is named")
    return f"{rule.id}: {who} {verb} {_what(when)}{''.join(_besides(when))}{bounds}{_except(rule)}"


def _who(when: document.Condition, otherwise: str = "anybody") -> str:
    return listed(when.principals) if when.principals else otherwise


def _what(when: document.Condition) -> str:
    if when.argv:
        return listed(spelled(pattern) for pattern in when.argv)
    runs = " or ".join(RUNS[kind] for kind in when.kinds) if when.kinds else "anything"
    tools = f" by the tools {listed(when.tools)}" if when.tools else ""
    agents = f" of the agent kinds {listed(when.agents)}" if when.agents else ""
    return f"{runs}{tools}{agents}"


def _besides(when: document.Condition) -> Iterator[str]:
    for key, phrase in BESIDES.items():
        if (names := getattr(when, key)) is not None:
            yield ", " + phrase.format(listed(names))


def _except(rule: document.Rule) -> str:
    clauses = [f"{_who(one)} running {_what(one)}{''.join(_besides(one))}" for one in rule.exceptions]
    return f", except {'; '.join(clauses)}" if clauses else ""


def _approvals(rule: document.Rule) -> str:
    approvals = rule.approvals
    if approvals is None:
        return "nobody can approve"
    own = "" if approvals.separate else ", the requester included"
    return (
        f"{approvals.quorum} of {listed(approvals.approvers)} must approve{own}, by {approvals.assurance} at least, "
        f"within {show_duration(approvals.expires)}"
    )


def _refusals(source: document.Document) -> Iterator[str]:
    yield from (_rule(rule, "running") for rule in source.rules if rule.effect == "deny")
    if source.safe_mode:
        yield "safe-mode: everything that does not only read"
    if source.restriction.names:
        how = ", also inside the sandbox" if source.restriction.mask else ""
        yield f"restricted: {listed(source.restriction.names)} by whomever{how}"
    for principal in source.principals:
        if principal.tools.deny:
            yield f"principals: the tools {listed(principal.tools.deny)} for {listed((principal.id,))}"
    if source.network.deny:
        yield f"network.deny: {listed(source.network.deny)}"
    named = listed(principal.id for principal in source.principals)
    yield (
        f"principals: everybody but {named}" if source.principals else "principals: everybody, because nobody is named"
    )
    yield "builtin.default-deny: whatever no rule speaks of"


def _grants(source: document.Document) -> Iterator[str]:
    if not source.network.default_deny:
        yield "network: an open network may be asked for"
    yield from (f"network: {_host(grant)}" for grant in source.network.hosts)
    yield from (f"secret: {_secret(grant)}" for grant in source.secrets)
    if source.env.inherit:
        yield f"variables of the host: {listed(source.env.inherit)}"
    for key, phrase in (("workspaces", "workspaces"), ("in_place", "changed in place"), ("readable", "readable")):
        if names := getattr(source.files, key):
            yield f"folders, {phrase}: {listed(names)}"
    yield f"pools: {listed(source.pools)}"
    yield f"tiers: {_tiers(source.tiers)}"


def _host(grant: document.HostGrant) -> str:
    ports = "".join(f":{port}" for port in grant.ports) or " at any port"
    uses = [" ".join(grant.methods)] if grant.methods else []
    uses += [" ".join(grant.paths)] if grant.paths else []
    bounds = [f"at most {show_size(grant.max_bytes)}"] if grant.max_bytes else []
    bounds += ["not looked into"] if grant.opaque else []
    bounds += [f"for {listed(grant.principals)}"] if grant.principals != ("*",) else []
    return f"{grant.host}{ports}" + "".join(f", {part}" for part in (*uses, *bounds))


def _secret(grant: document.SecretGrant) -> str:
    way = f"added to {grant.header} for {listed(grant.hosts)}" if grant.way == "inject" else "in the environment"
    pools = "" if grant.pools == ("*",) else f", in the pools {listed(grant.pools)}"
    who = "" if grant.principals == ("*",) else f", for {listed(grant.principals)}"
    return f"{grant.name} {way}{pools}{who}"


def _tiers(tiers: document.Tiers) -> str:
    fallback = f", {tiers.fallback} instead when it is missing" if tiers.fallback else ""
    return f"{tiers.default} unless asked otherwise, {tiers.minimum} at least{fallback}"


def spelled(pattern: tuple[Any, ...]) -> str:
    """Write an argv pattern as a command line: `git status|diff …`."""
    return " ".join(_token(token) for token in pattern)


def _token(token: Any) -> str:
    if isinstance(token, tuple):
        return "|".join(token)
    return "…" if token == "..." else repr(token) if not token or " " in token else token  # noqa: S105 - a word of a command line


def listed(names: Iterable[str]) -> str:
    """Write names as `a, b or c` would be read: in backquotes, with commas."""
    return ", ".join(f"`{name}`" for name in names)
