"""`tipstaff runner status`: who the runner of a folder is, whether it works, and what its plane lacks or did not take.

Example:
  tipstaff runner status --json
"""

import argparse
from pathlib import Path
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.runner.options import add_data, data_of, surroundings
from tipstaff.errors import NotFoundError
from tipstaff.runner.identity import enrolled, open_directory, pinned
from tipstaff.runner.lock import holder
from tipstaff.runner.spool import Spool

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)


def run(args: argparse.Namespace) -> int:
    """Say it."""
    said = status_of(data_of(args, surroundings()))
    if args.json:
        emit_json(said)
        return 0
    say(f"runner {said['runnerId']}: pool {said['pool']}, plane {said['plane'] or 'unknown'}, key {said['planeKeyId']}")
    say(f"at work as process {said['pid']}" if said["pid"] else "not at work")
    waiting = said["spool"]
    say(f"in the spool: {', '.join(waiting)}" if waiting else "in the spool: nothing")
    rejected = said["rejected"]
    if rejected["count"]:
        say(f"not taken by the plane: {rejected['count']}, put aside in {rejected['folder']}")
    return 0


def status_of(data: Path) -> Json:
    """Read the runner's folder; writes nothing."""
    record = None
    if data.is_dir():
        open_directory(data)
        record = enrolled(data)
    if record is None:
        raise NotFoundError(f"no runner is enrolled in {data}", hint="enroll one with: tipstaff runner enroll")
    key = pinned(data)
    folder, count = Spool.rejected(data)
    return {
        "runnerId": record.runner_id,
        "pool": record.pool,
        "plane": record.plane_url,
        "planeKeyId": key.key_id if key is not None else "not pinned",
        "data": str(data),
        "pid": holder(data),
        "spool": Spool.names(data),
        "rejected": {"count": count, "folder": str(folder)},
    }
