"""The Decision: allow, deny or ask, the rules that led there, and what the run may really have."""

from typing import Literal

from tipstaff.model.limits import Budget, Limits, Reply
from tipstaff.model.network import EgressRule
from tipstaff.model.noun import Disclosure, Noun
from tipstaff.model.tiers import Clause, Strength, Verdict

Effect = Literal["allow", "ask", "deny"]
Assurance = Literal["same-uid", "console", "key", "hardware"]
ASSURANCES: tuple[Assurance, ...] = ("same-uid", "console", "key", "hardware")  # from the least sure


class Reason(Noun):
    """One rule's word on the request."""

    rule: str
    effect: Effect
    message: str


class Requirement(Noun):
    """People who must approve before the run may be claimed."""

    rule: str
    approvers: tuple[str, ...]  # ids or globs; never empty
    quorum: int = 1
    separate: bool = True  # the requester's own approval does not count
    assurance: Assurance = "same-uid"  # at least this sure
    expires_seconds: int = 86400


class SecretLease(Noun):
    """One secret, and how it may be used."""

    name: str
    scope: str = "session"
    way: Literal["env", "inject"] = "env"
    header: str | None = None
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    uses: int | None = None
    ttl_seconds: int | None = None
    rule: str = ""


class Retention(Noun):
    """How long evidence is kept."""

    receipts_days: int = 365
    artifacts_days: int = 90


class Demand(Noun):
    """The least strength with which one clause must hold in the sandbox itself, or the command is not let run."""

    clause: Clause
    strength: Strength


class Effective(Noun):
    """What the run may really have, after clamping. Only what stands here is granted."""

    tier: str
    minimum_tier: str
    limits: Limits
    budget: Budget
    reply: Reply = Reply()
    default_deny: bool = True
    egress: tuple[EgressRule, ...] = ()
    denied_hosts: tuple[str, ...] = ()  # patterns that win over every way out, also where the default is open
    secrets: tuple[SecretLease, ...] = ()
    inherit: tuple[str, ...] = ()
    workspace: str | None = None
    in_place: bool = False
    readable: tuple[str, ...] = ()
    disclosure: Disclosure = "minimal-context"
    withheld_classes: tuple[str, ...] = ()  # data classes that may not leave the pool
    retention: Retention = Retention()
    restricted: tuple[str, ...] = ()
    mask: bool = False
    fallback: str | None = None
    verdicts: tuple[Verdict, ...] = ()  # what the host says before the run; empty where nobody asked it
    demands: tuple[Demand, ...] = ()  # what the sandbox must show once it stands, for every clause in play


class Decision(Noun):
    """The answer of policy to one request; `effective` is there unless it was denied."""

    effect: Effect
    request_hash: str
    policy_hash: str
    policy: str  # the name of the policy, as its file or its shipped default calls itself
    rules: tuple[str, ...]  # never empty
    reasons: tuple[Reason, ...]
    requirements: tuple[Requirement, ...] = ()
    effective: Effective | None = None

    @property
    def denied(self) -> bool:
        """Say whether nothing may run."""
        return self.effect == "deny"
