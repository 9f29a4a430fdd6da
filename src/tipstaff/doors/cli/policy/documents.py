"""The files that the policy commands read: policies, requests and facts, all bounded and none trusted.

A policy is named by its path or, for one that Tipstaff ships, as `shipped:NAME`. Every fault is an error of ours with
the file's name, and the line and column where there is one.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from tipstaff.errors import InputError, NotFoundError, PolicyError
from tipstaff.model.facts import Facts
from tipstaff.model.request import Request, parse_request
from tipstaff.policy.shipped import text_of
from tipstaff.policy.strict_yaml import MAX_BYTES

SHIPPED = "shipped:"
MAX_REQUEST_BYTES = 16 * 1024 * 1024  # a request may carry a whole manifest
POLICY_HELP = "a policy file, or shipped:NAME for one that Tipstaff ships (local, twins, inbox, ecs, mcp)"


def policy_text(name: str) -> tuple[str, str]:
    """Read the policy `name`: its text, and what errors and patches call it."""
    if name.startswith(SHIPPED):
        shipped = name.removeprefix(SHIPPED)
        return text_of(shipped), f"{shipped}.yaml"
    data = _read(name, MAX_BYTES, "policy file")
    try:
        return data.decode(), name
    except UnicodeDecodeError as error:
        line, column = _place(data, error.start)
        raise PolicyError("this is not UTF-8 text", source=name, line=line, column=column) from None


def read_request(name: str) -> Request:
    """Read the request in the JSON file `name`, or on stdin for `-`."""
    try:
        return parse_request(_json(name, "request"))
    except InputError as error:
        raise InputError(f"{name}: {error.message}" if not error.message.startswith(name) else error.message) from None


def read_facts(name: str | None) -> Facts:
    """Read what the door and the host know, from the JSON file `name`; nothing is known without one."""
    if name is None:
        return Facts()
    try:
        return msgspec.convert(_json(name, "file of facts"), Facts)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: the facts are malformed: {error}") from None


def _json(name: str, what: str) -> Any:
    data = _read(name, MAX_REQUEST_BYTES, what)
    try:
        return json.loads(data.decode(), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        line, column = _place(data, error.start)
        raise InputError(f"{name}:{line}:{column}: this is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{name}:1:1: this is nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits, or NaN
        raise InputError(f"{name}:1:1: this is not JSON: {error}") from None


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not a number that JSON has")


def _read(name: str, limit: int, what: str) -> bytes:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(limit + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no {what} {name}", hint="name one that exists") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: the {what} cannot be read: {reason}") from None
    if len(data) > limit:
        raise InputError(f"{name}:1:1: the {what} is larger than {limit} bytes")
    return data


def _place(data: bytes, offset: int) -> tuple[int, int]:
    return data[:offset].count(b"\n") + 1, offset - data.rfind(b"\n", 0, offset)
