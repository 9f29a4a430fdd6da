"""Every error that Tipstaff raises, in one tree.

    TipstaffError
    ├── UsageError          the caller asked for something that cannot be meant
    ├── InputError          bytes from outside do not parse
    │   ├── CanonicalError  a value that RFC 8785 cannot spell
    │   └── PolicyError     a policy file is wrong, with line and column
    ├── SigningKeyError     a key cannot be made, read or used
    └── NotFoundError       a file or a record that was named does not exist

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
