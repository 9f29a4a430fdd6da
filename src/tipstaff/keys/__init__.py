"""Ed25519 keys: make, load, sign, verify, key ids; which keys are known, and since when.

The parts: `ed25519` (the mathematics and PEM), `files` (private keys on disk), `known` (the known-keys file),
`agent` (keys that live in an ssh-agent). Nothing here decides what a signature means.
"""

from tipstaff.keys.ed25519 import PrivateKey, PublicKey, Signer
from tipstaff.keys.known import KnownKey, KnownKeys

__all__ = ["KnownKey", "KnownKeys", "PrivateKey", "PublicKey", "Signer"]
