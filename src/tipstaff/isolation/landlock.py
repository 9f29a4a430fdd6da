"""Landlock: which files a process and all that it starts may touch, which the kernel then enforces for good.

What no rule allows is denied: every right that this kernel's version knows is handled. From version 4 on TCP is denied
as well, from version 6 on signals to, and abstract sockets of, processes outside. Does not hide names and sizes, and
knows no UDP: other walls have to.
"""

import ctypes
import os
import stat
import struct
from typing import Final, NamedTuple

from tipstaff.isolation import kernel

EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, DEVICE_IOCTL = 1 << 14, 1 << 15
READ: Final = EXECUTE | READ_FILE | READ_FOLDER
_OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_IOCTL
_HANDLED: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}  # by version; from 5 on with ioctl on devices
_ALL: Final = 0xFFFF
_TCP: Final = 0b11  # bind and connect
_SCOPES: Final = 0b11  # abstract sockets and signals
_WITH_NETWORK: Final = 4
_WITH_SCOPES: Final = 6
_PATH_BENEATH, _NET_PORT = 1, 2
_CONNECT: Final = 0b10
_VERSION: Final = 1

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same for every architecture


class Rule(NamedTuple):
    """What may be done at a path, and below it."""

    path: str
    rights: int
    meant: tuple[int, int] | None = None  # which very file that is, where it must not be another by now


def refuse_other(path: str, found: os.stat_result, meant: tuple[int, int] | None) -> None:
    """Refuse what took the place of a path since it was looked at."""
    if meant not in {None, (found.st_dev, found.st_ino)}:
        raise OSError(f"'{path}' was exchanged for something else")


def version() -> int:
    """Ask the kernel for its version of Landlock; 0 for none."""
    try:
        return kernel.call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    except OSError:
        return 0


def everything(found: int) -> int:
    """All rights on files that this version can take away."""
    return _HANDLED.get(found, _ALL)


def attributes(found: int) -> bytes:
    """Spell a set of rules that handles all that this version can."""
    network = _TCP if found >= _WITH_NETWORK else 0
    scopes = _SCOPES if found >= _WITH_SCOPES else 0
    size = 8 if found < _WITH_NETWORK else 16 if found < _WITH_SCOPES else 24
    return struct.pack("=QQQ", everything(found), network, scopes)[:size]


def restrict(rules: list[Rule], port: int = 0) -> int:
    """Restrict the calling thread, which must have no_new_privs, for ever; gives the version. OSError without one.

    Connections by TCP may go to `port`, if it is one, of whatever host: Landlock knows no addresses.
    """
    found = version()
    wanted = attributes(found)
    ruleset = kernel.call(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), 0)
    try:
        for rule in rules:
            _add(ruleset, rule, everything(found))
        if port and found >= _WITH_NETWORK:
            kernel.call(_ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", _CONNECT, port), 0)
        kernel.call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return found


def _add(ruleset: int, rule: Rule, known: int) -> None:
    try:
        place = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        found = os.fstat(place)
        refuse_other(rule.path, found, rule.meant)
        folder = stat.S_ISDIR(found.st_mode)
        rights = rule.rights & known & (_ALL if folder else _OF_FILES)
        kernel.call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
