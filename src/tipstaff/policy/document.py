"""The policy file, typed: `tipstaff.policy.v1`, with the names that its author writes.

These structs say what a file may hold and what an absent section means, which is always the narrower thing. They
check types and names only; `validate` checks what needs more than one field, `compile` makes it fast to ask.
"""

from typing import Annotated, Any, Final, Literal, dataclass_transform

import msgspec

from tipstaff.model.decision import Assurance, Effect
from tipstaff.model.facts import Facts
from tipstaff.model.noun import Disclosure
from tipstaff.policy.units import Duration, Size, duration, size

VERSION: Final = "tipstaff.policy.v1"

Identifier = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?\\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | Annotated[float, msgspec.Meta(ge=0, le=2**53 - 1)]
Cores = Annotated[int, msgspec.Meta(ge=1, le=4096)] | Annotated[float, msgspec.Meta(ge=0.001, le=4096)]
Names = tuple[Text, ...]
Some = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]  # an empty list would match nothing, in silence
Word = Annotated[str, msgspec.Meta(max_length=4096)]  # an argument may be empty
Token = Word | Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]
ArgvPattern = Annotated[tuple[Token, ...], msgspec.Meta(min_length=1)]
Kind = Literal["argv", "shell", "python", "agent"]
Weakness = Literal["enforced", "weaker", "unenforceable"]  # the least that is good enough


# msgspec hands frozen and kw_only down to subclasses; type checkers must be told.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file: every key in it must be known."""


class Restricted(Section):
    """Names that nobody runs; `mask` also hides the programs inside the sandbox."""

    names: Names = ()
    mask: bool = False


class Tools(Section):
    """Tool names as globs; a denied one is refused whatever is allowed."""

    allow: Names = ("*",)
    deny: Names = ()


class Principal(Section):
    """Who may ask at all, and for which tools."""

    id: Text
    kinds: tuple[Literal["human", "service", "agent"], ...] = ()
    tools: Tools = Tools()


class Condition(Section):
    """What a rule looks at: every key that is given must match, and a list matches when one item does."""

    principals: Some | None = None
    doors: Some | None = None
    kinds: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)] | None = None
    tools: Some | None = None
    agents: Some | None = None
    pools: Some | None = None
    secrets: Some | None = None
    hosts: Some | None = None
    argv: Annotated[tuple[ArgvPattern, ...], msgspec.Meta(min_length=1)] | None = None


class Approvals(Section):
    """Who must approve, how many, and how sure it must be that it was them."""

    approvers: Some
    quorum: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    separate: bool = True
    assurance: Assurance = "same-uid"
    expires: Duration = Duration(86_400_000)


class RuleLimits(Section):
    """Maxima that a rule adds for the requests it matches."""

    time: Duration | None = None
    memory: Size | None = None
    cpus: Cores | None = None
    pids: Positive | None = None
    disk: Size | None = None
    output: Size | None = None
    spend_usd: Number | None = None


class Rule(Section):
    """One rule, with the examples that hold it to its word."""

    id: Identifier
    effect: Effect
    when: Literal["any"] | Condition
    reason: str = ""
    exceptions: tuple[Condition, ...] = msgspec.field(default=(), name="except")
    match: tuple[str | tuple[str, ...] | dict[str, Any], ...] = ()
    no_match: tuple[str | tuple[str, ...] | dict[str, Any], ...] = ()
    approvals: Approvals | None = None
    limits: RuleLimits = RuleLimits()
    tier: str | None = None


class HostGrant(Section):
    """One host that may be asked for. Empty ports, methods and paths mean any; those two need `inspect`."""

    host: Text
    id: Identifier | None = None
    ports: tuple[Port, ...] = ()
    methods: Names = ()
    paths: Names = ()
    inspect: bool = False
    opaque: bool = False
    addresses: Names = ()
    max_bytes: Size | None = None
    max_connections: Positive | None = None
    ask: bool = False
    principals: Names = ("*",)
    pools: Names = ("*",)


class Network(Section):
    """What may be asked for beyond the sandbox; nothing, unless it stands here."""

    default_deny: bool = True
    hosts: tuple[HostGrant, ...] = ()
    deny: Names = ()


class SecretGrant(Section):
    """One secret that may be released, to whom, and how it is used."""

    name: Text
    scope: Text = "session"
    pools: Names = ("*",)
    principals: Names = ("*",)
    way: Literal["env", "inject"] = "env"
    header: Text | None = None
    hosts: Names = ()
    methods: Names = ()
    paths: Names = ()
    uses: Positive | None = None
    ttl: Duration | None = None


class EnvironmentSection(Section):
    """Variables of the runner's host that a request may inherit, as globs."""

    inherit: Names = ()


class Files(Section):
    """Folders of the host, as path globs: `**` is any depth, `*` stays within one name."""

    workspaces: Names = ()
    in_place: Names = ()
    readable: Names = ()


class TimeLimit(Section):
    """A duration: what a request gets when it names none, and the most it can get."""

    default: Duration | None = None
    max: Duration | None = None


class SizeLimit(Section):
    """A size: what a request gets when it names none, and the most it can get."""

    default: Size | None = None
    max: Size | None = None


class CountLimit(Section):
    """A count: what a request gets when it names none, and the most it can get."""

    default: Positive | None = None
    max: Positive | None = None


class CoreLimit(Section):
    """Cores, which may be a fraction."""

    default: Cores | None = None
    max: Cores | None = None


class SpendLimit(Section):
    """Money; there is no default, since nobody spends what they did not ask for."""

    max: Number | None = None


class Limits(Section):
    """Bounds; an absent one is the number in the built-in table for the request's door."""

    time: TimeLimit = TimeLimit()
    memory: SizeLimit = SizeLimit()
    cpus: CoreLimit = CoreLimit()
    pids: CountLimit = CountLimit()
    disk: SizeLimit = SizeLimit()
    output: SizeLimit = SizeLimit()
    spend_usd: SpendLimit = SpendLimit()


class Reply(Section):
    """What a door hands back in memory."""

    bytes: Size | None = None
    lines: Positive | None = None
    characters: Positive | None = None


class Tolerate(Section):
    """Clauses that may be less than enforced, and by how much.

    Two are, unless a policy says otherwise: a quota of the file system is a rare thing to have, and restricted names
    are looked for in the request only, unless `mask` takes them out of the sandbox.
    """

    network: Weakness | None = None
    hosts: Weakness | None = None
    memory: Weakness | None = None
    cpu: Weakness | None = None
    pids: Weakness | None = None
    disk: Weakness | None = "weaker"
    time: Weakness | None = None
    output: Weakness | None = None
    files: Weakness | None = None
    secrets: Weakness | None = None
    restricted: Weakness | None = "weaker"


class Tiers(Section):
    """Which sandbox: by default, at least, and instead when it is missing."""

    default: str = "bwrap"
    minimum: str = "bwrap"
    fallback: str | None = None
    tolerate: Tolerate = Tolerate()


class DataClass(Section):
    """A class of data that may leave only from these pools."""

    data_class: Text
    pools: Names


class Retention(Section):
    """How long evidence is kept."""

    receipts: Duration = Duration(365 * 86_400_000)
    artifacts: Duration = Duration(90 * 86_400_000)


class ContractLife(Section):
    """How long a contract may wait to be carried out."""

    life: Duration = Duration(3_600_000)
    retries: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1  # after a lost runner, where surely nothing was run


class Example(Section):
    """A request and what this policy must say to it; `rules` are among those it must name."""

    request: dict[str, Any]
    expect: Effect
    rules: Names = ()
    facts: Facts = Facts()


class Document(Section):
    """The whole file."""

    version: Literal["tipstaff.policy.v1"]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    description: str = ""
    safe_mode: bool = False
    restricted: Restricted | Names = Restricted()
    principals: tuple[Principal, ...] = ()
    rules: tuple[Rule, ...] = ()
    pools: Names = ("default",)
    agents: Names | None = None
    network: Network = Network()
    secrets: tuple[SecretGrant, ...] = ()
    env: EnvironmentSection = EnvironmentSection()
    files: Files = Files()
    limits: Limits = Limits()
    reply: Reply = Reply()
    tiers: Tiers = Tiers()
    disclosure: tuple[Disclosure, ...] = ("none", "metadata-only", "redacted", "minimal-context")
    data_classes: tuple[DataClass, ...] = ()
    retention: Retention = Retention()
    contract: ContractLife = ContractLife()
    examples: tuple[Example, ...] = ()

    @property
    def restriction(self) -> Restricted:
        """The restricted names, in whichever of the two forms the file has them."""
        return self.restricted if isinstance(self.restricted, Restricted) else Restricted(names=self.restricted)


def typed(value: Any) -> Document:
    """Give `value` its types; msgspec's own error says what does not fit."""
    return msgspec.convert(value, Document, dec_hook=_read_unit)


def _read_unit(kind: type, value: Any) -> Any:
    if kind is Duration:
        return duration(value)
    if kind is Size:
        return size(value)
    raise NotImplementedError(kind)
