"""Approvals: one person's signed word on one contract, or on one place that its run asked to reach.

The signature is over the 64 hex digits of H(approval without `sig`), by the approver's own key: in a file, in an
ssh-agent, or in hardware behind one. The plane vouches for what it put into the chain; the approver's own signature is
proof against the plane as well, where the approver's key is known.
"""

from typing import Any, Final

from tipstaff.canonical import digest
from tipstaff.errors import InputError, SigningKeyError
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.evidence.trust import Trust
from tipstaff.keys import PublicKey, Signer
from tipstaff.model.decision import Assurance
from tipstaff.model.events import ConsentGranted
from tipstaff.model.noun import VERSION_APPROVAL, Actor, to_wire
from tipstaff.model.records import Approval, Place

SHOWN_CHARACTERS: Final = 64


def approve(
    contract_hash: str, actor: Actor, key: Signer, assurance: Assurance, expires_at: str, **more: Any
) -> dict[str, Any]:
    """Sign an approval of the contract with this hash; with a `question`, only of what that run asks there."""
    document = {
        "version": VERSION_APPROVAL,
        "contractHash": contract_hash,
        "actor": to_wire(actor),
        "keyId": key.public.key_id,
        "assurance": assurance,
        "expiresAt": expires_at,
        "publicKeyPem": key.public.pem,
        **more,
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
        """Check one approval of the run; gives what a reader should know besides."""
        if (raw := consent.approval) is None:
            return [f"{place}: {consent.actor.id!r} approved without a signature: the plane alone vouches for it"]
        if (approval := self._read(raw, place)) is None:
            return []
        for fault in _faults(approval, consent, max(granted_at, self._claimed_at)):
            self._findings.add(24, fault, place)
        return self._signed(approval, raw, granted_at, place)

    def check_question(self, raw: Any, wanted: Place, used_at: str, place: str) -> list[str]:
        """Check the approval of a place that the run had to ask for; gives what a reader should know besides."""
        if type(raw) is not dict:
            self._findings.add(24, f"{_spelled(wanted)} must be asked for, and was reached without an approval", place)
            return []
        if (approval := self._read(raw, place)) is None:
            return []
        if approval.question != wanted:
            asked = f"for {_spelled(approval.question)}" if approval.question else "for the run"
            self._findings.add(24, f"the approval is {asked}, not for {_spelled(wanted)}", place)
        if approval.public_key_pem is None:
            self._findings.add(24, "the approval carries no key, and its signature cannot be checked", place)
        if approval.expires_at < self._claimed_at:
            self._findings.add(24, "the approval had expired when the run was claimed", place)
        return self._signed(approval, raw, used_at, place)

    def _read(self, raw: dict[str, Any], place: str) -> Approval | None:
        """Read an approval, which must be of our version and for this contract."""
        try:
            approval = typed(raw, Approval)
        except InputError as error:
            self._findings.add(24, f"the approval is malformed: {error.message}", place)
            return None
        if approval.version != VERSION_APPROVAL:
            self._findings.add(24, f"the approval's version is not {VERSION_APPROVAL}", place)
        if approval.contract_hash != self._contract_hash:
            self._findings.add(24, "the approval is for another contract", place)
        return approval

    def _signed(self, approval: Approval, raw: dict[str, Any], when: str, place: str) -> list[str]:
        """Check the signature, and whose it is."""
        carried = approval.public_key_pem
        try:
            signed_digest = digest({name: value for name, value in raw.items() if name != "sig"})
            key = self._trust.approver_key(approval.key_id) if carried is None else PublicKey.parse(carried)
        except (InputError, SigningKeyError) as error:  # CanonicalError is an InputError
            self._findings.add(24, f"the approval is malformed: {error.message}", place)
            return []
        if key is None:
            return [f"{place}: the approval by {approval.actor.id!r} carries no key: the plane alone vouches for it"]
        if key.key_id != approval.key_id or not key.verifies(signed_digest.encode(), approval.sig):
            self._findings.add(24, "the approver's signature does not fit the approval", place)
        return self._known(key, approval.actor.id, when, place)

    def _known(self, key: PublicKey, actor: str, granted_at: str, place: str) -> list[str]:
        known, fault = self._trust.approver(key, actor, granted_at)
        if fault:
            self._findings.add(24, f"the approver's key {key.key_id} {fault}", place)
        return [] if known else [f"{place}: the key of {actor!r} is not known: the plane alone vouches for it"]


def _faults(approval: Approval, consent: ConsentGranted, used_at: str) -> list[str]:
    rules = (
        (approval.question is None, "the approval is for one question of the run, not for the run"),
        (approval.actor == consent.actor, "the approval is by another actor than the event names"),
        (used_at <= approval.expires_at, "the approval had expired when the run was claimed"),
    )
    return [message for holds, message in rules if not holds]


def _spelled(place: Place) -> str:
    return f"{place.host[:SHOWN_CHARACTERS]!r} port {place.port} (rule {place.rule[:SHOWN_CHARACTERS]!r})"
