"""The system calls that Python has no words for: namespaces, mounts, and how a process ended.

Thin: each function is one call, or a few in the one order that works, and raises OSError like `os` does.
"""

import ctypes
import errno
import fcntl
import os
import struct
from typing import Final

NEW_MOUNTS: Final = 0x00020000
NEW_USER: Final = 0x10000000
NEW_NET: Final = 0x40000000

READ_ONLY: Final = 1
NO_SUID: Final = 2
NO_DEVICES: Final = 4
NO_EXEC: Final = 8
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 1 << 18
_DETACH: Final = 2

_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
_CLONE_CLOEXEC: Final = 1 | os.O_CLOEXEC
ATTRIBUTE_READ_ONLY: Final = 1
ATTRIBUTE_NO_SUID: Final = 2
ATTRIBUTE_NO_DEVICES: Final = 4
ATTRIBUTE_NO_EXEC: Final = 8
_MOUNT_ATTR_IDMAP: Final = 0x00100000
_BIND: Final = 4096
_HERE: Final = -100
_PART: Final = 65536
_FROM_EMPTY_PATH: Final = 4

_SUBREAPER: Final = 36
_DEATH_SIGNAL: Final = 1
_GET_INFO: Final = (3 << 30) | (64 << 16) | (0xFF << 8) | 11  # PIDFD_GET_INFO, Linux 6.13
_EXIT_INFO: Final = 1 << 3  # PIDFD_INFO_EXIT, Linux 6.15

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, name: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name or None)
    return result


def call(number: int, *arguments: object) -> int:
    """Make a system call by its number."""
    return _checked(_libc.syscall(number, *arguments))


def told(path: str) -> str:
    """Read one of the kernel's own files; empty where it does not say. Twice as fast as opening it as text."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(descriptor, _PART):
            parts.append(part)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return b"".join(parts).decode(errors="replace")


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(flags))


def enter(namespace: int, kind: int) -> None:
    """Enter the namespace that a descriptor names."""
    _checked(_libc.setns(namespace, kind))


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount a file system."""
    _checked(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()), target
    )


def bind(source: str, target: str) -> None:
    """Show a folder or a file, with what is mounted below it, at another place too."""
    _checked(
        _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_BIND | _RECURSIVE), None), target
    )


def set_attributes(target: str, attributes: int, *, below: bool = False) -> None:
    """Restrict one mount, or all `below` it too, further; what already restricts it stays."""
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    size, how = ctypes.c_size_t(len(wanted)), _AT_RECURSIVE if below else 0
    _checked(_libc.syscall(_MOUNT_SETATTR, _HERE, os.fsencode(target), how, wanted, size), target)


def own_mounts() -> None:
    """Keep every later mount to this mount namespace."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None), "/")


def unmount(target: str) -> None:
    """Take a mount away, at once for new users and for old ones when they are done."""
    _checked(_libc.umount2(os.fsencode(target), _DETACH), target)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent died."""
    _checked(_libc.prctl(_SUBREAPER, 1, 0, 0, 0))


def die_with(parent: int, signal_number: int) -> None:
    """Get a signal when the parent dies, also when it has died already."""
    _checked(_libc.prctl(_DEATH_SIGNAL, signal_number, 0, 0, 0))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def attach(source: int, target: str, owner: int | None = None, attributes: int = 0) -> None:
    """Show what the descriptor `source` names at `target`; `owner` is a user namespace that maps its owners."""
    tree = call(_OPEN_TREE, source, b"", _CLONE_CLOEXEC | _AT_EMPTY_PATH)
    try:
        if owner is not None:
            attributes |= _MOUNT_ATTR_IDMAP
        if attributes:
            wanted = struct.pack("=QQQQ", attributes, 0, 0, owner or 0)
            size = ctypes.c_size_t(len(wanted))
            _checked(_libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, wanted, size), target)
        _checked(_libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), _FROM_EMPTY_PATH), target)
    finally:
        os.close(tree)


def cloned(source: str) -> int:
    """Take a mount, to be put elsewhere whatever becomes of the place where it is."""
    return call(_OPEN_TREE, _HERE, os.fsencode(source), _CLONE_CLOEXEC)


def put(tree: int, target: str) -> None:
    """Show a mount that was taken at `target`."""
    _checked(_libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), _FROM_EMPTY_PATH), target)


def control(option: int, *arguments: int) -> None:
    """Change something about this process (prctl)."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    _checked(_libc.prctl(option, *map(ctypes.c_ulong, padded)))


def owner_map(inside: tuple[int, int], outside: tuple[int, int]) -> int:
    """Make a user namespace in which (uid, gid) `inside` is `outside`, for id-mapped mounts; returns a descriptor."""
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go_write)
        failed = _libc.unshare(NEW_USER)
        os.write(ready_write, b"x" if failed == 0 else b"f")
        os.read(go_read, 1)
        os._exit(0)
    try:
        os.close(go_read)
        os.close(ready_write)
        if os.read(ready_read, 1) != b"x":
            raise OSError(errno.EPERM, "a user namespace cannot be made")
        for name, number, other in zip(("uid_map", "gid_map"), inside, outside, strict=True):
            _write(f"/proc/{child}/{name}", f"{number} {other} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(go_write)
        os.close(ready_read)
        os.waitpid(child, 0)


def enter_own_namespaces() -> None:
    """As an ordinary user, enter a user and a mount namespace of one's own in which one is still oneself."""
    user, group = os.geteuid(), os.getegid()
    unshare(NEW_USER | NEW_MOUNTS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def exit_status(process: int) -> int | None:
    """Give the wait status of a process that is gone, by its pidfd; None where the kernel does not tell."""
    buffer = bytearray(struct.pack("=Q", _EXIT_INFO).ljust(64, b"\0"))
    try:
        fcntl.ioctl(process, _GET_INFO, buffer)
    except OSError:
        return None
    told, status = struct.unpack("=Q52xi", buffer)
    return int(status) if told & _EXIT_INFO else None


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
