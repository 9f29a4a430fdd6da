"""The known-keys file: which public keys are trusted, in which role, from when until when.

Rotation leaves old receipts valid as of their time: a signature counts if it is dated inside the key's validity.
Whoever holds a revoked key can date a signature back, so `revokedAt` is the time since when it is not trusted, and
may be set as early as needed. The file is JSON, strict, written whole; a damaged one is an error, never an empty one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from tipstaff.errors import InputError, NotFoundError, SigningKeyError
from tipstaff.keys.ed25519 import PublicKey
from tipstaff.keys.trust_files import RESTORE, locked, read_trust_file, write_trust_file
from tipstaff.model.noun import Noun, Timestamp

Role = Literal["org", "plane", "runner", "approver"]
VERSION: Final = "tipstaff.known-keys.v1"


class KnownKey(Noun):
    """One trusted key."""

    public_key_pem: str
    role: Role
    name: str = ""
    not_before: Timestamp | None = None
    not_after: Timestamp | None = None
    revoked_at: Timestamp | None = None

    @property
    def public(self) -> PublicKey:
        """The key itself."""
        return PublicKey.parse(self.public_key_pem)

    def fault_at(self, when: str) -> str:
        """Say why a signature dated `when` does not count, or nothing."""
        if self.revoked_at is not None and when >= self.revoked_at:
            return f"was revoked at {self.revoked_at}, and this is dated {when}"
        if self.not_before is not None and when < self.not_before:
            return f"is valid from {self.not_before} only, and this is dated {when}"
        if self.not_after is not None and when > self.not_after:
            return f"was valid until {self.not_after}, and this is dated {when}"
        return ""


class _File(Noun):
    version: Literal["tipstaff.known-keys.v1"]
    keys: tuple[KnownKey, ...]


class KnownKeys:
    """All trusted keys; a value: `trust` and `revoke` give a new one."""

    __slots__ = ("_by_id", "_by_raw", "entries")

    def __init__(self, entries: tuple[KnownKey, ...] = ()) -> None:
        self.entries = entries
        keys = [entry.public for entry in entries]
        self._by_raw = {(key.raw, entry.role): entry for key, entry in zip(keys, entries, strict=True)}
        self._by_id = {(key.key_id, entry.role): key for key, entry in zip(keys, entries, strict=True)}

    def find(self, public: PublicKey, role: Role) -> KnownKey | None:
        """Find a key by its bytes, in one role."""
        return self._by_raw.get((public.raw, role))

    def by_id(self, key_id: str, role: Role) -> PublicKey | None:
        """Find a key by its id, in one role."""
        return self._by_id.get((key_id, role))

    def trust(self, entry: KnownKey) -> "KnownKeys":
        """Add an entry; one for the same key and role is replaced. A key that is revoked in any role is refused."""
        key = entry.public
        for role in get_args(Role):
            other = self.find(key, role)
            if other is not None and other.revoked_at is not None:
                raise InputError(
                    f"key {key.key_id} was revoked at {other.revoked_at}", hint="a revoked key stays revoked"
                )
        old = self.find(key, entry.role)
        return KnownKeys((*(other for other in self.entries if other is not old), entry))

    def revoke(self, key_id: str, when: str) -> "KnownKeys":
        """Stop trusting a key from `when` on; an earlier revocation stands."""
        if not any(entry.public.key_id == key_id for entry in self.entries):
            raise NotFoundError(f"no known key has the id {key_id}", hint="see: tipstaff keys list")
        return KnownKeys(
            tuple(_revoked(entry, when) if entry.public.key_id == key_id else entry for entry in self.entries)
        )


def _revoked(entry: KnownKey, when: str) -> KnownKey:
    return msgspec.structs.replace(entry, revoked_at=min(when, entry.revoked_at or when))


def read_known_keys(path: Path) -> KnownKeys:
    """Read the file; none there means that no key is known."""
    data = read_trust_file(path, "add a key of theirs")
    if data is None:
        return KnownKeys()
    try:
        entries = msgspec.json.decode(data, type=_File).keys
        known = KnownKeys(entries)
    except (msgspec.DecodeError, UnicodeDecodeError, SigningKeyError) as error:
        raise InputError(f"{path} is damaged: {error}", hint=RESTORE) from error
    if len({(entry.public.raw, entry.role) for entry in entries}) != len(entries):
        raise InputError(f"{path} names a key twice in one role", hint="keep one: the revoked one, if one is revoked")
    return known


def write_known_keys(path: Path, known: KnownKeys) -> None:
    """Write the file whole: a reader sees the old one or the new one."""
    try:
        data = msgspec.json.format(msgspec.json.encode(_File(version=VERSION, keys=known.entries)), indent=1)
        msgspec.json.decode(data, type=_File)  # never write what could not be read again
    except (UnicodeEncodeError, msgspec.ValidationError) as error:
        raise InputError(f"this key cannot be noted in {path}: {error}") from error
    write_trust_file(path, data)


def update_known_keys(path: Path, change: Callable[[KnownKeys], KnownKeys]) -> None:
    """Read, change and write the file; two at once wait for each other, so that neither's change is lost."""
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no home {path.parent}", hint="tipstaff keys trust makes one")
    with locked(path.parent):
        write_known_keys(path, change(read_known_keys(path)))
