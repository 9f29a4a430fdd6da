"""`tipstaff prune`: remove what ended long ago, oldest first, by age or until the store is small enough.

Without an age or a size, what each contract says of its retention holds. The journal stays whole, with a mark for each
removal: that something was there, and was removed on purpose, can still be seen. What has not ended is never touched.

Example:
  tipstaff prune --older-than 90d --dry-run
  tipstaff prune --down-to 1G
"""

import argparse
import os
from typing import Any

from tipstaff.doors.amounts import duration_ms, size_bytes
from tipstaff.doors.cli.desk import opened_here
from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.wording import size
from tipstaff.home import locate
from tipstaff.local.workspaces import UNUSED_SECONDS
from tipstaff.plane import Plane
from tipstaff.workspace.apply.undo import forget_missing
from tipstaff.workspace.depot import Depot

Json = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_amounts(parser)


def run(args: argparse.Namespace) -> int:
    """Remove it, or say what would be."""
    older_than_ms, down_to_bytes = amounts(args)
    with opened_here() as plane:
        told = plane.prune(older_than_ms, down_to_bytes, dry=args.dry_run)
        if not args.dry_run:
            told |= _workspaces(plane, older_than_ms)
    tell(args, told)
    return 0


def add_amounts(parser: argparse.ArgumentParser) -> None:
    """Declare how much is to go."""
    parser.add_argument("--older-than", metavar="AGE", help="remove what ended longer ago, such as 90d or 12h")
    parser.add_argument("--down-to", metavar="SIZE", help="remove the oldest until the store is that small, such as 1G")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def amounts(args: argparse.Namespace) -> tuple[int | None, int | None]:
    """Read an age in milliseconds and a size in bytes, each None where it was not said."""
    older_than_ms = None if args.older_than is None else duration_ms(args.older_than, "--older-than")
    down_to_bytes = None if args.down_to is None else size_bytes(args.down_to, "--down-to")
    return older_than_ms, down_to_bytes


def _workspaces(plane: Plane, older_than_ms: int | None) -> Json:
    """Remove captured workspaces that no run uses, and what would undo the changes of runs that are gone."""
    root = locate(os.environ).root
    unused_seconds = UNUSED_SECONDS if older_than_ms is None else older_than_ms / 1000
    elsewhere = root / "elsewhere"  # runs that a plane elsewhere has, and this one does not know
    forget_missing(root / "applied", lambda run_id: run_id in plane.named(run_id, 1) or (elsewhere / run_id).exists())
    return {"workspaces": Depot(root / "workspaces").tidy(unused_seconds) if (root / "workspaces").is_dir() else 0}


def tell(args: argparse.Namespace, told: Json) -> None:
    """Say what went, or would go."""
    if args.json:
        emit_json(told)
        return
    verb = "would be" if told["dryRun"] else "were"
    say(f"{told['runs']} runs and {told['refusals']} refused requests {verb} removed")
    if told["artifactsOf"]:
        say(f"the output and files of {told['artifactsOf']} more runs {verb} removed; their proofs stay")
    if told.get("workspaces"):
        say(f"{told['workspaces']} captured workspaces that no run uses were removed")
    if told["earlierThanRetention"]:
        complain(f"tipstaff: {told['earlierThanRetention']} of them earlier than their contracts promise to keep them")
    if told["dryRun"]:
        say(f"the store holds {size(told['bytesBefore'])}")
    else:
        say(f"the store holds {size(told['bytesAfter'])}, it held {size(told['bytesBefore'])}")
