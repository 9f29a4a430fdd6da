"""`tipstaff keys trust`: take somebody's public key into the known-keys file, in one role.

A plane's key is trusted to authorise runs and to countersign receipts; an approver's to approve; a runner's or an
organisation's to sign as such. A revoked key cannot be trusted again.

Example:
  tipstaff keys trust plane.pem --role plane --name "our plane"
"""

import argparse
import os
from pathlib import Path
from typing import get_args

from tipstaff.doors.cli.keys.times import point_in_time
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.home import locate
from tipstaff.keys import KnownKey
from tipstaff.keys.files import load_public
from tipstaff.keys.known import Role, update_known_keys


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="PEM", help="the public key: SPKI PEM, or an OpenSSH line of type ed25519")
    parser.add_argument("--role", choices=get_args(Role), default="plane", help="what it is trusted for (plane)")
    parser.add_argument("--name", default="", help="whose key it is, in your words")
    parser.add_argument("--not-before", metavar="TIME", help="trust signatures dated from then on only")
    parser.add_argument("--not-after", metavar="TIME", help="trust signatures dated until then only")


def run(args: argparse.Namespace) -> int:
    """Add the key."""
    home = locate(os.environ)
    home.make()
    entry = KnownKey(
        public_key_pem=load_public(Path(args.file)).pem,
        role=args.role,
        name=args.name,
        not_before=point_in_time(args.not_before) if args.not_before else None,
        not_after=point_in_time(args.not_after) if args.not_after else None,
    )
    update_known_keys(home.known_keys, lambda known: known.trust(entry))
    if args.json:
        emit_json({"keyId": entry.public.key_id, "role": entry.role})
    else:
        say(f"{entry.public.key_id} is trusted as {entry.role}")
    return 0
