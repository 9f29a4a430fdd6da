"""The key of the encrypted store, and what it does: seal a value together with what it must stay together with.

The key is 32 random bytes in `secrets.key`, made when the first secret is set and never written over. It is read only
while it is a private file with one name. A value that does not open is None, whatever was changed.
"""

import base64
import binascii
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.errors import SecretError
from tipstaff.secrets.private import read_private, write_private

FILE: Final = "secrets.key"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
MAX_BYTES: Final = 1024

_HEADER: Final = b"tipstaff.secrets-key.v1 "
_RESTORE: Final = "restore it from a backup: without it no value in secrets.sealed can be read"


class Key:
    """A key that seals and opens."""

    __slots__ = ("_cipher", "id")

    def __init__(self, raw: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415 - slow to import

        self._cipher = ChaCha20Poly1305(raw)
        self.id = sha256(_HEADER + raw).hexdigest()[:16]

    def seal(self, value: bytes, bound: list[Any]) -> tuple[bytes, bytes]:
        """Seal `value` together with `bound`: a fresh nonce, and what is sealed."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce, self._cipher.encrypt(nonce, value, msgspec.json.encode(bound))

    def unseal(self, nonce: bytes, sealed: bytes, bound: list[Any]) -> bytes | None:
        """Give the value back, or None when it, or what it was sealed with, is not the same."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        try:
            return self._cipher.decrypt(nonce, sealed, msgspec.json.encode(bound))
        except (InvalidTag, ValueError):  # ValueError: a nonce of another length
            return None


def load_key(home: Path) -> Key | None:
    """Read the key of a home, or None where there is none."""
    path = home / FILE
    key = _parsed(read_private(path, MAX_BYTES, alone=True))
    if isinstance(key, str):
        raise SecretError(f"{path} {key}", hint=_RESTORE)
    return key


def make_key(folder: int) -> Key:
    """Make the key of a home that has none; the caller holds the lock and has looked."""
    raw = os.urandom(KEY_BYTES)
    write_private(folder, FILE, _HEADER + base64.b64encode(raw) + b"\n")
    return Key(raw)


def _parsed(data: bytes | None) -> Key | str | None:
    """Read a key file's content; a text says what is wrong with it, and no frame of it is left for a traceback."""
    if data is None:
        return None
    if not data.startswith(_HEADER):
        newer = data.startswith(_HEADER.partition(b".v")[0])
        return "is of another version of Tipstaff" if newer else "is damaged, or not a key"
    try:
        raw = base64.b64decode(data.removeprefix(_HEADER).removesuffix(b"\n"), validate=True)
    except binascii.Error:
        return "is damaged"
    return Key(raw) if len(raw) == KEY_BYTES else "is damaged"
