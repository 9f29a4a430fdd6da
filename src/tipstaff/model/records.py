"""The other things that are signed: a Refusal, an Approval, and the Journal that chains everything."""

from typing import Annotated, Literal

import msgspec

from tipstaff.model.decision import Assurance
from tipstaff.model.noun import Actor, Count, Digest, KeyId, SignedNoun, Timestamp


class Refusal(SignedNoun):
    """A denial is evidence too."""

    version: str
    id: str
    ts: Timestamp
    request_hash: Digest
    policy_hash: Digest
    principal: str
    door: str
    rules: Annotated[list[str], msgspec.Meta(min_length=1)]
    reasons: list[str]


class Place(SignedNoun):
    """Where a run at work wants to go, and the policy's rule that says `ask`."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    rule: Annotated[str, msgspec.Meta(max_length=512)] = ""


class Approval(SignedNoun):
    """One person's word on one contract, or on one question of its run; `sig` is over H(approval without sig)."""

    version: str
    contract_hash: Digest
    actor: Actor
    key_id: KeyId
    assurance: Assurance
    expires_at: Timestamp
    sig: str
    public_key_pem: str | None = None
    question: Place | None = None  # then it says yes to this alone, and not to the run


class JournalEntry(SignedNoun):
    """One line of the journal; `hash` covers everything else."""

    seq: Count
    prev: Digest
    ts: Timestamp
    kind: Literal["refusal", "contract", "receipt"]
    digest: Digest
    hash: Digest


class JournalHead(SignedNoun):
    """The journal's last entry, signed by the plane."""

    seq: Count
    hash: Digest
    ts: Timestamp


class Checkpoint(SignedNoun):
    """How far the plane has seen a run's chain, signed by the plane."""

    version: str
    run_id: str
    contract_hash: Digest
    event_count: Count
    events_head: Digest
    ts: Timestamp
