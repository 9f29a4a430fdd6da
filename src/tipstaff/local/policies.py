"""Which policy holds: the one that is named, else $TIPSTAFF_POLICY, else the home's, else the door's shipped default.

A policy inside a workspace is never read: whoever writes there would write their own permission. The home's own is
not read where others may write it; one that is named is its namer's business.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tipstaff import policy
from tipstaff.errors import PolicyError
from tipstaff.home import Home
from tipstaff.policy import Policy


def choose_policy(home: Home, named: str | None, environ: Mapping[str, str], door: str = "cli") -> Policy:
    """Load the policy that holds here."""
    for path in (named, environ.get("TIPSTAFF_POLICY")):
        if path:
            return policy.load_policy(Path(path))
    if os.path.lexists(home.policy):  # also a link to nowhere: the default might allow more
        found = policy.load_policy(home.policy)
        refuse_others(home.policy)
        return found
    from tipstaff.policy.shipped import DEFAULTS, shipped  # noqa: PLC0415 - whoever has a file of their own needs none

    return shipped(DEFAULTS[door])


def refuse_others(path: Path) -> None:
    """Refuse a policy that other users could have written."""
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PolicyError(
            f"{path} can be written by other users, who could permit themselves everything",
            hint=f"look at it, then run: chown $USER {path} && chmod 600 {path}",
        )
