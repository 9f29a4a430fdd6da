"""Where a spawner keeps its locks and what commands write, and where bubblewrap is.

Imports next to nothing: it is asked on the first line.
"""

import os
import stat

BUBBLEWRAP = "/usr/bin/bwrap"


def state_folder(environ: "os._Environ[str] | dict[str, str]") -> str:
    """Say where locks are kept: one place for the whole host as root, one for each user otherwise."""
    user = os.geteuid()
    if user == 0:
        return "/run/tipstaff"
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _belongs_to(runtime, user):
        return f"{runtime}/tipstaff"
    return f"/tmp/tipstaff-{user}"  # noqa: S108 - the spawner makes sure that it is the user's own


def scratch_folder() -> str:
    """Say where what commands write is kept until they end: on disk, not in memory."""
    return f"/var/tmp/tipstaff-{os.geteuid()}"  # noqa: S108 - the spawner makes sure that it is the user's own


def _belongs_to(folder: str, user: int) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user
