"""Approvals: one person's signed word on one contract.

The signature is over the 64 hex digits of H(approval without `sig`), by the approver's own key: in a file, in an
ssh-agent, or in hardware behind one. The plane vouches for what it put into the chain; the approver's own signature is
proof against the plane as well, where the approver's key is known.
"""

from typing import Any

from tipstaff.canonical import digest
from tipstaff.errors import InputError, SigningKeyError
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.evidence.trust import Trust
from tipstaff.keys import PublicKey, Signer
from tipstaff.model.decision import Assurance
from tipstaff.model.events import ConsentGranted
from tipstaff.model.noun import VERSION_APPROVAL, Actor, to_wire
from tipstaff.model.records import Approval


def approve(contract_hash: str, actor: Actor, key: Signer, assurance: Assurance, expires_at: str) -> dict[str, Any]:
    """Sign an approval of the contract with this hash."""
    document = {
        "version": VERSION_APPROVAL,
        "contractHash": contract_hash,
        "actor": to_wire(actor),
        "keyId": key.public.key_id,
        "assurance": assurance,
        "expiresAt": expires_at,
        "publicKeyPem": key.public.pem,
    }
    return {**document, "sig": key.sign(digest(document).encode())}


class ApprovalCheck:
    """Check 24 for the approvals of one contract."""

    def __init__(self, contract_hash: str, claimed_at: str, trust: Trust, findings: Findings) -> None:
        self._contract_hash = contract_hash
        self._claimed_at = claimed_at
        self._trust = trust
        self._findings = findings

    def check(self, consent: ConsentGranted, granted_at: str, place: str) -> list[str]:
        """Check one approval; gives what a reader should know besides."""
        if (raw := consent.approval) is None:
            return [f"{place}: {consent.actor.id!r} approved without a signature: the plane alone vouches for it"]
        try:
            approval = typed(raw, Approval)
            signed_digest = digest({key: value for key, value in raw.items() if key != "sig"})
            carried = approval.public_key_pem
            key = self._trust.approver_key(approval.key_id) if carried is None else PublicKey.parse(carried)
        except (InputError, SigningKeyError) as error:  # CanonicalError is an InputError
            self._findings.add(24, f"the approval is malformed: {error.message}", place)
            return []
        used_at = max(granted_at, self._claimed_at)
        for fault in _faults(approval, consent, used_at, self._contract_hash):
            self._findings.add(24, fault, place)
        if key is None:
            return [f"{place}: the approval by {approval.actor.id!r} carries no key: the plane alone vouches for it"]
        if key.key_id != approval.key_id or not key.verifies(signed_digest.encode(), approval.sig):
            self._findings.add(24, "the approver's signature does not fit the approval", place)
        return self._known(key, approval.actor.id, granted_at, place)

    def _known(self, key: PublicKey, actor: str, granted_at: str, place: str) -> list[str]:
        known, fault = self._trust.approver(key, actor, granted_at)
        if fault:
            self._findings.add(24, f"the approver's key {key.key_id} {fault}", place)
        return [] if known else [f"{place}: the key of {actor!r} is not known: the plane alone vouches for it"]


def _faults(approval: Approval, consent: ConsentGranted, used_at: str, contract_hash: str) -> list[str]:
    rules = (
        (approval.version == VERSION_APPROVAL, f"the approval's version is not {VERSION_APPROVAL}"),
        (approval.contract_hash == contract_hash, "the approval is for another contract"),
        (approval.actor == consent.actor, "the approval is by another actor than the event names"),
        (used_at <= approval.expires_at, "the approval had expired when the run was claimed"),
    )
    return [message for holds, message in rules if not holds]
