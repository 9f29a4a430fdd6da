"""The encrypted store: `secrets.sealed` in the home, with its key beside it in `secrets.key`.

1. Each value is sealed (ChaCha20-Poly1305) with its name, its serial and its times as associated data. 2. A seal over
the whole file says which entries belong together: none can be swapped, taken out or replaced by an older one. 3. A
change is written whole, to the disk, under a lock; what is there is read and checked before. 4. Whatever is not exactly
as it was written is an error, and the file stays as it is. The key protects a copy of the file that went elsewhere; it
does not protect against whoever can read the home, and cannot tell that the whole file was put back to an older one.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from tipstaff.errors import InputError, NotFoundError, SecretError
from tipstaff.model.noun import Noun, Timestamp
from tipstaff.model.times import Clock, timestamp
from tipstaff.secrets.private import open_folder, read_private, write_private
from tipstaff.secrets.sealing import FILE as KEY_FILE
from tipstaff.secrets.sealing import Key, load_key, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = "secrets.sealed"
VERSION: Final = "tipstaff.secrets.v1"
MAX_BYTES: Final = 16 * 1024 * 1024
LOCK_SECONDS: Final = 10.0
PADDING_BYTES: Final = 256

_START_ANEW: Final = "restore it from a backup; or, to give up what is in the store, move secrets.sealed away"
_RESTORE_KEY: Final = "put the right key back; or, to give up what is in the store, move secrets.sealed away"
_Serial = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class Entry(Noun):
    """One sealed value."""

    name: str
    serial: _Serial
    changed_at: Timestamp
    rotated_at: Timestamp | None
    nonce: bytes = b""
    sealed: bytes = b""

    def bound(self) -> list[Any]:
        """List what the value is sealed together with."""
        return [VERSION, "entry", self.name, self.serial, self.changed_at, self.rotated_at]


class _File(Noun):
    version: Literal["tipstaff.secrets.v1"]
    key_id: str
    serial: _Serial
    entries: tuple[Entry, ...]
    nonce: bytes = b""
    seal: bytes = b""

    def bound(self) -> list[Any]:
        return [VERSION, "file", self.serial, self.key_id, self.entries]


class _Header(msgspec.Struct, frozen=True):
    version: str


class SealedStore:
    """The store of one home. Makes nothing until something is set."""

    def __init__(self, home: Path, clock: Clock | None = None) -> None:
        self.path = home / FILE
        self._home = home
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)

    def entries(self) -> tuple[Entry, ...]:
        """List what is in it, by name, still sealed."""
        opened = self._opened()
        return opened[1].entries if opened else ()

    def read(self, name: str) -> str | None:
        """Unseal one value, or None where the name is not set."""
        opened = self._opened()
        entry = _find(opened[1].entries, name) if opened else None
        return self._unsealed(opened[0], entry) if opened and entry else None

    def set(self, name: str, value: str) -> bool:
        """Keep a value under a name; says whether there was one before."""
        with self._changing() as change:
            old = _find(change.entries, name)
            change.put(name, value, old.rotated_at if old else None)
        return old is not None

    def rotate(self, name: str, value: str) -> None:
        """Replace the value of a name by another, and note when."""
        with self._changing() as change:
            old = change.find(name)
            if self._unsealed(change.key(), old) == value:
                raise InputError(f"the new value of {name} is the old one", hint="get a new one where it is made")
            change.put(name, value, change.now)

    def remove(self, name: str) -> None:
        """Forget a name and its value."""
        with self._changing() as change:
            change.drop(change.find(name))

    def _opened(self) -> tuple[Key, _File] | None:
        """Read the file and check its seal; None where nothing was ever set."""
        file = self._parsed(read_private(self.path, MAX_BYTES))
        if file is None:
            return None
        key = load_key(self._home)
        if key is None:
            raise SecretError(f"the key of {self.path} ({KEY_FILE}) is gone", hint=_START_ANEW)
        if key.id != file.key_id:
            raise SecretError(f"{self.path} was sealed with another key than {KEY_FILE}", hint=_RESTORE_KEY)
        if key.unseal(file.nonce, file.seal, file.bound()) is None:
            raise self._damaged("its seal does not fit")
        return key, file

    def _parsed(self, data: bytes | None) -> _File | None:
        if data is None:
            return None
        try:
            version = msgspec.json.decode(data, type=_Header).version
            if version == VERSION:
                return msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._damaged("it does not parse") from None
        raise SecretError(f"{self.path} is of another version ({version[:40]})", hint="use the Tipstaff that wrote it")

    def _unsealed(self, key: Key, entry: Entry) -> str:
        value = key.unseal(entry.nonce, entry.sealed, entry.bound())
        if value is None:
            raise self._damaged("an entry does not open")
        return value.rstrip(b"\0").decode()

    @contextlib.contextmanager
    def _changing(self) -> "Iterator[_Change]":
        """Hold the lock, read what is there, let the caller change it, and write it whole."""
        folder = open_folder(self._home)
        if folder is None:
            raise NotFoundError(f"there is no home {self._home}", hint="tipstaff secrets set makes one")
        try:
            _lock(folder, self._home)
            change = _Change(folder, self._home, self._opened(), timestamp(self._clock()))
            yield change
            data = change.encoded()
            if len(data) > MAX_BYTES:
                raise SecretError(f"{self.path} would become larger than {MAX_BYTES} bytes", hint="nothing was changed")
            write_private(folder, FILE, data)
        finally:
            os.close(folder)

    def _damaged(self, how: str) -> SecretError:
        return SecretError(f"{self.path} is damaged: {how}", hint=_START_ANEW)


class _Change:
    """What the file will be."""

    def __init__(self, folder: int, home: Path, opened: tuple[Key, _File] | None, now: str) -> None:
        self.now = now
        self.entries = opened[1].entries if opened else ()
        self._serial = opened[1].serial + 1 if opened else 1
        self._key = opened[0] if opened else None
        self._folder = folder
        self._home = home

    def key(self) -> Key:
        """Give the key; it is made when there is nothing yet that it could open."""
        self._key = self._key or load_key(self._home) or make_key(self._folder)
        return self._key

    def find(self, name: str) -> Entry:
        """Find the entry of a name that must be set."""
        entry = _find(self.entries, name)
        if entry is None:
            raise NotFoundError(f"the secret {name} is not set in the store", hint="see: tipstaff secrets list")
        return entry

    def put(self, name: str, value: str, rotated_at: str | None) -> None:
        """Take an entry in, in the place of one with its name."""
        bare = Entry(name=name, serial=self._serial, changed_at=self.now, rotated_at=rotated_at)
        nonce, sealed = self.key().seal(_padded(value.encode()), bare.bound())
        others = [entry for entry in self.entries if entry.name != name]
        entry = msgspec.structs.replace(bare, nonce=nonce, sealed=sealed)
        self.entries = tuple(sorted([*others, entry], key=lambda one: one.name))

    def drop(self, gone: Entry) -> None:
        """Leave an entry out."""
        self.entries = tuple(entry for entry in self.entries if entry is not gone)

    def encoded(self) -> bytes:
        """Seal the whole and spell it."""
        key = self.key()
        bare = _File(version=VERSION, key_id=key.id, serial=self._serial, entries=self.entries)
        nonce, seal = key.seal(b"", bare.bound())
        return msgspec.json.encode(msgspec.structs.replace(bare, nonce=nonce, seal=seal)) + b"\n"


def _find(entries: tuple[Entry, ...], name: str) -> Entry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _padded(value: bytes) -> bytes:
    """Fill up with NUL, which no value has: the file shall not tell how long each is."""
    return value + b"\0" * (-len(value) % PADDING_BYTES)


def _lock(folder: int, home: Path) -> None:
    """Wait for the others, but not for ever."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SecretError(f"another process is changing {home}", hint="try again when it is done") from None
            time.sleep(0.02)
