"""`tipstaff plane prune`: remove what ended long ago from a plane's home, as `tipstaff prune` does from one's own.

Works while the plane serves. Without an age or a size, what each contract says of its retention holds. The journal
stays whole, with a mark for each removal; what has not ended is never touched.

Example:
  tipstaff plane prune --older-than 90d --dry-run
  tipstaff plane prune --home /srv/tipstaff --down-to 5G
"""

import argparse

from tipstaff.doors.cli.plane.place import add_home, opened
from tipstaff.doors.cli.prune import add_amounts, amounts, tell


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_amounts(parser)
    add_home(parser)


def run(args: argparse.Namespace) -> int:
    """Remove it, or say what would be."""
    older_than_ms, down_to_bytes = amounts(args)
    with opened(args) as plane:
        told = plane.prune(older_than_ms, down_to_bytes, dry=args.dry_run)
    tell(args, told)
    return 0
