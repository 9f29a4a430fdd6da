"""Why a sandbox cannot be had on this host, and what mends it."""

import os
from pathlib import Path
from typing import Final

from tipstaff.isolation import places

_SETTINGS: Final = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)
_CONTAINER: Final = ("/.dockerenv", "/run/.containerenv")
_IN_CONTAINER: Final = (
    "start the container with: --security-opt seccomp=unconfined --security-opt systempaths=unconfined "
    "--security-opt apparmor=unconfined"
)


def cause(reason: str, root: Path = Path("/")) -> tuple[str, str]:
    """Say what keeps this host from having a sandbox, beside what was heard, and the exact remedy, if there is one."""
    if not os.access(root / places.BUBBLEWRAP.lstrip("/"), os.X_OK):
        return f"{places.BUBBLEWRAP} is not there", "apt-get install bubblewrap"
    for path, value, remedy in _SETTINGS:
        if read(str(root / path.lstrip("/"))) == value:
            restriction = "AppArmor restricts user namespaces" if "apparmor" in path else "user namespaces are off"
            return f"{restriction} ({path} is {value})", f"sysctl -w {remedy}"
    if any((root / path.lstrip("/")).exists() for path in _CONTAINER):
        return f"{reason} (inside a container)", _IN_CONTAINER
    return reason, ""


def diagnosis(reason: str) -> str:
    """Say in a sentence or two what is wrong with this host, and how to mend it."""
    found, remedy = cause(reason)
    return (
        f"{found}; as root, run: {remedy}"
        if remedy.startswith(("apt", "sysctl"))
        else "; ".join(filter(None, (found, remedy)))
    )


def read(path: str) -> str:
    """Read a small file of the kernel's; empty when there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
