"""Where a secret's value is read, when it is to be released.

The configuration of the home says where each name comes from; a name that it does not list is looked for in the
encrypted store. Read anew each time: what was rotated or removed counts at once, and no value is kept. A source that is
broken is a `SecretError` and gives nothing; None means that nobody has made such a secret. A value that could not be
kept out of the outputs is not given either. Blocks while a program is asked; does not decide who may have a secret.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.errors import SecretError
from tipstaff.model.times import timestamp
from tipstaff.secrets import configuration
from tipstaff.secrets.origins import Directory, Environment, File, Program, Source, Store, is_name
from tipstaff.secrets.private import open_folder, read_private
from tipstaff.secrets.sealed import SealedStore

MAX_BYTES: Final = 64 * 1024

_Told = tuple[str | None, str]  # a value, or None and what is wrong; nothing wrong means that there is no such secret
_NOT_TEXT: Final = "it is not UTF-8 text; encode it, with base64 for example"


class Known(NamedTuple):
    """A secret that can be asked for: its name, its kind of source, and when it changed as far as that is known."""

    name: str
    source: str
    changed_at: str | None = None
    rotated_at: str | None = None


class Sources:
    """The secrets of one home."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ
        self._store = SealedStore(home)

    def read(self, name: str) -> str | None:
        """Read the value of a secret, or None where there is no such one."""
        if not is_name(name):
            return None
        value, fault = self._checked(name)
        if fault:
            raise SecretError(f"the secret {name} cannot be given: {fault}")
        return value

    def names(self) -> list[Known]:
        """List what can be asked for, by name; reads no value, and runs no program."""
        configured = configuration.load(self._home)
        found = {
            entry.name: Known(entry.name, "store", entry.changed_at, entry.rotated_at)
            for entry in self._store.entries()
            if isinstance(configured.source_of(entry.name), Store | None)
        }
        for folder in configured.patterns.values():
            found |= {
                known.name: known for known in _listed(folder) if configured.source_of(known.name) in (folder, None)
            }
        for name, source in configured.names.items():
            found.setdefault(
                name, Known(name, source.kind, _written(source.path) if isinstance(source, File) else None)
            )
        return [found[name] for name in sorted(found)]

    def fault(self, name: str) -> str:
        """Read a secret as if it were to be released: what is wrong with it, or nothing."""
        try:
            if not name.endswith("*"):
                return "" if self.read(name) is not None else "there is no such secret"
            source = configuration.load(self._home).patterns.get(name[:-1])
            return _in_folder(source, name)[1] if source else "there is no such secret"
        except SecretError as error:
            return str(error)

    def kept_elsewhere(self, name: str) -> str:
        """Say which kind of source has a name, if it is not the store: setting it there would change nothing."""
        source = configuration.load(self._home).source_of(name)
        return "" if isinstance(source, Store | None) else source.kind

    def _checked(self, name: str) -> _Told:
        """Read a value, and judge it. Returns what is wrong, so that no frame of a traceback holds the value."""
        source = configuration.load(self._home).source_of(name)
        value, fault = self._told(name, source)
        fault = fault or ("" if value is None else fault_of(value))
        return (None, fault) if fault else (value, "")

    def _told(self, name: str, source: Source | None) -> _Told:
        match source:
            case File():
                path = Path(source.path)
                return _text(read_private(path, MAX_BYTES + 1, alone=True), f"there is no file {path}")
            case Directory():
                return _in_folder(source, name)
            case Environment():
                value = self._environ.get(source.variable)
                return value, "" if value is not None else f"the variable {source.variable} is not set"
            case Program():
                from tipstaff.secrets import program  # noqa: PLC0415 - subprocess, which few need

                value, fault = program.ask(source, self._environ)
                return value, fault and f"its program ({source.argv[0]}) {fault}"
        value = self._store.read(name)
        missing = value is None and source is not None
        return value, f"it is not in the store; run: tipstaff secrets set {name}" if missing else ""


def fault_of(value: str) -> str:
    """Say why a value can be neither kept nor given, or nothing; never quotes it."""
    from tipstaff.secrets import redact  # noqa: PLC0415 - only those who have secrets pay for it

    try:
        data = value.encode()
    except UnicodeEncodeError:  # a variable of the environment that is not UTF-8
        return _NOT_TEXT
    if b"\0" in data:
        return "it has a NUL byte, which no environment variable and no header can carry"
    if len(data) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    return redact.fault_of(data) or ""


def _text(data: bytes | None, missing: str) -> _Told:
    """Take a file's content as text, without one final line feed."""
    if data is None:
        return None, missing
    try:
        return data.removesuffix(b"\n").decode(), ""
    except UnicodeDecodeError:
        return None, _NOT_TEXT


def _in_folder(source: Directory, name: str) -> _Told:
    """Read the file of a name; a folder that is not there is a fault, a file that is not there is no secret."""
    folder, file = open_folder(Path(source.path)), source.file(name)
    if folder is None:
        return None, f"there is no folder {source.path}"
    try:
        if file is None:
            return None, ""
        return _text(read_private(Path(source.path, file), MAX_BYTES + 1, folder=folder, alone=True), "")
    finally:
        os.close(folder)


def _listed(source: Directory) -> Iterator[Known]:
    """List the secrets of a folder without opening them; one that cannot be listed stands for itself."""
    try:
        with os.scandir(source.path) as entries:
            for entry in entries:
                if source.file(source.prefix + entry.name) is not None and not entry.is_dir(follow_symlinks=False):
                    yield Known(source.prefix + entry.name, source.kind, _written(entry.path))
    except OSError:
        yield Known(source.prefix + "*", source.kind)


def _written(path: str) -> str | None:
    try:
        return timestamp(Path(path).lstat().st_mtime_ns // 1_000_000)
    except (OSError, OverflowError):
        return None
