"""Where a plane is and by what it is asked: its address, the token, the authority that vouches for its certificate.

What an address is, `runner/address.py` says, for clients and runners alike. A token is never part of an address, of a
command line or of a message.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tipstaff.errors import InputError, NotFoundError, UsageError
from tipstaff.runner import address

LONGEST_TOKEN: Final = 4096
_TOKEN: Final = re.compile(r"[\x21-\x7e]+\Z")
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
    """Read an address; `plain` lets http without TLS go beyond this machine."""
    found = address.address_of(url, plain_http=plain)
    if authority_file is not None and not Path(authority_file).is_file():
        raise NotFoundError(f"there is no file {authority_file}", hint="--ca names a file of PEM certificates")
    return Address(
        url=found.url,
        token=None if token is None else _checked(token, "the token"),
        authority_file=authority_file,
        is_local=found.is_loopback,
    )


def find_token(environ: Mapping[str, str], token_file: str | None = None) -> str | None:
    """Find the token: in the file that was named, else in the environment, else in the file that this names."""
    if token_file is None and environ.get("TIPSTAFF_TOKEN"):
        return _checked(environ["TIPSTAFF_TOKEN"], "TIPSTAFF_TOKEN")
    path = token_file or environ.get("TIPSTAFF_TOKEN_FILE")
    return _read(path) if path else None


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
