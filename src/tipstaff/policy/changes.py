"""What differs between two policies, in words: each change is wider, narrower or just different.

Wider: some request may get more and none gets less; narrower: the other way round; different: anything else. Rules,
principals and grants are matched by their names, and their order never counts, because it never does in a decision.
Compares what the files say; it tries no requests.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from tipstaff.model.decision import ASSURANCES
from tipstaff.model.tiers import CLAUSES, STRENGTHS, rank
from tipstaff.policy import document
from tipstaff.policy.compiled import Policy, grant_id
from tipstaff.policy.patterns import overlaps
from tipstaff.policy.units import Duration, Size, show_duration, show_size

Direction = Literal["wider", "narrower", "different"]
MATCHES_MORE: Final[dict[str, Direction]] = {"allow": "wider", "deny": "narrower", "ask": "different"}
OPPOSITE: Final[dict[Direction, Direction]] = {"wider": "narrower", "narrower": "wider", "different": "different"}
SEVERITY: Final = ("allow", "ask", "deny")


Entries = dict[str, Any]


class Change(NamedTuple):
    """One difference between two policies."""

    direction: Direction
    where: str
    message: str


Compare = Callable[[str, Any, Any], Iterator[Change]]


def changes(before: Policy, after: Policy) -> tuple[Change, ...]:
    """List what differs, section by section; the same document gives nothing."""
    return tuple(_document(before.document, after.document))


def _document(old: document.Document, new: document.Document) -> Iterator[Change]:
    yield from _flag("safe_mode", old.safe_mode, new.safe_mode, on="narrower")
    yield from _names("restricted", old.restriction.names, new.restriction.names, more="narrower")
    yield from _flag("restricted.mask", old.restriction.mask, new.restriction.mask, on="narrower")
    yield from _named("principals", *_sides(old.principals, new.principals, "id"), _principal, _new_principal)
    yield from _rules(old, new)
    yield from _names("pools", old.pools, new.pools)
    yield from _agents(old.agents, new.agents)
    yield from _network(old.network, new.network)
    yield from _named("secrets", *_sides(old.secrets, new.secrets, "name"), _secret, _new_secret(old, new))
    yield from _names("env.inherit", old.env.inherit, new.env.inherit)
    for section in ("workspaces", "in_place", "readable"):
        yield from _names(f"files.{section}", getattr(old.files, section), getattr(new.files, section))
    yield from _bounds(old, new)
    yield from _tiers(old.tiers, new.tiers)
    yield from _names("disclosure", old.disclosure, new.disclosure)
    yield from _data_classes(old, new)
    yield from _amount("contract.life", old.contract.life, new.contract.life)
    yield from _amount("contract.retries", old.contract.retries, new.contract.retries)
    for section in ("name", "description", "retention", "examples"):
        if getattr(old, section) != getattr(new, section):
            yield Change("different", section, f"`{section}` is changed")


def _rules(old: document.Document, new: document.Document) -> Iterator[Change]:
    before, after = {rule.id: rule for rule in old.rules}, {rule.id: rule for rule in new.rules}
    for name in _gone(before, after):
        direction = OPPOSITE[_new_rule(before[name])]
        yield Change(direction, f"rules.{name}", f"the rule `{name}` ({before[name].effect}) is removed")
    for name in _gone(after, before):
        yield Change(_new_rule(after[name]), f"rules.{name}", f"the rule `{name}` ({after[name].effect}) is added")
    for name in _common(before, after):
        yield from _rule(f"rules.{name}", before[name], after[name])


def _new_rule(rule: document.Rule) -> Direction:
    # An allow rule with a tier or limits of its own also narrows what other rules allow.
    bounded = rule.tier is not None or rule.limits != document.RuleLimits()
    return "different" if bounded else MATCHES_MORE[rule.effect]


def _rule(where: str, old: document.Rule, new: document.Rule) -> Iterator[Change]:
    more = MATCHES_MORE[new.effect] if new.effect == old.effect else "different"
    if old.effect != new.effect:
        stricter = SEVERITY.index(new.effect) > SEVERITY.index(old.effect)
        message = f"the effect was {old.effect} and is {new.effect}"
        yield Change("narrower" if stricter else "wider", where, message)
    if _new_rule(new) == "different":
        more = "different"
    yield from _condition(f"{where}.when", _opened(old.when), _opened(new.when), more)
    yield from _exceptions(f"{where}.except", old.exceptions, new.exceptions, more)
    yield from _approvals(f"{where}.approvals", old.approvals, new.approvals)
    for name in document.RuleLimits.__struct_fields__:
        yield from _amount(f"{where}.limits.{name}", getattr(old.limits, name), getattr(new.limits, name), none="any")
    yield from _tier(f"{where}.tier", old.tier, new.tier)
    for section in ("reason", "match", "no_match"):
        if getattr(old, section) != getattr(new, section):
            yield Change("different", f"{where}.{section}", f"`{section}` is changed")


def _opened(when: str | document.Condition) -> document.Condition:
    return when if isinstance(when, document.Condition) else document.Condition()


def _condition(where: str, old: document.Condition, new: document.Condition, more: Direction) -> Iterator[Change]:
    for key in document.Condition.__struct_fields__:
        before, after = getattr(old, key), getattr(new, key)
        if before is None and after is not None:
            yield Change(OPPOSITE[more], f"{where}.{key}", f"matches only {_listed(after)}, and matched any")
        elif before is not None and after is None:
            yield Change(more, f"{where}.{key}", f"matches any, and matched only {_listed(before)}")
        else:
            yield from _names(f"{where}.{key}", before or (), after or (), more=more)


def _exceptions(where: str, old: tuple[Any, ...], new: tuple[Any, ...], more: Direction) -> Iterator[Change]:
    for condition in new:
        if condition not in old:
            yield Change(OPPOSITE[more], where, f"an exception is added: {_shown(condition)}")
    for condition in old:
        if condition not in new:
            yield Change(more, where, f"an exception is removed: {_shown(condition)}")


def _approvals(where: str, old: document.Approvals | None, new: document.Approvals | None) -> Iterator[Change]:
    if old is None or new is None:
        return  # the change of the effect says it
    yield from _names(f"{where}.approvers", old.approvers, new.approvers)
    yield from _amount(f"{where}.quorum", old.quorum, new.quorum, larger="narrower")
    yield from _flag(f"{where}.separate", old.separate, new.separate, on="narrower")
    sure = (ASSURANCES.index(old.assurance), ASSURANCES.index(new.assurance))
    if sure[0] != sure[1]:
        message = f"the assurance was {old.assurance} and is {new.assurance}"
        yield Change("narrower" if sure[1] > sure[0] else "wider", f"{where}.assurance", message)
    yield from _amount(f"{where}.expires", old.expires, new.expires)


def _new_principal(entry: document.Principal) -> Direction:
    # A requester may be named by several entries, and the denials of all of them hold.
    return "different" if entry.tools.deny else "wider"


def _new_secret(old: document.Document, new: document.Document) -> Callable[[document.SecretGrant], Direction]:
    def direction(entry: document.SecretGrant) -> Direction:
        # Where several entries fit one secret, one of them sets the terms: another may set stricter ones.
        rivals = [
            other for other in (*old.secrets, *new.secrets) if other != entry and overlaps(other.name, entry.name)
        ]
        return "different" if rivals else "wider"

    return direction


def _principal(where: str, old: document.Principal, new: document.Principal) -> Iterator[Change]:
    yield from _any_or_names(f"{where}.kinds", old.kinds, new.kinds)
    yield from _names(f"{where}.tools.allow", old.tools.allow, new.tools.allow)
    yield from _names(f"{where}.tools.deny", old.tools.deny, new.tools.deny, more="narrower")


def _agents(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> Iterator[Change]:
    if old is None and new is not None:
        yield Change("narrower", "agents", f"only {_listed(new)} may run, and any kind could")
    elif old is not None and new is None:
        yield Change("wider", "agents", f"any kind may run, and only {_listed(old)} could")
    else:
        yield from _names("agents", old or (), new or ())


def _network(old: document.Network, new: document.Network) -> Iterator[Change]:
    yield from _flag("network.default_deny", old.default_deny, new.default_deny, on="narrower")
    hosts = [_keyed((grant_id(one).removeprefix("network.host:"), one) for one in side.hosts) for side in (old, new)]
    yield from _named("network.hosts", hosts[0], hosts[1], _host)
    yield from _names("network.deny", old.deny, new.deny, more="narrower")


def _host(where: str, old: document.HostGrant, new: document.HostGrant) -> Iterator[Change]:
    if old.host != new.host:
        yield Change("different", f"{where}.host", f"the host was {old.host} and is {new.host}")
    for key in ("ports", "methods", "paths"):
        yield from _any_or_names(f"{where}.{key}", getattr(old, key), getattr(new, key))
    yield from _flag(f"{where}.inspect", old.inspect, new.inspect, on="different")
    yield from _flag(f"{where}.opaque", old.opaque, new.opaque, on="wider")
    yield from _names(f"{where}.addresses", old.addresses, new.addresses, more="different")
    for key in ("max_bytes", "max_connections"):
        yield from _amount(f"{where}.{key}", getattr(old, key), getattr(new, key), none="any")
    yield from _flag(f"{where}.ask", old.ask, new.ask, on="narrower")
    for key in ("principals", "pools"):
        yield from _names(f"{where}.{key}", getattr(old, key), getattr(new, key))


def _secret(where: str, old: document.SecretGrant, new: document.SecretGrant) -> Iterator[Change]:
    for key in ("pools", "principals"):
        yield from _names(f"{where}.{key}", getattr(old, key), getattr(new, key))
    yield from _any_or_names(f"{where}.hosts", old.hosts, new.hosts)
    for key in ("methods", "paths"):
        yield from _any_or_names(f"{where}.{key}", getattr(old, key), getattr(new, key))
    yield from _amount(f"{where}.uses", old.uses, new.uses, none="any")
    yield from _amount(f"{where}.ttl", old.ttl, new.ttl, none="any")
    for key in ("scope", "way", "header"):
        if getattr(old, key) != getattr(new, key):
            message = f"the {key} was {getattr(old, key)} and is {getattr(new, key)}"
            yield Change("different", f"{where}.{key}", message)


def _bounds(old: document.Document, new: document.Document) -> Iterator[Change]:
    for name in document.Limits.__struct_fields__:
        before, after = getattr(old.limits, name), getattr(new.limits, name)
        for key in type(before).__struct_fields__:
            yield from _amount(f"limits.{name}.{key}", getattr(before, key), getattr(after, key), none="table")
    for key in document.Reply.__struct_fields__:
        yield from _amount(f"reply.{key}", getattr(old.reply, key), getattr(new.reply, key), none="table")


def _tiers(old: document.Tiers, new: document.Tiers) -> Iterator[Change]:
    if old.default != new.default:
        yield Change("different", "tiers.default", f"the default was {old.default} and is {new.default}")
    yield from _tier("tiers.minimum", old.minimum, new.minimum)
    if old.fallback != new.fallback:
        direction: Direction = "wider" if old.fallback is None else "narrower" if new.fallback is None else "different"
        yield Change(direction, "tiers.fallback", f"the fallback was {old.fallback} and is {new.fallback}")
    for clause in CLAUSES:
        before, after = (getattr(side.tolerate, clause) or "enforced" for side in (old, new))
        if before != after:
            weaker = STRENGTHS.index(after) < STRENGTHS.index(before)
            message = f"had to be {before} at least, and has to be {after} at least"
            yield Change("wider" if weaker else "narrower", f"tiers.tolerate.{clause}", message)


def _tier(where: str, old: str | None, new: str | None) -> Iterator[Change]:
    if old == new:
        return
    before, after = (-1 if tier is None else rank(tier) or 0 for tier in (old, new))
    # hermetic runs only Python, so a minimum of that rank also turns other runs elsewhere.
    direction: Direction = "narrower" if after > before else "wider" if after < before else "different"
    yield Change(direction, where, f"was {old or 'none'} and is {new or 'none'}")


def _data_classes(old: document.Document, new: document.Document) -> Iterator[Change]:
    before, after = ({entry.data_class: entry.pools for entry in side.data_classes} for side in (old, new))
    for name in _gone(before, after):
        yield Change("wider", "data_classes", f"`{name}` is no longer held to pools")
    for name in _gone(after, before):
        yield Change("narrower", "data_classes", f"`{name}` may leave only from {_listed(after[name])}")
    for name in _common(before, after):
        yield from _names(f"data_classes.{name}", before[name], after[name])


def _named(
    where: str, old: Entries, new: Entries, compare: Compare, added: Callable[[Any], Direction] = lambda _: "wider"
) -> Iterator[Change]:
    """Compare entries that permit something, by name; `added` says what one more of them means."""
    for name in _gone(old, new):
        yield Change(OPPOSITE[added(old[name])], where, f"`{name}` is removed")
    for name in _gone(new, old):
        yield Change(added(new[name]), where, f"`{name}` is added")
    for name in _common(old, new):
        yield from compare(f"{where}.{name}", old[name], new[name])


def _names(where: str, old: tuple[Any, ...], new: tuple[Any, ...], *, more: Direction = "wider") -> Iterator[Change]:
    """Compare two lists as sets; `more` is what one more item means."""
    for item in new:
        if item not in old:
            yield Change(more, where, f"`{_shown(item)}` is added")
    for item in old:
        if item not in new:
            yield Change(OPPOSITE[more], where, f"`{_shown(item)}` is removed")


def _any_or_names(where: str, old: tuple[Any, ...], new: tuple[Any, ...]) -> Iterator[Change]:
    """Compare two lists of which an empty one means any."""
    if old and not new:
        yield Change("wider", where, f"any, and was {_listed(old)}")
    elif new and not old:
        yield Change("narrower", where, f"only {_listed(new)}, and was any")
    else:
        yield from _names(where, old, new)


def _flag(where: str, old: bool, new: bool, *, on: Direction) -> Iterator[Change]:  # noqa: FBT001 - two values to compare
    if old != new:
        yield Change(on if new else OPPOSITE[on], where, f"was {_shown(old)} and is {_shown(new)}")


def _amount(
    where: str, old: float | None, new: float | None, *, larger: Direction = "wider", none: str = ""
) -> Iterator[Change]:
    """Compare two amounts; `none` says what a missing one means: `any` amount, or the built-in `table`'s."""
    if old == new:
        return
    message = f"was {_quantity(old, none)} and is {_quantity(new, none)}"
    if none == "table" and (old is None or new is None):
        yield Change("different", where, message)
        return
    infinite = float("inf")
    grew = (infinite if new is None else new) > (infinite if old is None else old)
    yield Change(larger if grew else OPPOSITE[larger], where, message)


def _quantity(amount: float | None, none: str) -> str:
    if amount is None:
        return "unbounded" if none == "any" else "the built-in number"
    if isinstance(amount, Duration):
        return show_duration(amount)
    return show_size(amount) if isinstance(amount, Size) else str(amount)


def _gone(old: Entries, new: Entries) -> list[str]:
    return sorted(set(old) - set(new))


def _common(old: Entries, new: Entries) -> list[str]:
    return sorted(set(old) & set(new))


def _sides(old: tuple[Any, ...], new: tuple[Any, ...], name: str) -> tuple[Entries, Entries]:
    before, after = (_keyed((getattr(entry, name), entry) for entry in side) for side in (old, new))
    return before, after


def _keyed(pairs: Iterable[tuple[str, Any]]) -> Entries:
    """Give entries of one name numbers, since a file may hold several, in whatever order."""
    found: Entries = {}
    count: dict[str, int] = {}
    for name, entry in sorted(pairs, key=lambda pair: (pair[0], repr(pair[1]))):
        count[name] = count.get(name, 0) + 1
        found[f"{name} #{count[name]}" if count[name] > 1 else name] = entry
    return found


def _listed(items: tuple[Any, ...]) -> str:
    return ", ".join(f"`{_shown(item)}`" for item in items)


def _shown(value: Any) -> str:
    """Spell a value as the file would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    if isinstance(value, document.Condition):
        given = [(key, getattr(value, key)) for key in value.__struct_fields__ if getattr(value, key) is not None]
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in given) + "}"
    return str(value)
