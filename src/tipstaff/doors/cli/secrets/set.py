"""`tipstaff secrets set`: keep a secret in the encrypted store of the home.

The value comes on stdin, without its final line feed, or is asked for on the terminal and not shown. It is never taken
from the command line. A secret that is there already gets the new value.

Example:
  tipstaff secrets set GITHUB_TOKEN < token.txt
"""

import argparse

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.secrets.value import refuse_values, store_for, value_for, without_trace


def begin(argv: list[str]) -> None:
    """Refuse a value on the command line before anything could repeat it."""
    refuse_values(argv, "secrets set")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="what policies and requests call it; the value comes on stdin")


def run(args: argparse.Namespace) -> int:
    """Keep the value."""
    store = store_for(args.name)
    replaced = without_trace(lambda: store.set(args.name, value_for(args.name)))
    if args.json:
        emit_json({"name": args.name, "replaced": replaced})
    else:
        say(f"{args.name} is set{', in place of the value before' if replaced else ''}")
    return 0
