"""Which policy holds: the one that is named, else $TIPSTAFF_POLICY, else the home's, else the door's shipped default.

A policy inside a workspace is never read: whoever writes there would write their own permission.
"""

from collections.abc import Mapping
from pathlib import Path

from tipstaff.home import Home
from tipstaff.policy import Policy


def choose_policy(home: Home, named: str | None, environ: Mapping[str, str], door: str = "cli") -> Policy:
    """Load the policy that holds here."""
    from tipstaff.policy.load import load_policy  # noqa: PLC0415 - a file is parsed by whoever has one

    for path in (named, environ.get("TIPSTAFF_POLICY")):
        if path:
            return load_policy(Path(path))
    if home.policy.exists():
        return load_policy(home.policy)
    from tipstaff.policy.shipped import DEFAULTS, shipped  # noqa: PLC0415 - as above

    return shipped(DEFAULTS[door])
