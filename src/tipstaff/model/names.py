"""File names as records spell them, and the other way round: any bytes, and nothing is lost.

A name is bytes, relative, with `/` between its parts. One that is UTF-8 is a text as it is; any other is escaped for
people and stands beside it in base64. `fault` says what no name beneath a folder may be. Pure.
"""

import base64
import binascii
from typing import Any, Final

from tipstaff.errors import InputError

Json = dict[str, Any]
LONGEST: Final = 4095  # PATH_MAX without its NUL
LONGEST_PART: Final = 255  # NAME_MAX


def fault(name: bytes) -> str:
    """Say why this cannot be the name of something beneath a folder; empty when it can."""
    if not name or len(name) > LONGEST:
        return "it is empty" if not name else "it is longer than 4095 bytes"
    if b"\0" in name:
        return "it holds a NUL"
    parts = name.split(b"/")
    if b"" in parts:
        return "it is absolute, or a part of it is empty"
    if b"." in parts or b".." in parts:
        return "it goes by way of . or .."
    return "a part of it is longer than 255 bytes" if max(map(len, parts)) > LONGEST_PART else ""


def shown(name: bytes) -> str:
    """Spell a name for people: bytes that are no text are escaped."""
    return name.decode("utf-8", "backslashreplace")


def spelled(name: bytes, key: str = "path") -> Json:
    """Spell a name for a record, under `key`, and its bytes beside it where it is no text."""
    try:
        return {key: name.decode()}
    except UnicodeDecodeError:
        return {key: shown(name), f"{key}Bytes": base64.b64encode(name).decode()}


def read(said: Json, key: str = "path") -> bytes:
    """Read the name that a record spells under `key`; InputError when it is none, or its two spellings differ."""
    text, encoded = said.get(key), said.get(f"{key}Bytes")
    try:
        if encoded is None:
            name = text.encode() if type(text) is str else b""
        else:
            name = base64.b64decode(encoded, validate=True)
            if spelled(name, key) != {key: text, f"{key}Bytes": encoded}:
                raise InputError(f"a name has two spellings that differ: {text!r}")
    except (UnicodeEncodeError, binascii.Error, TypeError, ValueError) as error:
        raise InputError(f"this is not the name of a file: {text!r}") from error
    if problem := fault(name):
        raise InputError(f"{shown(name)[:200]!r} is not the name of something in a folder: {problem}")
    return name
