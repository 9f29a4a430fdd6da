"""What is really so, read from the kernel for one sandbox while its command still waits. Says, and judges nothing."""

import os
from typing import Any, Final

from tipstaff.isolation.cgroup import Group
from tipstaff.isolation.kernel import told

NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_OURS: Final[dict[str, str]] = {}  # asked once: a spawner has settled before it builds anything
_WANTED: Final = ("CapBnd", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp", "Uid", "Gid")


def facts(process: int, group: Group | None) -> dict[str, Any]:
    """Read what holds for `process`, the one that will become the command."""
    status = dict(line.split(":\t", 1) for line in told(f"/proc/{process}/status").splitlines() if ":\t" in line)
    return {
        "status": {name: status.get(name, "") for name in _WANTED},
        "own": [name for name in NAMESPACES if _own(process, name)],
        "interfaces": [line.split(":")[0].strip() for line in told(f"/proc/{process}/net/dev").splitlines()[2:]],
        "limits": _limits(process),
        "group": group.bounds() if group is not None and group.holds(told(f"/proc/{process}/cgroup")) else {},
        "ours": os.geteuid(),
        "groupVersion": group.version if group is not None else 0,
    }


def _own(process: int, name: str) -> bool:
    """Say whether a namespace is another one than ours; what cannot be read counts as ours."""
    if name not in _OURS:
        _OURS[name] = os.readlink(f"/proc/self/ns/{name}")
    try:
        return os.readlink(f"/proc/{process}/ns/{name}") != _OURS[name]
    except OSError:
        return False


def _limits(process: int) -> dict[str, int]:
    found = {}
    for line in told(f"/proc/{process}/limits").splitlines()[1:]:
        name, value = line[:26].strip(), line[26:47].strip()
        if name in {"Max processes", "Max file size"} and value.isdigit():
            found[name] = int(value)
    return found
