"""The value of a secret, as a person hands it over: on stdin, or typed unseen. Never on the command line.

What stands on a command line can be read by every process of the machine and stays in the shell's history, so it is
refused before anything parses it, and never repeated in the message.
"""

import getpass
import os
import sys
import warnings
from collections.abc import Callable
from typing import Final, TypeVar

from tipstaff.errors import InputError, TipstaffError, UsageError
from tipstaff.home import locate
from tipstaff.secrets.guard import no_dumps
from tipstaff.secrets.origins import is_name
from tipstaff.secrets.sealed import SealedStore
from tipstaff.secrets.sources import MAX_BYTES, Sources, fault_of

T = TypeVar("T")
LONGEST_LINE: Final = 4095  # what a terminal takes in one line; it drops the rest without a word

_FRAME: Final = frozenset({"-h", "--help", "--json", "--"})


def refuse_values(argv: list[str], path: str) -> None:
    """Refuse a command line that holds more than one name: what else is there may be a secret."""
    words = [word for word in argv if word not in _FRAME]
    if len(words) > 1 or any(word.startswith("-") or "=" in word for word in words):
        raise UsageError(
            f"{path} takes a name and nothing else: a value on the command line can be read by every process",
            hint=f"pass it on stdin, or run it on a terminal to be asked; see: tipstaff {path} --help",
        )


def store_for(name: str) -> SealedStore:
    """Open the store to keep a value in: the name must be one, and must not come from elsewhere."""
    if not is_name(name):
        raise UsageError("this cannot name a secret", hint="use letters, digits, `_`, `.`, `-` and `/`")
    no_dumps()
    home = locate(os.environ)
    home.make()
    if kind := Sources(home.root, os.environ).kept_elsewhere(name):
        raise UsageError(f"secrets.yaml says that {name} comes from `{kind}`", hint="change it there, or take it out")
    return SealedStore(home.root)


def value_for(name: str) -> str:
    """Read the value; a text that cannot be kept out of outputs is refused, and never quoted."""
    value, fault = _checked(name)
    if fault:
        raise InputError(f"this cannot be the value of {name}: {fault}")
    return value


def without_trace(step: Callable[[], T]) -> T:
    """Do something with a value; an error leaves without the frames that it passed, because these hold the value."""
    try:
        return step()
    except (TipstaffError, OSError) as error:
        raise error.with_traceback(None) from None


def _checked(name: str) -> tuple[str, str]:
    value, fault = _typed(name) if sys.stdin is not None and sys.stdin.isatty() else _piped()
    fault = fault or fault_of(value)
    return ("", fault) if fault else (value, "")


def _typed(name: str) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            value = getpass.getpass(f"Value of {name} (not shown): ")
        except (getpass.GetPassWarning, EOFError):
            return "", "it cannot be asked for unseen here; pass it on stdin"
    if len(value.encode(errors="replace")) >= LONGEST_LINE:
        return "", "it may have been cut by the terminal; pass it on stdin"
    return value, ""


def _piped() -> tuple[str, str]:
    if sys.stdin is None:
        return "", "stdin is closed"
    data = sys.stdin.buffer.read(MAX_BYTES + 2)
    if not data:
        return "", "stdin is empty"
    if len(data) > MAX_BYTES + 1:
        return "", f"it is longer than {MAX_BYTES} bytes"
    try:
        return data.removesuffix(b"\n").decode(), ""
    except UnicodeDecodeError:
        return "", "it is not UTF-8 text; encode it, with base64 for example"
