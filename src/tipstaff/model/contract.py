"""The Contract: the permission for exactly one run, and the manifest of the workspace it may work on.

These are typed views for reading; the digest is always taken over the JSON itself.
"""

from typing import Annotated, Any, Literal

import msgspec

from tipstaff.model.noun import Actor, Count, Digest, Disclosure, KeyId, SignedNoun, Timestamp

# Plain characters only: somebody will make a file's name of it.
RunId = Annotated[str, msgspec.Meta(pattern="^run_[A-Za-z0-9_-]{1,128}\\Z")]


class Issuer(SignedNoun):
    """The plane that signs."""

    key_id: KeyId
    role: Literal["plane"]


class Pool(SignedNoun):
    """Which runners may take the run."""

    pool: str


class SecretClaim(SignedNoun):
    """A secret that may be released to the run."""

    name: str
    scope: str


class ContractNetwork(SignedNoun):
    """The plain projection of the egress rules."""

    default_deny: bool
    allow_hosts: list[str]


class ContractRule(SignedNoun):
    """One way out, as far as events can be held against it; what else a rule says is the gate's business."""

    host: str
    # Of any type, so that a foreign contract still reads: whoever judges takes an odd value for the narrowest meaning.
    ports: Any = None
    methods: Any = None
    paths: Any = None
    inspect: Any = None
    ask: Any = None
    rule: Any = None


class ContractEgress(SignedNoun):
    """The egress rules, where the contract has them, and the hosts that no rule allows."""

    rules: list[ContractRule] | None = None
    deny: Any = None  # as above


class AgentClaim(SignedNoun):
    """Which agent the run is for."""

    kind: str
    version: str | None = None


class Task(SignedNoun):
    """What the agent is asked."""

    prompt: str


class ManifestFile(SignedNoun):
    """One file, by content."""

    path: str
    hash: Digest
    bytes: Count


class CommitClaim(SignedNoun):
    """A commit without its history, as a pack of its objects."""

    commit: str
    pack_hash: Digest


class Manifest(SignedNoun):
    """A captured workspace: a git repository, or (`kind: tree`) any folder. Both carry a `baseRef`."""

    version: str
    base_ref: str
    kind: Literal["git", "tree"] | None = None  # a missing one means git
    bundle_hash: Digest | None = None  # git only: the bundle of the history
    dirty_diff_hash: Digest | None = None
    untracked_files: list[ManifestFile] | None = None
    tree_hash: Digest | None = None  # tree only: the list of files, as a blob
    packs: list[Digest] | None = None  # tree only: the contents of the files, as blobs, where they travel
    git: CommitClaim | None = None  # tree only: the commit that a repository inside stands at
    denied_patterns: list[str] | None = None
    denied_paths: list[str] | None = None


class Contract(SignedNoun):
    """The permission for one run, as far as a verifier looks into it."""

    version: str
    run_id: RunId
    issued_at: Timestamp
    issuer: Issuer
    requested_by: Actor
    agent: AgentClaim
    task: Task
    runner: Pool
    workspace: Manifest
    policy_hash: Digest
    secrets: list[SecretClaim]
    network: ContractNetwork
    budget: dict[str, Any]
    disclosure: Disclosure
    expires_at: Timestamp
    approved_by: list[Actor] | None = None
    execution: dict[str, Any] | None = None
    egress: ContractEgress | None = None
    isolation: str | None = None
    minimum_tier: str | None = None
