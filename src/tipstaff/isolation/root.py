"""The part of a root that all sandboxes of this host share: made once, bound as one.

Bubblewrap makes a mount for every folder and device, and reads the whole table of mounts for each: a root that stands
ready saves a quarter of a start. It lies in the spawner's own mount namespace, is read-only from its first use on, and
nobody's: a sandbox gets a view of it, and its own /proc, /tmp, /home, /dev/shm, /dev/pts and workspace on top.
"""

import contextlib
import os
from typing import Final

from tipstaff.isolation import kernel
from tipstaff.isolation.bubblewrap import HOME, WORKSPACE, System

DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_BYTES: Final = 1 << 22
_PLAIN: Final = kernel.ATTRIBUTE_READ_ONLY | kernel.ATTRIBUTE_NO_SUID | kernel.ATTRIBUTE_NO_DEVICES


def prepare(folder: str, system: System, contents: list[bytes]) -> str:
    """Make the shared root at `folder`; empty where this kernel cannot, and bubblewrap then builds each by itself."""
    os.mkdir(folder, 0o755)
    options = f"mode=0755,size={_BYTES}"
    try:
        kernel.mount("tmpfs", folder, "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES, options)
        _fill(folder, system, contents)
        _devices(f"{folder}/dev")
        kernel.set_attributes(folder, _PLAIN)
    except OSError:
        with contextlib.suppress(OSError):
            kernel.unmount(folder)
        os.rmdir(folder)
        return ""
    return folder


def _fill(folder: str, system: System, contents: list[bytes]) -> None:
    for name in ("etc", "var", "proc", "dev", "tmp", HOME.strip("/"), WORKSPACE.strip("/")):
        os.mkdir(f"{folder}/{name}")
    for target, name in system.links:
        os.symlink(target, folder + name)
    os.symlink("/tmp", f"{folder}/var/tmp")  # noqa: S108 - a place inside the sandbox
    for name, content in zip(system.files, contents, strict=True):
        descriptor = os.open(folder + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        os.write(descriptor, content)
        os.close(descriptor)
    for name in system.folders:
        os.makedirs(folder + name, exist_ok=True)
        kernel.bind(name, folder + name)
        kernel.set_attributes(folder + name, _PLAIN, below=True)


def _devices(folder: str) -> None:
    kernel.mount("tmpfs", folder, "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES, f"mode=0755,size={_BYTES}")
    for name in DEVICES:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        kernel.bind(f"/dev/{name}", f"{folder}/{name}")
        kernel.set_attributes(f"{folder}/{name}", kernel.ATTRIBUTE_NO_SUID | kernel.ATTRIBUTE_NO_EXEC)
    for name, target in _LINKS.items():
        os.symlink(target, f"{folder}/{name}")
    for name in ("shm", "pts"):
        os.mkdir(f"{folder}/{name}")
    kernel.set_attributes(folder, _PLAIN)
