"""Signing and checking signed objects: the signature is over the 64 hex digits of H(object without `signatures`).

No hash covers a signature object, so it must be exactly what the protocol says: four fields, a role that signs once,
base64 that re-encodes to itself. Does not say whether a key is trusted.
"""

from collections.abc import Mapping
from typing import Any

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, InputError
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.keys import PublicKey, Signer
from tipstaff.keys.ed25519 import decode_signature
from tipstaff.model.receipt import Role, Signature


def payload_digest(document: Mapping[str, Any]) -> str:
    """H(document without `signatures`): what is signed, and a contract's hash."""
    return digest({key: value for key, value in document.items() if key != "signatures"})


def signed(document: Mapping[str, Any], key: Signer, role: Role) -> dict[str, Any]:
    """Give `document` with one more signature."""
    return signed_as(document, payload_digest(document), key, role)


def signed_as(document: Mapping[str, Any], digest_: str, key: Signer, role: Role) -> dict[str, Any]:
    """Give `document`, whose payload the caller has just hashed, with one more signature."""
    signature = {"keyId": key.public.key_id, "alg": "ed25519", "signer": role, "sig": key.sign(digest_.encode())}
    return {**document, "signatures": [*document.get("signatures", ()), signature]}


class Seal:
    """The signatures of one object that arrived, taken apart; everything odd about their form is check 15."""

    def __init__(self, document: Mapping[str, Any], place: str, roles: tuple[Role, ...], findings: Findings) -> None:
        self._place = f"{place}.signatures"
        self._findings = findings
        self._by_role: dict[str, Signature] = {}
        self.digest = self._digest(document, place)
        raw = document.get("signatures")
        if type(raw) is not list:
            findings.add(15, "there is no list of signatures", self._place)
            return
        for index, item in enumerate(raw):
            self._take(item, f"{self._place}[{index}]", roles)

    def _digest(self, document: Mapping[str, Any], place: str) -> str:
        try:
            return payload_digest(document)
        except CanonicalError as error:
            self._findings.add(0, error.message, place)
            return ""

    def _take(self, item: Any, place: str, roles: tuple[Role, ...]) -> None:
        try:
            signature = typed(item, Signature)
        except InputError as error:
            self._findings.add(15, f"this is not a signature: {error.message}", place)
            return
        if signature.alg != "ed25519":
            self._findings.add(15, f"the algorithm {signature.alg[:32]!r} is not ed25519", place)
        elif decode_signature(signature.sig) is None:
            self._findings.add(15, "the signature is not canonical base64 of 64 bytes", place)
        elif signature.signer not in roles:
            self._findings.add(15, f"the role {signature.signer} does not sign this", place)
        elif signature.signer in self._by_role:
            self._findings.add(15, f"the role {signature.signer} signs twice", place)
        else:
            self._by_role[signature.signer] = signature

    def key_id(self, role: Role) -> str:
        """Name the key that `role` says it signed with; empty when it did not sign."""
        signature = self._by_role.get(role)
        return signature.key_id if signature else ""

    def check(self, number: int, role: Role, key: PublicKey | None) -> None:
        """Note, under `number`, everything that keeps this from being `key`'s signature as `role`."""
        signature = self._by_role.get(role)
        if signature is None:
            self._findings.add(number, f"there is no usable signature of the {role}", self._place)
        elif key is None:
            self._findings.add(number, f"there is no key to check the {role}'s signature with", self._place)
        elif signature.key_id != key.key_id:
            message = f"the {role} signed as {signature.key_id[:64]!r}, its key is {key.key_id}"
            self._findings.add(number, message, self._place)
        elif not key.verifies(self.digest.encode(), signature.sig):
            self._findings.add(number, f"the {role}'s signature does not fit the content", self._place)
