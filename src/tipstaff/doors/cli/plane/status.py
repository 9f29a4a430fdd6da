"""`tipstaff plane status`: say what the plane holds: its key, its policy, who may ask, its runners and its runs.

Reads the plane's home, whether it serves or not.

Example:
  tipstaff plane status --json
"""

import argparse
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.plane.place import add_home, opened, plane_home
from tipstaff.local.serving import plane_policy

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_home(parser)


def run(args: argparse.Namespace) -> int:
    """Say it."""
    home = plane_home(args)
    with opened(args) as plane:
        policy = plane_policy(home)
        told: Json = {
            "home": str(home.root),
            "keyId": plane.public_keys()[0]["keyId"],
            "policy": policy.document.name,
            "policyHash": policy.hash,
            "principals": plane.people.all(),
            "runners": plane.runners(),
            "metrics": plane.metrics(),
        }
    if args.json:
        emit_json(told)
    else:
        _tell(told)
    return 0


def _tell(told: Json) -> None:
    say(f"home:       {told['home']}")
    say(f"key:        {told['keyId']}")
    say(f"policy:     {told['policy']} ({told['policyHash'][:16]})")
    for one in told["principals"]:
        say(f"principal:  {one['name']}, {one['role']}{', revoked' if 'revokedAt' in one else ''}")
    for one in told["runners"]:
        seen = f"last seen {one['lastSeenAt']}" if one.get("lastSeenAt") else "not seen yet"
        say(f"runner:     {one['runnerId']}, pool {one['pool']}, {seen}{', drains' if one['drain'] else ''}")
    counts = ", ".join(f"{count} {state}" for state, count in sorted(told["metrics"]["runs"].items()) if count)
    say(f"runs:       {counts or 'none yet'}")
