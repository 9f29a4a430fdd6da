"""A policy, ready to decide: the document with its hash, its source, and the tables that make asking fast.

Made by `load` alone, never changed after. What could raise (a bad pattern, an odd host) raises while this is built.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from tipstaff.model.decision import Retention
from tipstaff.model.limits import Reply
from tipstaff.model.tiers import CLAUSES
from tipstaff.policy import document, hosts
from tipstaff.policy.bounds import Bounds, bounds_of, reply_of
from tipstaff.policy.paths import PathPattern
from tipstaff.policy.patterns import Match, any_of, glob, is_literal
from tipstaff.policy.rules import RuleBook
from tipstaff.policy.table import LIMITS

if TYPE_CHECKING:
    from tipstaff.policy.strict_yaml import Tree

DAY_MILLISECONDS = 86_400_000


class PrincipalEntry(msgspec.Struct, frozen=True):
    """One entry of `principals`."""

    index: int
    id: str
    matches: Match
    kinds: frozenset[str]
    allows: Match
    denies: Match


class HostEntry(msgspec.Struct, frozen=True):
    """One entry of `network.hosts`, with its host in normal form."""

    id: str
    host: str
    addresses: tuple[str, ...]
    max_bytes: int | None
    principals: Match
    pools: Match
    grant: document.HostGrant


class SecretEntry(msgspec.Struct, frozen=True):
    """One entry of `secrets`."""

    index: int
    order: tuple[bool, bool, str]  # which of several entries for one name is taken, wherever they stand in the file
    matches: Match
    principals: Match
    pools: Match
    grant: document.SecretGrant


class Tables:
    """What a document says, in the form that the checks ask for."""

    __slots__ = (
        "_bounds", "agents", "denied_hosts", "hosts", "in_place", "inherit", "mask", "pools", "principals", "readable",
        "restricted", "restricted_names", "retention", "rules", "secrets", "tolerated", "withheld", "workspaces",
    )  # fmt: skip

    def __init__(self, source: document.Document) -> None:
        self._bounds: dict[str, tuple[Bounds, Reply]] = {door: _limits(source, door) for door in (*LIMITS, "")}
        self.principals = tuple(_principal(entry, index) for index, entry in enumerate(source.principals))
        self.rules = RuleBook(source.rules)
        self.restricted = {name.casefold(): index for index, name in enumerate(source.restriction.names)}
        self.restricted_names = tuple(sorted(source.restriction.names))
        self.mask = source.restriction.mask
        self.pools = any_of(source.pools)
        self.agents = None if source.agents is None else any_of(source.agents)
        self.hosts = tuple(_host(grant) for grant in source.network.hosts)
        self.denied_hosts = tuple(hosts.normal_pattern(pattern) for pattern in source.network.deny)
        self.secrets = sorted(
            (_secret(grant, index) for index, grant in enumerate(source.secrets)), key=lambda entry: entry.order
        )
        self.inherit = any_of(source.env.inherit)
        self.workspaces = tuple(PathPattern(pattern) for pattern in source.files.workspaces)
        self.in_place = tuple(PathPattern(pattern) for pattern in source.files.in_place)
        self.readable = tuple(PathPattern(pattern) for pattern in source.files.readable)
        self.tolerated = {clause: getattr(source.tiers.tolerate, clause) for clause in CLAUSES}
        self.withheld = tuple((entry.data_class, any_of(entry.pools)) for entry in source.data_classes)
        self.retention = Retention(
            receipts_days=_days(source.retention.receipts), artifacts_days=_days(source.retention.artifacts)
        )

    def bounds(self, door: str) -> tuple[Bounds, Reply]:
        """Give the limits and the reply of `door`; one without a row of its own has the protocol's."""
        return self._bounds.get(door) or self._bounds[""]


class Policy(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A policy that has been read, checked and compiled."""

    document: document.Document
    hash: str
    value: Any  # the file as plain values: what the hash covers and what edits speak about
    source: str = "policy"
    tree: "Tree | None" = None  # None where the policy did not come from text
    tables: Tables = None  # type: ignore[assignment]  # made from the document

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "tables", Tables(self.document))

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, hash={self.hash!r}, source={self.source!r})"

    @property
    def name(self) -> str:
        """How the policy calls itself."""
        return self.document.name


def grant_id(grant: document.HostGrant) -> str:
    """Name a network grant by its own id, else by what it grants, so that its place in the file does not matter."""
    ports = "".join(f":{port}" for port in grant.ports)
    return grant.id or f"network.host:{hosts.normal_pattern(grant.host)}{ports}"


def _principal(entry: document.Principal, index: int) -> PrincipalEntry:
    return PrincipalEntry(
        index=index,
        id=entry.id,
        matches=glob(entry.id),
        kinds=frozenset(entry.kinds),
        allows=any_of(entry.tools.allow),
        denies=any_of(entry.tools.deny),
    )


def _host(grant: document.HostGrant) -> HostEntry:
    return HostEntry(
        id=grant_id(grant),
        host=hosts.normal_pattern(grant.host),
        addresses=tuple(hosts.normal_address(address) for address in grant.addresses),
        max_bytes=None if grant.max_bytes is None else int(grant.max_bytes),
        principals=any_of(grant.principals),
        pools=any_of(grant.pools),
        grant=grant,
    )


def _secret(grant: document.SecretGrant, index: int) -> SecretEntry:
    return SecretEntry(
        index=index,
        order=(not is_literal(grant.name), grant.way == "env", repr(grant)),
        matches=glob(grant.name),
        principals=any_of(grant.principals),
        pools=any_of(grant.pools),
        grant=grant,
    )


def _limits(source: document.Document, door: str) -> tuple[Bounds, Reply]:
    return bounds_of(source, door), reply_of(source, door)


def _days(milliseconds: int) -> int:
    # Rounded up: keeping evidence a little longer is the safe side.
    return -(-milliseconds // DAY_MILLISECONDS)
