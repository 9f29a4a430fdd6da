"""What may stand in the chain: the event types, and which side may author each.

An event is a tagged struct on `type`. Fields that a newer writer adds are covered by the hash and ignored here; a
type that is not listed cannot be judged by this version, and verification says so instead of guessing.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from tipstaff.model.noun import Actor, Digest, KeyId, SignedNoun

FailureClass = Literal[
    "policy_denied",
    "consent_timeout",
    "capability_mismatch",
    "attestation_failed",
    "secret_release_denied",
    "capture_failed",
    "transfer_failed",
    "session_failed",
    "side_effect_conflict",
    "budget_exceeded",
    "runner_lost",
]
Author = Literal["plane", "runner", "either"]
ExitCode = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32)]


class RunCreated(SignedNoun, tag_field="type", tag="run.created"):
    """The plane took the request in."""


class RunClaimed(SignedNoun, tag_field="type", tag="run.claimed"):
    """A runner took the run."""

    runner_id: str
    runner_key_id: KeyId


class RunRequeued(SignedNoun, tag_field="type", tag="run.requeued"):
    """A lease was lost before the command was released."""


class PolicyEvaluated(SignedNoun, tag_field="type", tag="policy.evaluated"):
    """The decision, as the plane made it."""

    decision: Literal["allow", "ask"]
    reason: str


class ConsentRequested(SignedNoun, tag_field="type", tag="consent.requested"):
    """Somebody must approve."""

    requirement: str


class ConsentGranted(SignedNoun, tag_field="type", tag="consent.granted"):
    """Somebody approved; `approval` is the signed form, where there is one."""

    actor: Actor
    approval: dict[str, Any] | None = None


class SecretReleased(SignedNoun, tag_field="type", tag="secret.released"):
    """A secret went to the runner."""

    name: str
    scope: str


class WorkspaceMaterialized(SignedNoun, tag_field="type", tag="workspace.materialized"):
    """The workspace stands as the manifest says."""

    manifest_hash: Digest


class CommandExecuted(SignedNoun, tag_field="type", tag="command.executed"):
    """The command ran."""

    argv_hash: Digest
    exit_code: ExitCode


class FileChanged(SignedNoun, tag_field="type", tag="file.changed"):
    """A file differs from the manifest's; 64 zeros when it is gone."""

    path: str
    content_hash: Digest


class NetworkConnected(SignedNoun, tag_field="type", tag="network.connected"):
    """The sandbox asked for a host."""

    host: str
    decision: Literal["allowed", "blocked"]
    # Held against the rules of the contract, where it has some.
    port: Any = None
    rule: Any = None
    approval: Any = None  # of the question whether this place may be reached


class ModelCalled(SignedNoun, tag_field="type", tag="model.called"):
    """A model answered."""

    provider: str
    model: str


class BoundaryCrossed(SignedNoun, tag_field="type", tag="boundary.crossed"):
    """Content crossed the runner's boundary."""

    direction: Literal["out", "in"]
    content_hash: Digest
    data_class: str


class ArtifactCreated(SignedNoun, tag_field="type", tag="artifact.created"):
    """A blob was kept."""

    kind: Literal["diff", "log", "file", "bundle", "trace"]
    hash: Digest


class CheckpointCreated(SignedNoun, tag_field="type", tag="checkpoint.created"):
    """A state that can be continued from."""

    checkpoint_id: str
    tier: str


class RunCompleted(SignedNoun, tag_field="type", tag="run.completed"):
    """The run ended well."""


class RunFailed(SignedNoun, tag_field="type", tag="run.failed"):
    """The run ended badly, for a reason that has a name."""

    failure: FailureClass
    message: str


class RunCancelled(SignedNoun, tag_field="type", tag="run.cancelled"):
    """Somebody stopped the run."""

    actor: Actor


Event = (
    RunCreated
    | RunClaimed
    | RunRequeued
    | PolicyEvaluated
    | ConsentRequested
    | ConsentGranted
    | SecretReleased
    | WorkspaceMaterialized
    | CommandExecuted
    | FileChanged
    | NetworkConnected
    | ModelCalled
    | BoundaryCrossed
    | ArtifactCreated
    | CheckpointCreated
    | RunCompleted
    | RunFailed
    | RunCancelled
)

AUTHORS: Final[dict[type[Event], Author]] = {
    RunCreated: "plane",
    RunClaimed: "plane",
    RunRequeued: "plane",
    PolicyEvaluated: "plane",
    ConsentRequested: "plane",
    ConsentGranted: "plane",
    SecretReleased: "plane",
    WorkspaceMaterialized: "runner",
    CommandExecuted: "runner",
    FileChanged: "runner",
    NetworkConnected: "runner",
    ModelCalled: "runner",
    BoundaryCrossed: "runner",
    ArtifactCreated: "runner",
    CheckpointCreated: "runner",
    RunCompleted: "runner",
    RunFailed: "either",  # the plane closes a run whose runner was lost
    RunCancelled: "either",
}
KINDS: Final[dict[str, type[Event]]] = {str(kind.__struct_config__.tag): kind for kind in AUTHORS}
ENDINGS: Final = {RunCompleted: "completed", RunFailed: "failed", RunCancelled: "cancelled"}
