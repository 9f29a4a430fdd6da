"""The versions that matter when something does not hold: ours, the kernel's, and those of what we stand on."""

import os
import platform
import sqlite3
import subprocess
from importlib import metadata
from typing import Final

from tipstaff.isolation import places

PATIENCE_SECONDS: Final = 10.0
ABSENT: Final = "not there"


def versions() -> dict[str, str]:
    """Name each part and its version."""
    system = os.uname()
    return {
        "tipstaff": metadata.version("tipstaff"),
        "kernel": f"{system.sysname} {system.release} {system.machine}",
        "distribution": _distribution(),
        "bubblewrap": _bubblewrap(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _bubblewrap() -> str:
    try:
        told = subprocess.run(  # noqa: S603 - our own program by its full path, nothing of a user's is in it
            [places.BUBBLEWRAP, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ABSENT
    return told.stdout.decode(errors="replace").strip().removeprefix("bubblewrap ") or ABSENT
