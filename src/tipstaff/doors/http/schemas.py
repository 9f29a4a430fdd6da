"""The bodies and replies of the wire, for its description: names and types as they are sent.

Nothing is read through these: runners' bodies are the plane's to read, requests are the model's, and a peer of another
version may send fields that are not here, which are ignored.
"""

from typing import Annotated, Any, Literal

import msgspec

Json = dict[str, Any]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Base64 = Annotated[str, msgspec.Meta(description="base64")]
Status = Literal[
    "created", "claimed", "provisioning", "running", "awaiting_approval", "completed", "failed", "cancelled"
]
Role = Literal["admin", "requester", "approver", "enroller", "auditor"]
Kind = Literal["human", "service"]


class Said(msgspec.Struct, rename="camel", omit_defaults=True):
    """The root of all: camelCase on the wire."""


class Anything(Said):
    """An object whose fields depend on what was asked."""


class Problem(Said):
    """What is wrong, in one sentence; `code` for programs."""

    error: str
    code: str = ""
    reasons: list[str] = []
    issues: list[str] = []


class Denied(Problem):
    """Policy said no: by which rules, and the signed refusal."""

    rules: list[str] = []
    policy: str = ""
    refusal: Json = {}


class Health(Said):
    """The plane is there."""

    ok: bool
    service: Literal["tipstaff-plane"]


class Ready(Said):
    """Whether the plane can take requests now."""

    ready: bool


class PublicKey(Said):
    """A key that the plane signs with."""

    key_id: str
    public_key_pem: str
    role: Literal["plane"]


class Keys(Said):
    """The plane's keys."""

    keys: list[PublicKey]


class Enroll(Said):
    """A runner's first word."""

    enroll_token: str
    public_key_pem: str
    pool: str
    labels: list[str] = []


class Enrolled(Said):
    """What a runner keeps."""

    runner_id: str
    runner_token: str
    pool: str = ""
    plane_public_key_pem: str = ""
    plane_key_id: str = ""


class ClaimWish(Said):
    """What a runner takes."""

    runner_token: str
    pool: str = ""
    knows: list[str] = []
    tiers: list[str] = []
    labels: list[str] = []
    wait_ms: Annotated[int, msgspec.Meta(ge=0, description="at most 30000 are waited")] = 0
    nonce: Annotated[str, msgspec.Meta(description="16 to 64 hexadecimal digits, signed with the plane's time")] = ""
    holding: list[str] = []


class Secret(Said):
    """A secret that was released to a run."""

    name: str
    value: str


class Claimed(Said):
    """A run for the runner, or `empty`."""

    empty: bool = False
    drain: bool = False
    run_id: str = ""
    contract: Json = {}
    claim_token: str = ""
    events: list[Json] = []
    secrets: list[Secret] = []
    attempt: int = 0
    lease_ms: int = 0
    offers: list[str] = []
    proof: Json = {}


class Held(Said):
    """The claim that a runner holds."""

    claim_token: str


class Events(Held):
    """Events of a run; `release` lets its command go."""

    events: list[Json]
    release: bool = False
    blobs: list[Base64] = []


class Log(Held):
    """A part of what a run prints."""

    stream: Literal["stdout", "stderr"]
    offset: Annotated[int, msgspec.Meta(ge=0)]
    data: Base64


class Ask(Held):
    """A place that a run wants to reach."""

    host: str
    port: int
    rule: str = ""
    give_up: bool = False


class Complete(Held):
    """How a run ended."""

    receipt: Json
    events: list[Json] = []
    blobs: list[Base64] = []


class Taken(Said):
    """It is kept; `cancel` is who wants the run stopped."""

    ok: bool
    cancel: Json = {}


class Appended(Taken):
    """Events were kept; the checkpoint signs how far."""

    checkpoint: Json = {}


class Renewed(Said):
    """The next claim token; the one before is void."""

    claim_token: str
    lease_ms: int
    cancel: Json = {}


class Completed(Said):
    """The receipt, countersigned."""

    receipt: Json


class DrainSelf(Said):
    """A runner's wish for no more runs."""

    runner_token: str
    drain: bool


class Drained(Said):
    """Whether a runner is given no more runs."""

    runner_id: str
    drain: bool


class Submit(Said):
    """A request for a run; with `dryRun` nothing is kept."""

    request: Json
    dry_run: bool = False


class Submitted(Said):
    """What became of a request; a dry run's report has other fields."""

    run_id: str = ""
    status: str = ""
    consent_requirements: list[str] = []
    requirements: list[Json] = []
    contract_hash: str = ""
    requested_by: Json = {}
    decision: str = ""
    policy: str = ""
    rules: list[str] = []
    reasons: list[str] = []


class Line(Said):
    """A run, or a refused request, in short."""

    id: str = ""
    run_id: str = ""
    refusal_id: str = ""
    status: str = ""
    agent_kind: str = ""
    pool: str = ""
    prompt: str = ""
    requested_by: Json = {}
    created_at: str = ""
    updated_at: str = ""
    consent_requirements: list[str] = []
    requirements: list[Json] = []
    has_receipt: bool = False


class Runs(Said):
    """A page of runs, newest first; `next` goes into `before`."""

    runs: list[Line]
    next: str = ""


class Run(Line):
    """Everything about one run."""

    contract: Json = {}
    contract_hash: str = ""
    events: list[Json] = []
    receipt: Json = {}
    refusal: Json = {}
    failure_message: str = ""
    position: int = 0


class Word(Said):
    """A person's word. Who says it is known by the token."""

    reason: str = ""
    approval: Json = {}


class Answered(Said):
    """What became of a run by somebody's word."""

    run_id: str
    status: str = ""


class Approvals(Said):
    """What waits for people."""

    waiting: list[Json]
    questions: list[Json]


class Names(Said):
    """Ids that begin as asked."""

    names: list[str]


class Blob(Said):
    """The digest of what was kept."""

    hash: Digest


class Policy(Said):
    """The policy that holds here."""

    policy: Json
    policy_hash: Digest


class Principal(Said):
    """Who may ask this plane for something."""

    principal_id: str = ""
    name: str = ""
    role: str = ""
    kind: str = ""
    token: Annotated[str, msgspec.Meta(description="only in the reply that makes it")] = ""


class Principals(Said):
    """All of them."""

    principals: list[Principal]


class NewPrincipal(Said):
    """Somebody to be known."""

    name: str
    role: Role
    kind: Kind = "human"


class EnrollTokenWish(Said):
    """For which pool, for how long."""

    pool: str = ""
    expires_seconds: Annotated[int, msgspec.Meta(ge=1)] = 3600


class EnrollToken(Said):
    """A token for one enrolment."""

    token: str
    expires_at: str
    pool: str = ""


class Runner(Said):
    """A runner that is enrolled."""

    runner_id: str
    pool: str = ""
    key_id: str = ""
    enrolled_at: str = ""
    last_seen_at: str = ""
    labels: list[str] = []
    drain: bool = False
    holding: list[str] = []


class Runners(Said):
    """All of them."""

    runners: list[Runner]


class Drain(Said):
    """Whether a runner is to be given no more runs."""

    drain: bool


class Metrics(Said):
    """Numbers, by name."""

    metrics: Json
