"""`tipstaff runner start`: take runs from a plane, carry each out in a sandbox, and sign for what happened.

Only ever asks; nothing connects to it. SIGTERM or Ctrl-C drains: no more is taken, and it ends when what runs has
ended; a second one ends what runs. A runner that is not enrolled yet is, if a token is given.

Example:
  tipstaff runner start
  TIPSTAFF_ENROLL_TOKEN=… tipstaff runner start --plane https://plane.example.com:7172 --concurrency 4
"""

import argparse

from tipstaff.doors.cli.runner.options import add_data, add_plane


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_plane(parser, required=False)
    add_data(parser)
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="how many runs at once (default: 1)")
    parser.add_argument("--once", action="store_true", help="carry out one run, print its id, and end")
    parser.add_argument(
        "--tier", action="append", default=[], choices=["process"], help="a weaker tier to offer beside bwrap"
    )


def run(args: argparse.Namespace) -> int:
    """Work until somebody stops it."""
    from tipstaff.doors.cli.runner.working import work  # noqa: PLC0415 - the help needs none of what that imports

    return work(args)
