"""Ed25519 by `cryptography`: public keys as SPKI PEM, private keys as PKCS8 PEM, signatures as standard base64.

A key is its 32 bytes. The protocol's key id hashes the PEM *text*, so a public key is always spelled anew in one
form (LF, one newline at the end) before it is named; two keys are the same only if their bytes are, never because
their 64-bit ids are.
"""

import base64
import binascii
import hashlib
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_public_key,
)

from tipstaff.errors import SigningKeyError

SIGNATURE_BYTES = 64
SIGN_BIT = 0x80
# The points whose order divides 8, without their sign bit: with such a "key" one signature fits many messages, so that
# its owner could deny what was signed. A test computes them.
SMALL_ORDER = frozenset(
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
MAX_PEM_CHARACTERS = 16_384  # no Ed25519 key in any form is near this long


class Signer(Protocol):
    """Whatever can sign: a private key in memory, or one in an ssh-agent."""

    @property
    def public(self) -> "PublicKey":
        """The public half."""

    def sign(self, message: bytes) -> str:
        """Sign `message`; standard base64."""


class PublicKey:
    """The public half of an Ed25519 key."""

    __slots__ = ("_key", "key_id", "pem", "raw")

    def __init__(self, raw: bytes) -> None:
        if raw[:-1] + bytes([raw[-1] & ~SIGN_BIT]) in SMALL_ORDER:
            raise SigningKeyError("this public key is a point of small order: its signatures would prove nothing")
        self._key = Ed25519PublicKey.from_public_bytes(raw)
        self.raw = raw
        self.pem = self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
        self.key_id = "ed25519:" + hashlib.sha256(self.pem.strip().encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """Read SPKI PEM, or the one line of an OpenSSH public key."""
        if len(text) > MAX_PEM_CHARACTERS:
            raise SigningKeyError("this is too long for a public key", hint="give an Ed25519 key as PEM")
        try:
            data = text.strip().encode("ascii")
            key = load_ssh_public_key(data) if data.startswith(b"ssh-") else load_pem_public_key(data)
        except (ValueError, UnicodeEncodeError, UnsupportedAlgorithm) as error:
            raise SigningKeyError("this is not a public key", hint="give an Ed25519 key as PEM") from error
        if not isinstance(key, Ed25519PublicKey):
            raise SigningKeyError("this public key is not an Ed25519 key", hint="make one with: tipstaff keys new NAME")
        return cls(key.public_bytes(Encoding.Raw, PublicFormat.Raw))

    def verifies(self, message: bytes, signature: str) -> bool:
        """Say whether `signature`, in base64 that re-encodes to itself, is this key's on `message`."""
        data = decode_signature(signature)
        if data is None:
            return False
        try:
            self._key.verify(data, message)
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"PublicKey({self.key_id})"


class PrivateKey:
    """A private key in memory. Its `repr` shows the key id only."""

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @classmethod
    def generate(cls) -> "PrivateKey":
        """Make a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "PrivateKey":
        """Make the key that belongs to 32 given bytes: for vectors and tests."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def parse(cls, data: bytes, passphrase: bytes | None = None) -> "PrivateKey":
        """Read PKCS8 PEM, encrypted or not."""
        try:
            key = load_pem_private_key(data, passphrase)
        except TypeError as error:  # cryptography's word for: encrypted without, or plain with, a passphrase
            wanted = "is encrypted: its passphrase is needed" if passphrase is None else "is not encrypted"
            raise SigningKeyError(f"this private key {wanted}") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            reason = "its passphrase is wrong, or it is damaged" if passphrase else "it is damaged, or no PKCS8 PEM"
            raise SigningKeyError(f"this private key cannot be read: {reason}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SigningKeyError("this private key is not Ed25519", hint="make one with: tipstaff keys new NAME")
        return cls(key)

    def pem(self, passphrase: bytes | None = None) -> bytes:
        """Spell the key as PKCS8 PEM, encrypted when a passphrase is given."""
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def sign(self, message: bytes) -> str:
        """Sign `message`; standard base64."""
        return base64.b64encode(self._key.sign(message)).decode("ascii")

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.key_id})"


def decode_signature(signature: str) -> bytes | None:
    """Decode base64 of 64 bytes that re-encodes to itself; None for anything else."""
    try:
        data = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) != SIGNATURE_BYTES or base64.b64encode(data).decode("ascii") != signature:
        return None
    return data
