"""The keys of a home: the plane's and the runner's, made at its first use and never shared.

Two, because one key for both would prove neither. Made under a lock, so that two processes that start at once make one
pair. The plane's own key is written into the home's known keys: what this home signed, this home verifies.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tipstaff.errors import StoreError
from tipstaff.home import Home
from tipstaff.keys import KnownKeys, PrivateKey
from tipstaff.keys.files import SUFFIX, load, save
from tipstaff.keys.known import KnownKey, read_known_keys, update_known_keys

PLANE: Final = "plane"
RUNNER: Final = "runner"


class Identity(msgspec.Struct, frozen=True):
    """Who signs here, and whose signatures count."""

    plane: PrivateKey
    runner: PrivateKey
    known: KnownKeys


def identity_of(home: Home) -> Identity:
    """Read the home's keys; the first who asks makes them."""
    paths = {name: home.keys / (name + SUFFIX) for name in (PLANE, RUNNER)}
    if not all(path.exists() for path in paths.values()):
        _make(home, paths)
    plane, runner = (load(paths[name]) for name in (PLANE, RUNNER))
    known = read_known_keys(home.known_keys)
    if known.find(plane.public, "plane") is None:
        update_known_keys(home.known_keys, lambda keys: _with_own(keys, plane))
        known = read_known_keys(home.known_keys)
    return Identity(plane, runner, known)


def _make(home: Home, paths: dict[str, Path]) -> None:
    with _locked(home.root / "keys.lock"):
        for name, path in paths.items():
            if not path.exists():
                save(PrivateKey.generate(), home.keys, name)


def _with_own(known: KnownKeys, plane: PrivateKey) -> KnownKeys:
    if known.find(plane.public, "plane") is not None:
        return known
    return known.trust(KnownKey(public_key_pem=plane.public.pem, role="plane", name="this home"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        hint = "check that its disk is mounted writable, or set TIPSTAFF_HOME to another folder"
        raise StoreError(f"the home {path.parent} cannot be written: {error.strerror}", hint=hint) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
