"""Room for one more run: asked before anything is signed, because afterwards it would be too late to say no.

The disk must hold what the run may print and its receipt; the home must stay below its cap. Neither is reserved: what
several runs take at once, or somebody else on the same disk, is found when it is written.
"""

import os
from collections.abc import Mapping
from typing import Final

from tipstaff.errors import StoreError, UsageError
from tipstaff.model.limits import Limits
from tipstaff.plane.authority import MOST_HOME_BYTES, Authority
from tipstaff.policy.units import size

VARIABLE: Final = "TIPSTAFF_HOME_MAX_BYTES"
MARGIN_BYTES: Final = 16 * 1024**2  # contract, events, receipt, and the write-ahead log, which holds everything twice
STREAMS: Final = 2


def refuse_full(authority: Authority, coming_bytes: int) -> None:
    """Refuse content that the disk, or the home's cap, does not hold."""
    require_room(authority, Limits(output_bytes=0))
    held, most = authority.store.size_bytes() + coming_bytes, authority.most_home_bytes
    if held >= most:
        raise StoreError(f"the home would hold {_shown(held)}, and its cap is {_shown(most)}")


def require_room(authority: Authority, limits: Limits) -> None:
    """Refuse a run whose receipt and output could not be kept."""
    folder = authority.store.database.path.parent
    prune = "tipstaff plane prune" if authority.shared else "tipstaff prune"
    remedy = f"make room, for example with: {prune}"
    try:
        found = os.statvfs(folder)
    except OSError as error:
        raise StoreError(f"the home {folder} cannot be looked at: {error.strerror}") from error
    needed, free = STREAMS * (limits.output_bytes or 0) + MARGIN_BYTES, found.f_bavail * found.f_frsize
    if free < needed:
        message = f"the disk of {folder} has {_shown(free)} left, and a run like this needs {_shown(needed)}"
        raise StoreError(f"{message} for its output and its receipt", hint=remedy)
    if found.f_files and not found.f_favail:
        raise StoreError(f"the disk of {folder} can hold no more files", hint=remedy)
    held, most = authority.store.size_bytes(), authority.most_home_bytes
    if held >= most:
        message = f"the home {folder} holds {_shown(held)}, and its cap is {_shown(most)}"
        raise StoreError(message, hint=f"run: {prune}, or set {VARIABLE} to more")


def most_home_bytes(environ: Mapping[str, str], otherwise: int = MOST_HOME_BYTES) -> int:
    """Read the cap on the home's size: a number of bytes, or a size such as 20GiB."""
    text = environ.get(VARIABLE, "")
    if not text:
        return otherwise
    try:
        return int(text) if text.isascii() and text.isdecimal() else size(text)
    except ValueError as error:
        raise UsageError(f"{VARIABLE} is {text[:64]!r}: {error}", hint="give bytes, or a size such as 20GiB") from error


def _shown(count: int) -> str:
    return f"{count / 1024**2:.1f} MiB"
