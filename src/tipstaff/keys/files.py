"""Private keys on disk: made 0600 in a 0700 folder, and read only if they still are so.

A key file is written whole or not at all, never over another one, and never through a symbolic link. What is
readable by others, owned by somebody else, or not a plain file is refused with the command that mends it.
"""

import os
import stat
from pathlib import Path

from tipstaff.errors import NotFoundError, SigningKeyError
from tipstaff.keys.ed25519 import PrivateKey, PublicKey

SUFFIX = ".key.pem"
PUBLIC_SUFFIX = ".pub.pem"
OTHERS = 0o077
MAX_BYTES = 16_384


def save(key: PrivateKey, folder: Path, name: str, passphrase: bytes | None = None) -> Path:
    """Write the key pair as NAME.key.pem and NAME.pub.pem; refuses to overwrite."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SigningKeyError(f"the folder {folder} cannot be made: {error.strerror}") from error
    path = folder / (name + SUFFIX)
    _write_new(path, key.pem(passphrase), 0o600)
    try:
        _write_new(folder / (name + PUBLIC_SUFFIX), key.public.pem.encode(), 0o644)
    except SigningKeyError:
        path.unlink()  # half a pair would block the next try
        raise
    return path


def load(path: Path, passphrase: bytes | None = None) -> PrivateKey:
    """Read a private key, if nobody else can."""
    data = _read_private(path)
    try:
        return PrivateKey.parse(data, passphrase)
    except SigningKeyError as error:
        raise SigningKeyError(f"{path}: {error.message}", hint=error.hint) from error


def is_encrypted(path: Path) -> bool:
    """Say whether a passphrase is needed to read the key."""
    return b"ENCRYPTED" in _read_private(path).partition(b"\n")[0]


def load_public(path: Path) -> PublicKey:
    """Read a public key file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("ascii", "replace")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no key file {path}") from error
    except OSError as error:
        raise SigningKeyError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return PublicKey.parse(text)
    except SigningKeyError as error:
        raise SigningKeyError(f"{path}: {error.message}", hint=error.hint) from error


def _read_private(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no key file {path}", hint="make one with: tipstaff keys new NAME") from error
    except OSError as error:
        raise SigningKeyError(f"{path} cannot be read as a key file: {error.strerror}") from error
    try:
        _refuse_unless_private(os.fstat(descriptor), path)
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def _refuse_unless_private(status: os.stat_result, path: Path) -> None:
    """Judge the opened file, not its name: a name can be swapped between look and open."""
    if not stat.S_ISREG(status.st_mode):
        raise SigningKeyError(f"{path} is not a plain file")
    if status.st_uid != os.geteuid():
        raise SigningKeyError(f"{path} belongs to another user", hint="a key is read only by its owner")
    if status.st_mode & OTHERS:
        raise SigningKeyError(f"{path} can be read by others", hint=f"run: chmod 600 {path}")


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a new file whole: another name first, then a link, which never replaces anything."""
    from tempfile import mkstemp  # noqa: PLC0415 - slow to import, and keys are made once

    try:
        descriptor, temporary = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600, and nobody else's
    except OSError as error:
        raise SigningKeyError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.link(temporary, path)
    except FileExistsError as error:
        raise SigningKeyError(f"{path} exists already", hint="choose another name, or move it away first") from error
    except OSError as error:
        raise SigningKeyError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
