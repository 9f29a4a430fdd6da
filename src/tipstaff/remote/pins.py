"""Which key each plane signs with: pinned at its address when it is first used, as ssh does with hosts.

Whoever answers at an address later with other keys is refused, until a person pins the new one on purpose. Only pinned
keys count for a proof; what a plane publishes, or a bundle carries, proves nothing. The file is JSON, strict, written
whole under a lock; a damaged one is an error, never an empty one.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tipstaff.errors import InputError, RefusedError, SigningKeyError
from tipstaff.home import Home
from tipstaff.keys import KnownKeys, PublicKey
from tipstaff.keys.files import load_public
from tipstaff.keys.known import KnownKey, read_known_keys
from tipstaff.keys.trust_files import RESTORE, locked, read_trust_file, write_trust_file
from tipstaff.model.noun import Noun

Json = dict[str, Any]
VERSION: Final = "tipstaff.known-planes.v1"
FILE: Final = "known-planes.json"
MOST_KEYS: Final = 64


class _File(Noun):
    version: Literal["tipstaff.known-planes.v1"]
    planes: dict[str, tuple[str, ...]]  # address → the keys, as PEM texts


class Pins:
    """The pinned keys of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.root / FILE

    def keys(self, url: str) -> list[PublicKey]:
        """Give the keys that are pinned for an address; none where it was never used."""
        return [_key(text, str(self._path)) for text in self._read().planes.get(url, ())]

    def pin(self, url: str, keys: Iterable[PublicKey]) -> list[PublicKey]:
        """Pin keys for an address, in place of those before."""
        wanted = list(keys)
        self._change(lambda planes: {**planes, url: tuple(key.pem for key in wanted)})
        return wanted

    def pin_file(self, url: str, path: str) -> list[PublicKey]:
        """Pin the key in a PEM file for an address."""
        return self.pin(url, [load_public(Path(path))])

    def settle(self, url: str, published: Callable[[], Json]) -> list[PublicKey]:
        """Give the keys to trust for an address: those pinned, which the plane must still have, else what it has now.

        `published` asks the plane for its keys.
        """
        keys, offered = self.keys(url), _published(published(), url)
        if not keys:
            return self.pin(url, offered)
        if not {key.raw for key in keys} & {key.raw for key in offered}:
            raise RefusedError(
                f"the plane {url} has another key than when it was first used:"
                f" {_named(offered)}, and not {_named(keys)}; somebody may be answering in its place",
                hint="if that is meant, have its new key from whoever runs it, and say --plane-key FILE",
            )
        return keys

    def trusted(self, keys: Iterable[PublicKey]) -> KnownKeys:
        """Give what a proof from this plane is checked with: its keys, and the people that the home knows."""
        known = read_known_keys(self._home.known_keys)
        people = KnownKeys(tuple(entry for entry in known.entries if entry.role != "plane" or entry.revoked_at))
        for key in keys:
            people = people.trust(KnownKey(public_key_pem=key.pem, role="plane", name="a plane that was pinned"))
        return people

    def known(self, known: KnownKeys) -> tuple[KnownKeys, dict[str, str]]:
        """Add every pinned key to the known ones; gives for each that was added, by its id, the plane's address.

        What is known of a key already stands: one that is revoked, in whatever role, is not added.
        """
        added: dict[str, str] = {}
        for url, texts in sorted(self._read().planes.items()):
            for key in (_key(text, str(self._path)) for text in texts):
                if known.find(key, "plane") is None and not _is_revoked(key, known):
                    known = known.trust(KnownKey(public_key_pem=key.pem, role="plane", name=url))
                    added[key.key_id] = url
        return known, added

    def _read(self) -> _File:
        data = read_trust_file(self._path, "pin a key of theirs")
        if data is None:
            return _File(version=VERSION, planes={})
        try:
            return msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{self._path} is damaged: {error}", hint=RESTORE) from error

    def _change(self, change: Callable[[dict[str, tuple[str, ...]]], dict[str, tuple[str, ...]]]) -> None:
        self._home.make()
        with locked(self._home.root):
            wanted = _File(version=VERSION, planes=change(self._read().planes))
            write_trust_file(self._path, msgspec.json.format(msgspec.json.encode(wanted), indent=1))


def _is_revoked(key: PublicKey, known: KnownKeys) -> bool:
    return any(entry.revoked_at is not None and entry.public.raw == key.raw for entry in known.entries)


def _published(said: Json, url: str) -> list[PublicKey]:
    """Read the keys that a plane says are its own."""
    listed = said.get("keys")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    texts = [one.get("publicKeyPem") for one in entries if one.get("role", "plane") == "plane"]
    if not texts or len(texts) > MOST_KEYS or not all(isinstance(text, str) for text in texts):
        raise InputError(f"the plane {url} does not say which key it signs with")
    return [_key(str(text), f"the plane {url}") for text in texts]


def _key(text: str, source: str) -> PublicKey:
    try:
        return PublicKey.parse(text)
    except SigningKeyError as error:
        raise InputError(f"{source} names a key that cannot be used: {error.message}") from error


def _named(keys: Iterable[PublicKey]) -> str:
    return ", ".join(sorted(key.key_id for key in keys))
