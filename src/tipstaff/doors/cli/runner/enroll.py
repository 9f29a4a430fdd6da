"""`tipstaff runner enroll`: make a key for this runner, and make it known to a plane.

The plane's own key is pinned at once: from then on only contracts that it signed are carried out. Done again, it
changes nothing.

Example:
  TIPSTAFF_ENROLL_TOKEN=… tipstaff runner enroll --plane https://plane.example.com:7172 --pool builds
"""

import argparse
import asyncio

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.runner.options import add_data, add_plane, made_data, surroundings, tell, wish_of
from tipstaff.runner.enrolling import identity_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_plane(parser, required=True)
    add_data(parser)


def run(args: argparse.Namespace) -> int:
    """Enroll it, and say as whom."""
    environ = surroundings()
    data = made_data(args, environ)
    identity, is_new = asyncio.run(identity_of(data, wish_of(args, data, environ), tell))
    record = identity.record
    if args.json:
        said = {"runnerId": record.runner_id, "pool": record.pool, "keyId": identity.key.public.key_id}
        emit_json({**said, "planeKeyId": identity.plane_key.key_id, "data": str(data), "new": is_new})
    else:
        say(f"runner {record.runner_id} is enrolled: pool {record.pool}, plane key {identity.plane_key.key_id}")
        say(
            f"start it with: tipstaff runner start --data {data}"
            if args.data
            else "start it with: tipstaff runner start"
        )
    return 0
