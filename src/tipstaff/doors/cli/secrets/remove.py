"""`tipstaff secrets remove`: forget a secret of the store. Asks nothing; the value cannot be had back.

Example:
  tipstaff secrets remove GITHUB_TOKEN
"""

import argparse
import os

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.home import locate
from tipstaff.secrets.sealed import SealedStore


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="a secret of the store, as `tipstaff secrets list` shows it")


def run(args: argparse.Namespace) -> int:
    """Forget it, and say so."""
    SealedStore(locate(os.environ).root).remove(args.name)
    if args.json:
        emit_json({"name": args.name})
    else:
        say(f"{args.name} is removed from the store")
    return 0
