"""How the `process` tier narrows a process down before it becomes a command: its view, its rights, its system calls.

Called in a forked child, in this order: `view` while it may still mount, then the launcher takes its uid away, then
`close`, after which nothing can be taken back. Where nothing can be mounted the host's folders stay where they are, and
Landlock alone says which may be touched. What was achieved is tried out by the process itself, and told.
"""

import contextlib
import ctypes
import os
import socket
from typing import Any, Final, NamedTuple

from tipstaff.isolation import kernel, landlock
from tipstaff.isolation.landlock import READ, READ_FILE, READ_FOLDER, WRITE_FILE, Rule

# Folders of the host that are covered by empty ones: what others keep there is neither seen nor changed.
SCRATCH: Final = ("/tmp", "/home", "/dev/shm")  # noqa: S108 - mounted for one command alone
WORKSPACE: Final = "/home/workspace"
_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = (
    "/etc/alternatives", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf",
    "/etc/passwd", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
    "/proc/cpuinfo", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version",
    "/proc/sys/kernel/osrelease", "/proc/sys/kernel/random", "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
)  # fmt: skip
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK)

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER, _DROP_BOUND = 38, 22, 2, 24


class Narrowing(NamedTuple):
    """What one command may touch, and where that lies before its own view is made."""

    workspace: str
    readable: tuple[tuple[str, str], ...]
    replaced: tuple[tuple[str, str], ...]
    scratch_bytes: int
    filter: bytes
    stage: str  # the folder of the spawner's mounts, to be taken out of sight; empty where nothing can be mounted
    uid: int
    port: int  # where connections may go, if anywhere
    meant: dict[str, tuple[int, int]]  # which very folder or file a granted path was, where nothing can be mounted


def view(wanted: Narrowing) -> str:
    """Give the process a view of its own, as far as one can be made; returns where its workspace is then."""
    _drop_bounds()
    if not wanted.stage:
        os.chdir(wanted.workspace)
        here = os.stat(".")
        landlock.refuse_other(wanted.workspace, here, wanted.meant.get(wanted.workspace))
        return "."
    kernel.unshare(kernel.NEW_MOUNTS)
    shown = [(wanted.workspace, WORKSPACE), *wanted.readable, *((source, place) for place, source in wanted.replaced)]
    trees = [(kernel.cloned(source), place) for source, place in shown]
    kernel.set_attributes("/", kernel.ATTRIBUTE_READ_ONLY | kernel.ATTRIBUTE_NO_SUID, below=True)
    kernel.unmount(wanted.stage)
    for folder in SCRATCH:
        options = f"mode=0755,size={wanted.scratch_bytes},uid={wanted.uid},gid={wanted.uid}"
        kernel.mount("tmpfs", folder, "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES, options)
    for tree, place in trees:
        _make_place(tree, place)
        kernel.put(tree, place)
    os.chdir(WORKSPACE)
    return WORKSPACE


def _make_place(tree: int, place: str) -> None:
    """Make the way to a place that the empty folders cover; elsewhere it is there already."""
    if not any(place.startswith(f"{folder}/") for folder in SCRATCH):
        return
    if os.path.isdir(f"/proc/self/fd/{tree}"):
        os.makedirs(place, exist_ok=True)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.close(os.open(place, os.O_CREAT | os.O_CLOEXEC, 0o444))


def close(wanted: Narrowing, workspace: str) -> dict[str, Any]:
    """Take away, for good, every right that the command is not to have; says what then really holds."""
    kernel.control(_NO_NEW_PRIVILEGES, 1)
    found = landlock.restrict(rules(wanted, workspace, os.getpid()), wanted.port) if landlock.version() else 0
    _filter(wanted.filter)
    return {"landlock": found, "listed": _listed("/"), "sockets": [family for family in _FAMILIES if _made(family)]}


def rules(wanted: Narrowing, workspace: str, process: int) -> list[Rule]:
    """List what may be touched: the system to be read and run, the workspace and scratch folders to be changed."""
    every = landlock.everything(landlock.version())
    return [
        *(Rule(path, READ) for path in _PROGRAMS),
        *(Rule(path, READ_FILE | READ_FOLDER) for path in (*_SETTINGS, f"/proc/{process}")),
        *(Rule(path, READ_FILE | WRITE_FILE) for path in _DEVICES),
        *(Rule(place, READ, wanted.meant.get(place)) for _, place in wanted.readable),
        *(Rule(path, every) for path in (workspace, *(SCRATCH if wanted.stage else ()))),
    ]


def _drop_bounds() -> None:
    """Give up every capability for what is started later; an ordinary user has none to give up."""
    with contextlib.suppress(OSError):
        for number in range(64):
            kernel.control(_DROP_BOUND, number)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter(instructions: bytes) -> None:
    program = _Program(len(instructions) // 8, instructions)
    kernel.control(_SECCOMP, _FILTER, ctypes.addressof(program))


def _listed(folder: str) -> bool:
    try:
        os.listdir(folder)
    except OSError:
        return False
    return True


def _made(family: int) -> bool:
    try:
        socket.socket(family, socket.SOCK_STREAM if family != socket.AF_NETLINK else socket.SOCK_RAW).close()
    except OSError:
        return False
    return True
