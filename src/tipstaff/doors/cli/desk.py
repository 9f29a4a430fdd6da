"""What the commands about runs share: the plane of this home, and which run a word names.

A run is named by its id, by a beginning of it that only one has (with or without `run_`), by `last`, or by `-2` for the
one before that. A refused request has an id too (`ref_…`), and is found in the same ways. A word that fits several is
an error that names them: nothing is guessed.
"""

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tipstaff.doors.cli.wording import short_id
from tipstaff.errors import NotFoundError, UsageError
from tipstaff.home import locate
from tipstaff.local.opening import open_plane
from tipstaff.plane import Plane

Json = dict[str, Any]
RUN_HELP: Final = "the run: its id or the beginning of it, `last`, or `-2` for the one before the last"
SHOWN: Final = 5  # candidates that an error names
FARTHEST: Final = 1000
_BACKWARDS: Final = re.compile(r"-([1-9][0-9]{0,9})\Z")
_KINDS: Final = ("run_", "ref_")
_WHOLE: Final = re.compile(r"(?:run|ref)_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare the argument that names a run."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


@contextmanager
def opened() -> Iterator[Plane]:
    """Open the plane of this home; a home that nothing ever ran in is not made by looking."""
    home = locate(os.environ)
    if not os.path.lexists(home.root):
        raise NotFoundError(
            f"nothing has run yet: there is no home {home.root}", hint="try: tipstaff run -- echo hello"
        )
    with open_plane(home) as plane:
        yield plane


def find(plane: Plane, word: str) -> str:
    """Give the id of the one run or refused request that `word` names."""
    if word == "last":
        return _newest(plane, 1)
    if back := _BACKWARDS.match(word):
        return _newest(plane, int(back[1]))
    if _WHOLE.match(word):
        return word  # if it is not there, the plane says whether it ever was
    found = _beginning(plane, word)
    if not found:
        raise NotFoundError(f"there is no run '{word[:64]}'", hint="see: tipstaff history")
    if len(found) > 1 and word not in found:
        raise UsageError(f"'{word}' begins more than one id: {_listed(found)}", hint="write more of it")
    return word if word in found else found[0]


def is_refused_request(name: str) -> bool:
    """Say whether this is the id of a request that never became a run."""
    return name.startswith("ref_")


def _newest(plane: Plane, number: int) -> str:
    lines = plane.history(min(number, FARTHEST)) if number <= FARTHEST else []
    if len(lines) < number:
        raise NotFoundError(f"there are fewer than {number} runs" if number > 1 else "nothing has run yet")
    name: str = lines[-1]["id"]
    return name


def _beginning(plane: Plane, word: str) -> list[str]:
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
