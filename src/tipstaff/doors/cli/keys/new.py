"""`tipstaff keys new`: make an Ed25519 key pair in the home, private half 0600.

A passphrase is asked for on the terminal or read from a file, never taken from the command line, where every process
of the machine could read it.

Example:
  tipstaff keys new alice --passphrase
"""

import argparse
import getpass
import os
import re
import sys
from pathlib import Path

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.errors import NotFoundError, UsageError
from tipstaff.home import locate
from tipstaff.keys import PrivateKey
from tipstaff.keys.files import PUBLIC_SUFFIX, save

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
SHORTEST_PASSPHRASE, LONGEST_PASSPHRASE = 8, 1023  # OpenSSL takes no longer one


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", default="default", metavar="NAME", help="its name in the home (default)")
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--passphrase", action="store_true", help="encrypt the private key; asks on the terminal")
    secret.add_argument("--passphrase-file", metavar="FILE", help="encrypt the private key with the first line of FILE")


def run(args: argparse.Namespace) -> int:
    """Make the key and say where it is."""
    if not NAME.match(args.name):
        raise UsageError(f"'{args.name}' cannot name a key", hint="use letters, digits, dots, dashes and underscores")
    passphrase = _passphrase(args)
    home = locate(os.environ)
    home.make()
    key = PrivateKey.generate()
    path = save(key, home.keys, args.name, passphrase)
    public = path.with_name(args.name + PUBLIC_SUFFIX)
    if args.json:
        emit_json({"keyId": key.public.key_id, "privateKey": str(path), "publicKey": str(public)})
    else:
        say(f"{key.public.key_id}")
        say(f"private: {path}{' (encrypted)' if passphrase else ''}")
        say(f"public:  {public}")
    return 0


def _passphrase(args: argparse.Namespace) -> bytes | None:
    if args.passphrase_file:
        try:
            with Path(args.passphrase_file).open(encoding="utf-8") as file:
                text = file.readline(LONGEST_PASSPHRASE + 1).removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise NotFoundError(f"the passphrase file {args.passphrase_file} cannot be read") from error
    elif args.passphrase:
        text = _ask()
    else:
        return None
    if len(text) < SHORTEST_PASSPHRASE:
        raise UsageError(f"the passphrase is shorter than {SHORTEST_PASSPHRASE} characters")
    passphrase = text.encode()
    if len(passphrase) > LONGEST_PASSPHRASE:
        raise UsageError(f"the passphrase is longer than {LONGEST_PASSPHRASE} bytes")
    return passphrase


def _ask() -> str:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for a passphrase", hint="use --passphrase-file FILE")
    first = getpass.getpass("Passphrase: ")
    if getpass.getpass("The same again: ") != first:
        raise UsageError("the two passphrases differ")
    return first
