"""Who a runner is, in its data directory: its key pair, its token, its pool, and the one plane key that counts.

1. Nobody else may read or write the directory or a file in it: one that they can is refused, never repaired.
2. The key pair is made before the runner is enrolled, and kept: a crash between the two costs nothing.
3. The plane's key is pinned at the first contact and never exchanged in silence: another one is refused.
Files are written whole or not at all. A directory of the protocol's older runners (three files) is taken as it is.
"""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from tipstaff.errors import InputError, NotFoundError, StoreError, UsageError
from tipstaff.keys import PrivateKey, PublicKey
from tipstaff.keys.files import PUBLIC_SUFFIX, SUFFIX, load, load_public, save

RUNNER: Final = "runner"
RECORD: Final = "identity.json"
PLANE_KEY: Final = "plane.pub.pem"
OTHERS: Final = 0o077
MOST_BYTES: Final = 64 * 1024
GET_KEY: Final = "ask the plane's operator for its public key, and give it with --plane-key FILE"


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the plane said when the runner was enrolled; more fields than these are others' business."""

    runner_id: str
    runner_token: str
    pool: str
    plane_url: str = ""
    plane_proves: bool = False  # it told its key, so it is one that signs for claims and answers


class Identity(msgspec.Struct, frozen=True):
    """One runner, enrolled."""

    record: Record
    key: PrivateKey
    plane_key: PublicKey


def open_directory(data: Path) -> None:
    """Make the directory if it is not there, and refuse one that others can look into."""
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        data.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the runner's directory {data} cannot be made: {error.strerror}", hint="name another"
        ) from error
    _refuse_others(data)


def runner_key(data: Path) -> PrivateKey:
    """Give the runner's own key; the first time, make it."""
    path = data / (RUNNER + SUFFIX)
    if not path.exists():
        save(PrivateKey.generate(), data, RUNNER)
        (data / (RUNNER + PUBLIC_SUFFIX)).chmod(0o600)
    return load(path)


def enrolled(data: Path) -> Record | None:
    """Read what the plane said at enrolment; None before that."""
    path = data / RECORD
    if not path.exists():
        return None
    _refuse_others(path)
    try:
        return msgspec.json.decode(path.read_bytes()[:MOST_BYTES], type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read: {error}", hint="restore it, or enroll anew in another directory"
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def keep(data: Path, record: Record) -> None:
    """Write down what the plane said."""
    write_whole(data / RECORD, msgspec.json.encode(record) + b"\n")


def refuse_other_pool(record: Record, pool: str | None, data: Path) -> None:
    """Refuse to work in another pool than the one that the runner was enrolled for."""
    if pool is not None and pool != record.pool:
        raise UsageError(
            f"the runner in {data} was enrolled for the pool {record.pool!r}, not for {pool!r}",
            hint="leave --pool out, or enroll another runner with another --data",
        )


def pinned(data: Path) -> PublicKey | None:
    """Give the plane's key that was pinned; None where there is none yet."""
    path = data / PLANE_KEY
    if not path.exists():
        return None
    _refuse_others(path)
    return load_public(path)


def pin(data: Path, told: str | None, given: Path | None) -> PublicKey:
    """Pin the plane's key: the one that was pinned, given and told must be one and the same.

    `told` is what the plane says itself when a runner is enrolled; `given` is the operator's file.
    """
    found = {
        "the pinned one": pinned(data),
        "that of --plane-key": load_public(given) if given is not None else None,
        "the plane's own": PublicKey.parse(told) if told else None,
    }
    there = {name: key for name, key in found.items() if key is not None}
    if not there:
        raise NotFoundError(
            "the plane does not tell its key, so nobody could say which contracts are its own", hint=GET_KEY
        )
    if len(set(there.values())) > 1:
        listed = ", ".join(f"{name} is {key.key_id}" for name, key in there.items())
        raise UsageError(f"the plane's keys differ: {listed}", hint="find out which plane this is before you go on")
    key = next(iter(there.values()))
    if found["the pinned one"] is None:
        write_whole(data / PLANE_KEY, key.pem.encode())
    return key


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file of ours: under another name first, so that it is whole or not there; 0600."""
    part = path.with_name(f".{path.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            left = memoryview(content)
            while left:
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.rename(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}", hint="check the disk") from error


def _refuse_others(path: Path) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise UsageError(f"{path} is neither a plain file nor a folder", hint="look at who put it there")
    if found.st_uid != os.geteuid():
        raise UsageError(f"{path} belongs to another user", hint="run as its owner, or name another --data")
    if found.st_mode & OTHERS:
        mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
        raise UsageError(
            f"{path} can be read or written by other users", hint=f"look at it, then run: chmod {mode} {path}"
        )
