"""`tipstaff keys show`: print a public key and its id, to hand to somebody who should trust it.

Example:
  tipstaff keys show plane > plane.pem
"""

import argparse
import os
from pathlib import Path

from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.errors import NotFoundError
from tipstaff.home import Home, locate
from tipstaff.keys import PublicKey
from tipstaff.keys.files import PUBLIC_SUFFIX, load_public
from tipstaff.keys.known import read_known_keys


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("key", nargs="?", default="default", metavar="KEY", help="a name, a key id or a file (default)")


def run(args: argparse.Namespace) -> int:
    """Print the key: the PEM on stdout, its id on stderr, so that the output can be redirected."""
    key = _find(args.key, locate(os.environ))
    if args.json:
        emit_json({"keyId": key.key_id, "publicKeyPem": key.pem})
    else:
        say(key.pem.rstrip(), newlines=True)
        complain(key.key_id)
    return 0


def _find(wanted: str, home: Home) -> PublicKey:
    if wanted.startswith("ed25519:"):
        own = (load_public(path) for path in sorted(home.keys.glob("*" + PUBLIC_SUFFIX)))
        known = (entry.public for entry in read_known_keys(home.known_keys).entries)
        found = next((key for key in (*own, *known) if key.key_id == wanted), None)
        if found is None:
            raise NotFoundError(f"no key here has the id {wanted}", hint="see: tipstaff keys list")
        return found
    named = home.keys / (wanted + PUBLIC_SUFFIX)
    if "/" not in wanted and named.is_file():
        return load_public(named)
    if not Path(wanted).is_file():
        raise NotFoundError(f"there is no key '{wanted}' in the home, and no such file", hint="see: tipstaff keys list")
    return load_public(Path(wanted))
