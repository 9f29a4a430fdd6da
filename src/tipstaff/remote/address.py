"""Where a plane is and by what it is asked: its address, the token, the authority that vouches for its certificate.

An address is `https://HOST[:PORT][/PATH]`, or `http://` on this very machine; plain HTTP to anywhere else sends the
token in the clear, and has to be asked for. A token is never part of an address, of a command line or of a message.
"""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tipstaff.errors import InputError, NotFoundError, UsageError

LONGEST_TOKEN: Final = 4096
_TOKEN: Final = re.compile(r"[\x21-\x7e]+\Z")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+\Z")
_PORTS: Final = {"http": 80, "https": 443}
_EXAMPLE: Final = "for example: --plane https://plane.example.com:7172"
_YES: Final = ("1", "true", "yes")
WHERE_TOKENS_GO: Final = "put it into TIPSTAFF_TOKEN, or into a file that --token-file or TIPSTAFF_TOKEN_FILE names"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One plane, and how to speak to it."""

    url: str  # spelled in the one way, without a slash at its end
    token: str | None = None
    authority_file: str | None = None  # PEM certificates that vouch for the plane's; None: the system's
    is_local: bool = False  # on this machine: no proxy is asked

    def __repr__(self) -> str:
        return f"Address({self.url!r})"  # a token has no place in a traceback or a log


def address_of(
    url: str, token: str | None = None, authority_file: str | None = None, *, plain: bool = False
) -> Address:
    """Read an address; `plain` lets HTTP without TLS go beyond this machine."""
    spelled, is_local, is_plain = _spelled(url)
    if is_plain and not is_local and not plain:
        raise UsageError(
            f"{spelled} is plain HTTP to another machine: whoever listens would read the token",
            hint="use https://, or say --plain-http where nobody can listen",
        )
    if authority_file is not None and not Path(authority_file).is_file():
        raise NotFoundError(f"there is no file {authority_file}", hint="--ca names a file of PEM certificates")
    return Address(
        url=spelled,
        token=None if token is None else _checked(token, "the token"),
        authority_file=authority_file,
        is_local=is_local,
    )


def find_token(environ: Mapping[str, str], token_file: str | None = None) -> str | None:
    """Find the token: in the file that was named, else in the environment, else in the file that this names."""
    if token_file is None and environ.get("TIPSTAFF_TOKEN"):
        return _checked(environ["TIPSTAFF_TOKEN"], "TIPSTAFF_TOKEN")
    path = token_file or environ.get("TIPSTAFF_TOKEN_FILE")
    return _read(path) if path else None


def plain_is_meant(environ: Mapping[str, str]) -> bool:
    """Say whether the environment lets plain HTTP go beyond this machine."""
    return environ.get("TIPSTAFF_PLAIN_HTTP", "").lower() in _YES


def _spelled(url: str) -> tuple[str, bool, bool]:
    """Spell an address in one way; says too whether it is on this machine, and without TLS."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError(f"'{url[:200]}' is not an address", hint=_EXAMPLE) from None
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    if parts.username is not None or parts.password is not None:
        raise UsageError("the plane's address holds a name or a password", hint=WHERE_TOKENS_GO)
    if scheme not in _PORTS or not _HOST.match(host) or parts.query or parts.fragment or not url.isascii():
        raise UsageError(f"'{url[:200]}' is not the address of a plane", hint=_EXAMPLE)
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None and port != _PORTS[scheme] else ""
    return f"{scheme}://{place}{parts.path.rstrip('/')}", _is_loopback(host), scheme == "http"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(LONGEST_TOKEN + 2)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise NotFoundError(f"the token's file {path} cannot be read: {reason}", hint=WHERE_TOKENS_GO) from None
    if status.st_mode & 0o007:
        raise UsageError(f"the token's file {path} can be used by every user", hint=f"run: chmod 600 {path}")
    return _checked(data.decode("ascii", errors="replace").strip(), f"the token in {path}")


def _checked(token: str, what: str) -> str:
    """Refuse what cannot be a token, without telling what it is."""
    if len(token) > LONGEST_TOKEN or not _TOKEN.match(token):
        raise InputError(f"{what} is not a token: it is empty, too long, or holds spaces", hint=WHERE_TOKENS_GO)
    return token
