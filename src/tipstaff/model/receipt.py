"""The Receipt, the Bundle around it, and the signatures on both. Typed views for reading, like the contract's.

What our own writers add to the protocol is optional, and typed as far as readers rely on it: where it is there, it can
be read, and is not null.
"""

from typing import Any, Literal

import msgspec

from tipstaff.model.contract import RunId
from tipstaff.model.noun import Count, Digest, KeyId, Noun, SignedNoun, Timestamp

Role = Literal["org", "plane", "runner"]
Status = Literal["completed", "failed", "cancelled"]
Ending = Literal[
    "exited",
    "signalled",
    "timed-out",
    "out-of-memory",
    "disk-limit",
    "output-limit",
    "cancelled",
    "refused",
    "setup-failed",
    "lost",
]


class Signature(Noun):
    """One role's word on a digest. No hash covers it, so nothing may be added to it."""

    key_id: KeyId
    alg: str
    signer: Role
    sig: str


class RunnerIdentity(SignedNoun):
    """Who ran it, and behind which wall."""

    runner_id: str
    key_id: KeyId
    pool: str
    attestation_tier: str
    isolation: str | None = None  # receipts older than the field meant `process`


class WorkspaceIn(SignedNoun):
    """What the run started from."""

    base_ref: str
    manifest_hash: Digest


class WorkspaceOut(SignedNoun):
    """What the run left; an empty diffHash means no diff."""

    diff_hash: str
    artifact_hashes: list[str]


class SecretRecord(SignedNoun):
    """A secret that was released, and when."""

    name: str
    scope: str
    ts: Timestamp


class NetworkRecord(SignedNoun):
    """A host that was asked for."""

    host: str
    decision: Literal["allowed", "blocked"]


class ModelRecord(SignedNoun):
    """A model that was called."""

    provider: str
    model: str


class DisclosureRecord(SignedNoun):
    """Content that crossed the boundary."""

    direction: Literal["out", "in"]
    content_hash: str
    data_class: str


class StreamView(SignedNoun):
    """A stream of the command: how much passed, its digest, and the artifact that keeps a copy."""

    bytes: Count
    sha256: str
    truncated: bool = False
    kept: Digest | None = None


class EnforcementRecord(SignedNoun):
    """What the sandbox made of one clause of the contract."""

    clause: str
    verdict: str
    by: str


class UsageRecord(SignedNoun):
    """What the run took."""

    wall_ms: int | msgspec.UnsetType = msgspec.UNSET
    cpu_ms: int | msgspec.UnsetType = msgspec.UNSET
    peak_memory_bytes: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def complete(self) -> bool:
        """Say whether it tells all three."""
        return msgspec.UNSET not in (self.wall_ms, self.cpu_ms, self.peak_memory_bytes)


class Receipt(SignedNoun):
    """What happened, as far as a verifier looks into it."""

    version: str
    run_id: RunId
    contract_hash: str
    runner: RunnerIdentity
    started_at: Timestamp
    ended_at: Timestamp
    status: Status
    events_head: str
    event_count: Count
    workspace_in: WorkspaceIn
    workspace_out: WorkspaceOut
    secrets_released: list[SecretRecord]
    network_accessed: list[NetworkRecord]
    models_used: list[ModelRecord]
    boundary_disclosures: list[DisclosureRecord]
    ending: Ending | None = None
    exit_code: int | None = None
    execution_started_at: Timestamp | None = None
    streams: dict[str, StreamView] = msgspec.field(default_factory=dict)
    enforcement: list[EnforcementRecord] = msgspec.field(default_factory=list)
    usage: UsageRecord | msgspec.UnsetType = msgspec.UNSET
    changes: dict[str, Any] = msgspec.field(default_factory=dict)
    host: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """Say whether the plane closed this run because its runner was lost."""
        return self.status == "failed" and self.ending == "lost"


class BundleKeys(Noun):
    """The public keys that travel with a bundle. They prove nothing by themselves."""

    plane_public_key_pem: str
    runner_public_key_pem: str | None = None  # absent only when the runner was lost
    org_public_key_pem: str | None = None
