"""`tipstaff secrets rotate`: replace a secret of the store by a new value, and note when that was.

The value comes as for `set`. The old value again is refused: nothing would have been rotated.

Example:
  tipstaff secrets rotate GITHUB_TOKEN < new-token.txt
"""

import argparse

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.secrets.value import refuse_values, store_for, value_for, without_trace


def begin(argv: list[str]) -> None:
    """Refuse a value on the command line before anything could repeat it."""
    refuse_values(argv, "secrets rotate")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="a secret of the store; the new value comes on stdin")


def run(args: argparse.Namespace) -> int:
    """Replace the value."""
    store = store_for(args.name)
    without_trace(lambda: store.rotate(args.name, value_for(args.name)))
    if args.json:
        emit_json({"name": args.name})
    else:
        say(f"{args.name} is rotated; runs that hold the old value keep it until they end")
    return 0
