"""Where each secret comes from: `secrets.yaml` in the home, read strictly.

The owner of the home writes it, never a requester, so a file that others may write is refused. Each name has exactly
one source; an unknown key, a second source or a value of the wrong kind is an error with its line and column. A name
that ends in `*` stands for the files of a folder. Reads no secret.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from tipstaff.errors import PolicyError, SecretError
from tipstaff.secrets.origins import DEFAULT_SECONDS, Directory, Environment, File, Program, Source, Store, is_name
from tipstaff.secrets.private import WRITABLE_BY_OTHERS

if TYPE_CHECKING:
    from tipstaff.policy.strict_yaml import Tree

FILE: Final = "secrets.yaml"
MAX_BYTES: Final = 1024 * 1024
MOST_SECONDS: Final = 300.0

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OPTIONS: Final = {"exec": ("seconds", "environ")}


class Configuration(msgspec.Struct, frozen=True):
    """What the file says: names, and patterns by their prefix."""

    names: dict[str, Source] = {}
    patterns: dict[str, Directory] = {}

    def source_of(self, name: str) -> Source | None:
        """Find the source of a name: its own, else that of the longest pattern, else None: it is not listed."""
        if name in self.names:
            return self.names[name]
        fitting = [prefix for prefix, folder in self.patterns.items() if folder.file(name) is not None]
        return self.patterns[max(fitting, key=len)] if fitting else None


def load(home: Path) -> Configuration:
    """Read the file of a home; none there means that nothing is listed."""
    path = home / FILE
    text = _read(path)
    if text is None:
        return Configuration()
    from tipstaff.policy import strict_yaml  # noqa: PLC0415 - PyYAML is paid for only by those who have such a file

    try:
        return _parsed(strict_yaml.read(text, str(path)))
    except PolicyError as error:  # the reader of policies, and its words; what is wrong here is not a policy
        raise SecretError(str(error).removesuffix(f"; {error.hint}"), hint=error.hint) from None


def _read(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if path.is_symlink():
            raise SecretError(f"{path} is a link to nowhere", hint="mend it, or remove it") from None
        return None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None
    try:
        _refuse_others(os.fstat(descriptor), path)
        data = os.read(descriptor, MAX_BYTES + 1)  # one byte more than the reader takes
    finally:
        os.close(descriptor)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{path} is not UTF-8 text", hint="write it anew") from None


def _refuse_others(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretError(f"{path} is not a plain file", hint="write one, or remove it")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & WRITABLE_BY_OTHERS:
        raise SecretError(
            f"{path} can be written by other users, who could name a source of theirs",
            hint=f"look at it, then run: chown $USER {path} && chmod 600 {path}",
        )


def _parsed(tree: "Tree") -> Configuration:
    reading = _Reading(tree)
    reading.keys((), ("secrets",))
    names: dict[str, Source] = {}
    patterns: dict[str, Directory] = {}
    for name in reading.mapping(("secrets",)):
        source = reading.source(("secrets", name))
        if isinstance(source, Directory):
            patterns[source.prefix] = source
        else:
            names[name] = source
    return Configuration(names, patterns)


class _Reading:
    """Takes values out of the file, and says where it is wrong."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree

    def source(self, at: tuple[str, ...]) -> Source:
        """Read one entry: exactly one source, and its options."""
        self._check_name(at)
        entry = self.mapping(at)
        kinds = [key for key in entry if key in _KINDS]
        if len(kinds) != 1:
            self.keys(at, tuple(_KINDS))
            self._refuse(at, f"`{at[-1]}` needs exactly one source", f"write one of {', '.join(_KINDS)}")
        self.keys(at, (kinds[0], *_OPTIONS.get(kinds[0], ())))
        if at[-1].endswith("*") and kinds[0] != "directory":
            self._refuse(at, "a name with `*` can only have a `directory`", "write each name out")
        return _KINDS[kinds[0]](self, at, entry)

    def mapping(self, at: tuple[str, ...]) -> Mapping[str, Any]:
        node = self._tree.at(at)
        if node.kind != "mapping":
            self._refuse(at, f"`{at[-1]}` must be a mapping, such as {{store: true}}" if at else "expected a mapping")
        value: dict[str, Any] = node.value
        return value

    def keys(self, at: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Refuse a key that is not known here, and, at the top, a file without the only one."""
        for key in self.mapping(at):
            if key not in known:
                self._refuse(
                    (*at, key), f"unknown key `{key[:80]}`", f"known keys here are {', '.join(known)}", key=True
                )
        if not at and not self.mapping(at):
            self._refuse(at, "the key `secrets` is missing")

    def _check_name(self, at: tuple[str, ...]) -> None:
        name = at[-1]
        prefix = name.removesuffix("*")
        fine = is_name(name) or (name != prefix and (not prefix or (prefix.endswith("/") and is_name(prefix[:-1]))))
        if not fine:
            wanted = "letters, digits, `_`, `.` and `-`, in parts divided by `/`; `*` only as the whole last part"
            self._refuse(at, f"`{name[:80]}` cannot name a secret", f"use {wanted}", key=True)

    def store(self, at: tuple[str, ...], entry: Mapping[str, Any]) -> Store:
        if entry["store"] is not True:
            self._refuse((*at, "store"), "`store` can only be `true`", "leave the entry out, or name another source")
        return Store()

    def file(self, at: tuple[str, ...], entry: Mapping[str, Any]) -> File:
        return File(self._path((*at, "file"), entry["file"]))

    def environment(self, at: tuple[str, ...], entry: Mapping[str, Any]) -> Environment:
        return Environment(self._variable((*at, "environment"), entry["environment"]))

    def directory(self, at: tuple[str, ...], entry: Mapping[str, Any]) -> Directory:
        name = at[-1]
        if not name.endswith("*"):
            self._refuse(at, "a `directory` needs a name that ends in `*`", "or write `file:` and the whole path")
        return Directory(self._path((*at, "directory"), entry["directory"]), name[:-1])

    def program(self, at: tuple[str, ...], entry: Mapping[str, Any]) -> Program:
        argv = self._texts((*at, "exec"), entry["exec"])
        if not argv or not argv[0] or ("/" in argv[0] and not argv[0].startswith("/")):
            self._refuse((*at, "exec"), "`exec` is a program and its arguments", "name it plainly or by its whole path")
        seconds = entry.get("seconds", DEFAULT_SECONDS)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
            self._refuse((*at, "seconds"), f"`seconds` is a number above 0, at most {MOST_SECONDS:g}")
        environ = self._texts((*at, "environ"), entry.get("environ", []))
        names = tuple(self._variable((*at, "environ"), name) for name in environ)
        return Program(argv, float(seconds), names)

    def _path(self, at: tuple[str, ...], value: Any) -> str:
        if not isinstance(value, str) or not value.startswith("/"):
            self._refuse(at, f"`{at[-1]}` must be a path that starts with /")
        return value

    def _variable(self, at: tuple[str, ...], value: Any) -> str:
        if not isinstance(value, str) or not _VARIABLE.match(value):
            self._refuse(at, f"`{at[-1]}` must name a variable", "write its name, without `$`")
        return value

    def _texts(self, at: tuple[str, ...], value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._refuse(at, f"`{at[-1]}` must be a list of texts", "write [one, two], and quote numbers")
        return tuple(value)

    def _refuse(self, at: tuple[str, ...], message: str, hint: str = "", *, key: bool = False) -> NoReturn:
        spot = self._tree.key_spot(at) if key else self._tree.spot(at)
        raise PolicyError(message, source=self._tree.source, line=spot.line, column=spot.column, hint=hint)


_Read = Callable[[_Reading, tuple[str, ...], Mapping[str, Any]], Source]
_KINDS: Final[dict[str, _Read]] = {
    "store": _Reading.store,
    "file": _Reading.file,
    "environment": _Reading.environment,
    "directory": _Reading.directory,
    "exec": _Reading.program,
}
