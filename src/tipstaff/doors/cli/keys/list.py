"""`tipstaff keys list`: the keys of this home, the keys it trusts, and, when asked, those of the ssh-agent.

Example:
  tipstaff keys list --agent
"""

import argparse
import os
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.errors import UsageError
from tipstaff.home import Home, locate
from tipstaff.keys import KnownKey
from tipstaff.keys.files import PUBLIC_SUFFIX, SUFFIX, is_encrypted, load_public
from tipstaff.keys.known import read_known_keys


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--agent", action="store_true", help="also list the Ed25519 keys of the ssh-agent")


def run(args: argparse.Namespace) -> int:
    """List all keys."""
    home = locate(os.environ)
    listing = {
        "own": _own(home),
        "known": [_known(entry) for entry in read_known_keys(home.known_keys).entries],
        "agent": _agent(os.environ.get("SSH_AUTH_SOCK", "")) if args.agent else [],
    }
    if args.json:
        emit_json(listing)
        return 0
    for title, rows in listing.items():
        for row in rows:
            say(f"{title:<6} " + "  ".join(str(value) for value in row.values() if value))
    if not any(listing.values()):
        say("no keys yet; make one with: tipstaff keys new NAME")
    return 0


def _own(home: Home) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(home.keys.glob("*" + PUBLIC_SUFFIX)):
        name = path.name.removesuffix(PUBLIC_SUFFIX)
        private = home.keys / (name + SUFFIX)
        state = "no private key here" if not private.exists() else "encrypted" if is_encrypted(private) else "plain"
        rows.append({"keyId": load_public(path).key_id, "name": name, "private": state})
    return rows


def _known(entry: KnownKey) -> dict[str, Any]:
    return {
        "keyId": entry.public.key_id,
        "role": entry.role,
        "name": entry.name,
        "notBefore": entry.not_before and f"from {entry.not_before}",
        "notAfter": entry.not_after and f"until {entry.not_after}",
        "revokedAt": entry.revoked_at and f"revoked {entry.revoked_at}",
    }


def _agent(socket_path: str) -> list[dict[str, Any]]:
    if not socket_path:
        raise UsageError("there is no ssh-agent: SSH_AUTH_SOCK is not set", hint="start one with: eval $(ssh-agent)")
    from tipstaff.keys.agent import agent_keys  # noqa: PLC0415 - sockets are needed only here

    return [{"keyId": key.public.key_id, "name": key.comment} for key in agent_keys(socket_path)]
