"""`warrant.policy.v1`, the policy document of the protocol: read into ours, and written from it.

Every field is enforced. What that format cannot say is read in the narrower way: any requester, but no folders of the
host, no inherited variables, no tier below bubblewrap; a file whose approver lists are empty is refused, since nobody
could approve. Its hash is that of the JSON itself. Writing lists everything that is lost.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, dataclass_transform

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, PolicyError
from tipstaff.policy import document
from tipstaff.policy.compiled import Policy
from tipstaff.policy.load import WARRANT, policy_from_value
from tipstaff.policy.patterns import escape, is_literal, tokens
from tipstaff.policy.units import MILLISECONDS

MINUTE: Final = MILLISECONDS["m"]
DAY: Final = MILLISECONDS["d"]
Days = int | float


# msgspec hands frozen and kw_only down to subclasses; type checkers must be told.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping of that format: every key in it must be known."""


class _Runners(_Part):
    allow_pools: tuple[str, ...]


class _Agents(_Part):
    allow: tuple[str, ...]


class _DataClass(_Part):
    data_class: str
    allow_pools: tuple[str, ...]


class _Network(_Part):
    default_deny: bool
    allow_hosts: tuple[str, ...]


class _Releasable(_Part):
    name: str
    scope: str
    pools: tuple[str, ...]


class _Secrets(_Part):
    releasable: tuple[_Releasable, ...] = ()


class _Budget(_Part):
    max_spend_usd: float | int | None = None
    max_duration_min: float | int | None = None


class _Consent(_Part):
    when: Literal["any-run", "secret-release", "agent-kind"]
    approvers: tuple[str, ...]
    match: str | None = None


class _Retention(_Part):
    receipts_days: Days = 365
    artifacts_days: Days = 90


class _Warrant(_Part):
    version: Literal["warrant.policy.v1"]
    runners: _Runners
    agents: _Agents
    network: _Network
    data_classes: tuple[_DataClass, ...] = ()
    secrets: _Secrets = _Secrets()
    budget: _Budget = _Budget()
    consent: tuple[_Consent, ...] = ()
    retention: _Retention = _Retention()


def compiled(value: dict[str, Any], source: str) -> Policy:
    """Read the document `value` and compile it; its hash stays that of the JSON itself."""
    try:
        read, hashed = msgspec.convert(value, _Warrant), digest(value)
    except (msgspec.ValidationError, CanonicalError) as error:
        raise PolicyError(f"this {WARRANT} document is wrong: {error}", source=source) from error
    if wild := [host for host in read.network.allow_hosts if "*" in host]:
        raise PolicyError(
            f"this {WARRANT} document is wrong: its hosts are exact, and `{wild[0]}` is none", source=source
        )
    found = policy_from_value(ours(read), source)
    return Policy(document=found.document, hash=hashed, value=found.value, source=source)


def ours(read: _Warrant) -> dict[str, Any]:
    """Say the same in our own format."""
    return {
        "version": document.VERSION,
        "name": WARRANT,
        "principals": [{"id": "*"}],
        "rules": [{"id": "any-run", "effect": "allow", "when": "any"}, *_consents(read)],
        "pools": [escape(pool) for pool in read.runners.allow_pools],
        "agents": [escape(kind) for kind in read.agents.allow],
        "network": {
            "default_deny": read.network.default_deny,
            # An allowed host of that format is any port and any use of it, tunnels included.
            "hosts": [{"host": host, "opaque": True} for host in dict.fromkeys(read.network.allow_hosts)],
        },
        "secrets": [
            {"name": escape(one.name), "scope": one.scope, "pools": [escape(pool) for pool in one.pools]}
            for one in read.secrets.releasable
        ],
        "limits": _limits(read.budget),
        "disclosure": ["none", "metadata-only", "redacted", "minimal-context", "full"],
        "data_classes": [
            {"data_class": one.data_class, "pools": [escape(pool) for pool in one.allow_pools]}
            for one in read.data_classes
        ],
        "retention": {
            "receipts": _days(read.retention.receipts_days),
            "artifacts": _days(read.retention.artifacts_days),
        },
    }


def _consents(read: _Warrant) -> Iterator[dict[str, Any]]:
    for index, consent in enumerate(read.consent, start=1):
        when: str | dict[str, Any] = "any"
        # A missing `match` means all of them: the rule asks more often, never less.
        if consent.when == "secret-release":
            when = {"secrets": [escape(consent.match) if consent.match else "*"]}
        elif consent.when == "agent-kind":
            when = {"agents": [escape(consent.match) if consent.match else "*"]}
        approvals = {"approvers": [escape(name) for name in consent.approvers]}
        yield {"id": f"consent-{index}", "effect": "ask", "when": when, "approvals": approvals}


def _limits(budget: _Budget) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if budget.max_spend_usd is not None:
        limits["spend_usd"] = {"max": budget.max_spend_usd}
    if budget.max_duration_min is not None:
        limits["time"] = {"max": f"{max(1, int(budget.max_duration_min * MINUTE))}ms"}
    return limits


def _days(days: Days) -> str:
    return f"{max(1, int(days * DAY))}ms"


class Exported(NamedTuple):
    """A document of that format, and what it could not say."""

    value: dict[str, Any]
    lost: tuple[str, ...]


def exported(policy: Policy) -> Exported:
    """Write `policy` in that format, and list what the format cannot say."""
    source = policy.document
    value: dict[str, Any] = {
        "version": WARRANT,
        "runners": {"allowPools": _plain(source.pools)},
        "agents": {"allow": _plain(source.agents or ())},
        "dataClasses": [
            {"dataClass": entry.data_class, "allowPools": _plain(entry.pools)} for entry in source.data_classes
        ],
        "network": {
            "defaultDeny": source.network.default_deny,
            "allowHosts": sorted({entry.host for entry in policy.tables.hosts if "*" not in entry.host}),
        },
        "secrets": {
            "releasable": [
                {"name": tokens(secret.name), "scope": secret.scope, "pools": _plain(secret.pools)}
                for secret in source.secrets
                if is_literal(secret.name)
            ]
        },
        "budget": _exported_budget(source.limits),
        "consent": [consent for rule in source.rules for consent in _exported_consent(rule)],
        "retention": {
            "receiptsDays": policy.tables.retention.receipts_days,
            "artifactsDays": policy.tables.retention.artifacts_days,
        },
    }
    again = policy_from_value(ours(msgspec.convert(value, _Warrant))).document
    return Exported(value, tuple(_lost(source, again)))


def _plain(patterns: tuple[str, ...]) -> list[str]:
    return [tokens(pattern) for pattern in patterns if is_literal(pattern)]


def _exported_budget(limits: document.Limits) -> dict[str, Any]:
    budget: dict[str, Any] = {}
    if limits.spend_usd.max is not None:
        budget["maxSpendUsd"] = limits.spend_usd.max
    if limits.time.max is not None:
        minutes, rest = divmod(limits.time.max, MINUTE)
        budget["maxDurationMin"] = limits.time.max / MINUTE if rest else minutes
    return budget


def _exported_consent(rule: document.Rule) -> Iterator[dict[str, Any]]:
    """Give the consents that ask at least as often as `rule` does."""
    if rule.effect != "ask" or rule.approvals is None:
        return
    # A glob is written as it is: a reader takes it for a name that nobody has, and then nobody can approve.
    approvers = [tokens(name) if is_literal(name) else name for name in rule.approvals.approvers]
    when = rule.when if isinstance(rule.when, document.Condition) else document.Condition()
    only = {key for key in when.__struct_fields__ if getattr(when, key) is not None}
    kind = {frozenset(("secrets",)): "secret-release", frozenset(("agents",)): "agent-kind"}.get(
        frozenset(only), "any-run"
    )
    names = when.secrets if kind == "secret-release" else when.agents if kind == "agent-kind" else None
    for name in names or ("",):
        match = {"match": tokens(name)} if name and is_literal(name) else {}
        yield {"when": kind, **match, "approvers": approvers}


def _lost(source: document.Document, again: document.Document) -> Iterator[str]:
    """List where the export, read `again`, does not say what the policy says; mostly it is wider."""
    for section, sentence in _SECTIONS.items():
        if _compared(source, section) != _compared(again, section):
            yield f"{section}: {sentence}"
    kept = _compared(again, "rules")
    for rule in source.rules:
        if _bare(rule) not in kept:
            yield f"rules: `{rule.id}` {_RULES[rule.effect]}"
    if not any(rule.effect == "allow" or (rule.effect == "ask" and rule.when == "any") for rule in source.rules):
        yield "rules: what no rule speaks of is denied, and that format allows every run"


def _compared(source: document.Document, section: str) -> Any:
    """Give a section without what decides nothing: ids, order, reasons and examples."""
    if section == "network":
        network = source.network
        return network.default_deny, network.deny, {msgspec.structs.replace(one, id=None) for one in network.hosts}
    if section == "rules":
        return [_bare(rule) for rule in source.rules]
    return getattr(source, section)


def _bare(rule: document.Rule) -> document.Rule:
    return msgspec.structs.replace(rule, id="", reason="", match=(), no_match=())


_RULES: Final = {
    "deny": "denies, and that format has no denials",
    "allow": "allows only what it matches, and that format allows every run",
    "ask": "asks by secrets or agents at most; what else it matches becomes every run",
}
_SECTIONS: Final = {
    "safe_mode": "that format has no safe mode",
    "restricted": "that format has no restricted names",
    "principals": "that format does not say who may ask",
    "pools": "that format names pools one by one; globs are left out",
    "agents": "that format names agent kinds one by one; what is not named there may not run",
    "network": "that format has exact hosts only: wildcards, denials and whatever narrows a host are left out",
    "secrets": "that format has names and pools only: globs and whatever else narrows a secret are left out",
    "env": "that format does not speak of inherited variables",
    "files": "that format does not speak of folders",
    "limits": "that format bounds time and money only",
    "reply": "that format does not bound replies",
    "tiers": "that format does not speak of tiers",
    "disclosure": "that format does not list disclosure modes",
    "data_classes": "that format names pools one by one; globs are left out",
    "contract": "that format does not say how long a contract lives",
}
