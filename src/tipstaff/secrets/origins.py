"""The places that a secret can come from, and what can name one. Values only: reads nothing."""

import re
from typing import ClassVar, Final

import msgspec

DEFAULT_SECONDS: Final = 10.0

_NAME: Final = re.compile(r"(?=.{1,256}\Z)[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z")


class Store(msgspec.Struct, frozen=True):
    """The encrypted store in the home."""

    kind: ClassVar = "store"


class File(msgspec.Struct, frozen=True):
    """A private file."""

    kind: ClassVar = "file"
    path: str


class Environment(msgspec.Struct, frozen=True):
    """A variable of the process that reads the secret."""

    kind: ClassVar = "environment"
    variable: str


class Directory(msgspec.Struct, frozen=True):
    """A folder of private files; a name is `prefix` and the name of a file."""

    kind: ClassVar = "directory"
    path: str
    prefix: str

    def file(self, name: str) -> str | None:
        """Name the file that holds the secret, or None for a name that no file here can have."""
        rest = name.removeprefix(self.prefix)
        return rest if name.startswith(self.prefix) and is_name(rest) and "/" not in rest else None


class Program(msgspec.Struct, frozen=True):
    """A program that prints the value as JSON."""

    kind: ClassVar = "exec"
    argv: tuple[str, ...]
    seconds: float = DEFAULT_SECONDS
    environ: tuple[str, ...] = ()


Source = Store | File | Environment | Directory | Program


def is_name(text: str) -> bool:
    """Say whether `text` can name a secret: letters, digits, `_`, `.` and `-`, in parts divided by `/`."""
    return _NAME.match(text) is not None
