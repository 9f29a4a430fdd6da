"""`tipstaff runner drain`: have the runner that works in a folder take no more; it ends when its runs have ended.

Said twice, it is the same.

Example:
  tipstaff runner drain
"""

import argparse
import os

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.runner.options import add_data, data_of, surroundings
from tipstaff.errors import NotFoundError
from tipstaff.runner.lock import DRAIN, holder


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)


def run(args: argparse.Namespace) -> int:
    """Tell the process."""
    data = data_of(args, surroundings())
    pid = holder(data)
    if pid is None:
        raise NotFoundError(f"no runner is at work in {data}", hint="see: tipstaff runner status")
    os.kill(pid, DRAIN)
    if args.json:
        emit_json({"pid": pid, "drain": True})
    else:
        say(f"the runner (process {pid}) takes no more, and ends when its runs have ended")
    return 0
