"""What the commands about runs share: the plane of this home, or one elsewhere, and which run a word names.

A run is named by its id, by a beginning of it that only one has (with or without `run_`), by `last`, or by `-2` for the
one before that. A refused request has an id too (`ref_…`), and is found in the same ways. A word that fits several is
an error that names them: nothing is guessed.
"""

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from tipstaff.doors.cli.planes import chosen, reached
from tipstaff.doors.cli.wording import short_id
from tipstaff.errors import InputError, NotFoundError, UsageError
from tipstaff.home import locate
from tipstaff.local.opening import open_plane
from tipstaff.model.ids import is_refusal_id, is_run_id
from tipstaff.plane import Plane

if TYPE_CHECKING:
    from tipstaff.keys import KnownKeys
    from tipstaff.plane.changes import Kept

Json = dict[str, Any]
RUN_HELP: Final = "the run: its id or the beginning of it, `last`, or `-2` for the one before the last"
SHOWN: Final = 5  # candidates that an error names
FARTHEST: Final = 1000
_BACKWARDS: Final = re.compile(r"-([1-9][0-9]{0,9})\Z")
_KINDS: Final = ("run_", "ref_")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare the argument that names a run."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


class Desk(Protocol):
    """What commands ask of a plane, here or elsewhere."""

    def run(self, run_id: str, /) -> Json:
        """Tell everything about one run."""

    def status(self, run_id: str, /) -> str:
        """Say in which state a run is."""

    def history(self, count: int = ..., before: str | None = ..., /) -> list[Json]:
        """List runs and refused requests, newest first, from behind the entry `before`."""

    def named(self, beginning: str, count: int = ..., /) -> list[str]:
        """List ids of runs and refused requests that begin so."""

    def waiting(self) -> list[Json]:
        """List the runs that wait for people."""

    def questions(self) -> list[Json]:
        """List what runs at work ask people."""

    def why(self, name: str, /) -> Json:
        """Say why something ended as it did."""

    def output(self, run_id: str, stream: str, /) -> bytes:
        """Give the kept copy of what a run printed."""

    def changes(self, run_id: str, /) -> "Kept":
        """Give what a run changed."""

    def bundle(self, run_id: str, /) -> Json:
        """Give the bundle of a run."""

    def refusal(self, refusal_id: str, /) -> Json:
        """Give a signed refusal."""

    def approve(self, run_id: str, body: Json, /) -> Json:
        """Take an approval."""

    def deny(self, run_id: str, body: Json, /) -> Json:
        """Take a no."""

    def answer(self, run_id: str, body: Json, /) -> Json:
        """Take an answer to a question of a run at work."""

    def cancel(self, run_id: str, body: Json, /) -> Json:
        """Stop a run."""


@contextmanager
def opened(args: argparse.Namespace | None = None) -> Iterator[Desk]:
    """Open the plane that `args` name, else that of this home; one that nothing ever ran in is not made by looking."""
    if args is not None and chosen(args):
        with reached(args) as elsewhere:
            yield elsewhere
    else:
        with opened_here() as here:
            yield here


@contextmanager
def opened_here() -> Iterator[Plane]:
    """Open the plane of this home."""
    home = locate(os.environ)
    if not os.path.lexists(home.root):
        raise NotFoundError(
            f"nothing has run yet: there is no home {home.root}", hint="try: tipstaff run -- echo hello"
        )
    with open_plane(home) as plane:
        yield plane


def trusted_keys(plane: Desk) -> "KnownKeys":
    """Give the keys that a proof from this plane is checked with: the home's, or those pinned for one elsewhere."""
    if isinstance(plane, Plane):
        from tipstaff.keys.known import read_known_keys  # noqa: PLC0415 - few commands check a proof

        return read_known_keys(locate(os.environ).known_keys)
    from tipstaff.remote.plane import RemotePlane  # noqa: PLC0415 - only for a plane elsewhere

    if not isinstance(plane, RemotePlane):
        raise TypeError("a desk is a plane, here or elsewhere")
    return plane.trusted()


def find(plane: Desk, word: str) -> str:
    """Give the id of the one run or refused request that `word` names."""
    if word == "last":
        return _whole(_newest(plane, 1))
    if back := _BACKWARDS.match(word):
        return _whole(_newest(plane, int(back[1])))
    if _is_whole(word):
        return word  # if it is not there, the plane says whether it ever was
    found = _beginning(plane, word)
    if not found:
        raise NotFoundError(f"there is no run '{word[:64]}'", hint="see: tipstaff history")
    if len(found) > 1 and word not in found:
        raise UsageError(f"'{word}' begins more than one id: {_listed(found)}", hint="write more of it")
    return _whole(word if word in found else found[0])


def _whole(name: str) -> str:
    """Refuse an id that is none, whoever gave it: it becomes a part of addresses, and the name of a folder here."""
    if not _is_whole(name):
        raise InputError(f"the plane calls a run {str(name)[:64]!r}, which is not the id of one")
    return name


def _is_whole(name: str) -> bool:
    return is_run_id(name) or is_refusal_id(name)


def is_refused_request(name: str) -> bool:
    """Say whether this is the id of a request that never became a run."""
    return name.startswith("ref_")


def _newest(plane: Desk, number: int) -> str:
    lines = plane.history(min(number, FARTHEST)) if number <= FARTHEST else []
    if len(lines) < number:
        raise NotFoundError(f"there are fewer than {number} runs" if number > 1 else "nothing has run yet")
    name: str = lines[-1]["id"]
    return name


def _beginning(plane: Desk, word: str) -> list[str]:
    if not word or not word.isascii():
        return []
    whole = [word] if word.startswith(_KINDS) else [kind + word for kind in _KINDS]
    return [name for beginning in whole for name in plane.named(beginning, SHOWN + 1)]


def _listed(found: list[str]) -> str:
    more = " …" if len(found) > SHOWN else ""
    return (
        ", ".join(found[:SHOWN]) + more
        if len({*map(short_id, found)}) == 1
        else ", ".join(map(short_id, found[:SHOWN])) + more
    )
