"""Every error that Tipstaff raises, in one tree.

    TipstaffError
    ├── UsageError          the caller asked for something that cannot be meant
    │   └── RefusedError    … or for something that no policy could allow
    ├── InputError          bytes from outside do not parse
    │   ├── CanonicalError  a value that RFC 8785 cannot spell
    │   └── PolicyError     a policy file is wrong, with line and column
    ├── SigningKeyError     a key cannot be made, read or used
    ├── SecretError         a secret's source is broken, so nothing of it is given out
    ├── NotFoundError       a file or a record that was named does not exist
    ├── StoreError          the database or the blobs of a home cannot be used
    │   └── BusyError       another process, or another thread, is at the database
    └── PlaneError          the plane does not take a step of the protocol

A room may have a narrower kind of one for itself, with more to say: `GitError`, `DivergedError`, `NotAppliedError`,
`UnprovenError`, and, of `PlaneError`, `UnreachableError` (the same may be asked again) and `ForeignContractError` (not
a contract of this runner's plane).
A message is one sentence: what is wrong, which value, and what to do next. A refusal by policy is not
an error but a value (`Decision`); a failed verification is not an error but a `Report`.
"""


class TipstaffError(Exception):
    """The root: catch this to catch everything that Tipstaff raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UsageError(TipstaffError):
    """A command line or a call that cannot be meant."""

    exit_code = 64


class RefusedError(UsageError):
    """A wish that a door refuses by itself, because no policy could allow it."""

    exit_code = 126


class InputError(TipstaffError):
    """Bytes from outside that do not parse as what they should be."""

    exit_code = 65


class CanonicalError(InputError):
    """A value that RFC 8785 cannot spell: it has no hash."""


class PolicyError(InputError):
    """A policy file that is wrong; `line` and `column` count from 1, 0 when unknown."""

    def __init__(self, message: str, *, source: str = "policy", line: int = 0, column: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source = source
        self.line = line
        self.column = column

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{where}: {super().__str__()}"


class SigningKeyError(TipstaffError):
    """A key that cannot be made, read or used."""

    exit_code = 77


class NotFoundError(TipstaffError):
    """A file or a record that was named and is not there."""

    exit_code = 66


class StoreError(TipstaffError):
    """A database or a blob that cannot be read or written."""

    exit_code = 74


class BusyError(StoreError):
    """A database that somebody else is writing to; nothing was changed, so the same can be tried again."""


class PlaneError(TipstaffError):
    """A step of the protocol that the plane does not take; `status` is HTTP's word for it."""

    exit_code = 69

    def __init__(self, message: str, *, status: int, code: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint="; ".join(reasons))
        self.status = status
        self.code = code
        self.reasons = reasons


class SecretError(TipstaffError):
    """A secret that cannot be had from its source. Never carries a value, nor a part or the length of one."""

    exit_code = 77
