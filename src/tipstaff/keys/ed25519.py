"""Ed25519 by `cryptography`: public keys as SPKI PEM, private keys as PKCS8 PEM, signatures as standard base64.

A key is its 32 bytes. The protocol's key id hashes the PEM *text*, so a public key is always spelled anew in one
form (LF, one newline at the end) before it is named; two keys are the same only if their bytes are, never because
their 64-bit ids are.
"""

import base64
import binascii
import hashlib
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

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
# How X.509 and PKCS8 wrap the 32 bytes of an Ed25519 key (RFC 8410): always the same. What we spell ourselves is read
# and written by this; every other form is left to `cryptography`, whose reader of all forms is slow to import.
SPKI = bytes.fromhex("302a300506032b6570032100")
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")
RAW_BYTES = 32
PEM_LINES = 3
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
        self.pem = _armoured(SPKI + raw, "PUBLIC KEY")
        self.key_id = "ed25519:" + hashlib.sha256(self.pem.strip().encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """Read SPKI PEM, or the one line of an OpenSSH public key."""
        if len(text) > MAX_PEM_CHARACTERS:
            raise SigningKeyError("this is too long for a public key", hint="give an Ed25519 key as PEM")
        return _parsed(text)

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
        self.public = PublicKey(key.public_key().public_bytes_raw())

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
        if passphrase is None and (seed := _plain(data, PKCS8, "PRIVATE KEY")) is not None:
            return cls.from_seed(seed)
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - see SPKI

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
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see SPKI
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def sign(self, message: bytes) -> str:
        """Sign `message`; standard base64."""
        return base64.b64encode(self._key.sign(message)).decode("ascii")

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.key_id})"


@lru_cache(maxsize=64)  # a run's documents name the same two or three keys again and again
def _parsed(text: str) -> PublicKey:
    if (raw := _plain(text.strip().encode(errors="replace"), SPKI, "PUBLIC KEY")) is not None:
        return PublicKey(raw)
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see SPKI
        load_pem_public_key,
        load_ssh_public_key,
    )

    try:
        data = text.strip().encode("ascii")
        key = load_ssh_public_key(data) if data.startswith(b"ssh-") else load_pem_public_key(data)
    except (ValueError, UnicodeEncodeError, UnsupportedAlgorithm) as error:
        raise SigningKeyError("this is not a public key", hint="give an Ed25519 key as PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyError("this public key is not an Ed25519 key", hint="make one with: tipstaff keys new NAME")
    return PublicKey(key.public_bytes_raw())


def _armoured(der: bytes, label: str) -> str:
    """Spell an Ed25519 key as PEM: so short that it is one line."""
    return f"-----BEGIN {label}-----\n{base64.b64encode(der).decode('ascii')}\n-----END {label}-----\n"


def _plain(data: bytes, prefix: bytes, label: str) -> bytes | None:
    """Take a key out of PEM that is spelled exactly as we spell it; None for any other, which may still be a key."""
    lines = data.strip().split(b"\n")
    try:
        der = base64.b64decode(lines[1], validate=True) if len(lines) == PEM_LINES else b""
    except binascii.Error:
        return None
    raw = der[len(prefix) :]
    is_ours = len(raw) == RAW_BYTES and data.strip() == _armoured(prefix + raw, label).strip().encode()
    return raw if is_ours else None


def decode_signature(signature: str) -> bytes | None:
    """Decode base64 of 64 bytes that re-encodes to itself; None for anything else."""
    try:
        data = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(data) != SIGNATURE_BYTES or base64.b64encode(data).decode("ascii") != signature:
        return None
    return data
