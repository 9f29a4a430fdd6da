"""`tipstaff keys revoke`: stop trusting a key, from now or from an earlier time on.

What is dated before that time stays valid. Whoever holds a stolen key can date a signature back: if it may have been
stolen earlier, say since when.

Example:
  tipstaff keys revoke ed25519:0123456789abcdef --since 2026-11-01
"""

import argparse
import os

from tipstaff.doors.cli.keys.times import now, point_in_time
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.home import locate
from tipstaff.keys.known import update_known_keys


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("key_id", metavar="KEYID", help="the id, as `tipstaff keys list` shows it")
    parser.add_argument("--since", metavar="TIME", help="from when on it is not trusted (default: now)")


def run(args: argparse.Namespace) -> int:
    """Revoke the key in every role it has."""
    when = point_in_time(args.since) if args.since else now()
    update_known_keys(locate(os.environ).known_keys, lambda known: known.revoke(args.key_id, when))
    if args.json:
        emit_json({"keyId": args.key_id, "revokedAt": when})
    else:
        say(f"{args.key_id} is not trusted for anything dated {when} or later")
    return 0
