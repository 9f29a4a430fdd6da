"""A wish for a run at a plane elsewhere: the same words, of which some mean something else, and some nothing.

The plane knows by the token who asks, and has its own policy. A folder of this machine cannot be looked at from there:
its captured copy goes along. A variable without a value has the one of this machine. What cannot be had elsewhere is
refused with a sentence, never left out in silence.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.doors.asking import Asked, capture_form, request_of
from tipstaff.doors.folders import Surroundings
from tipstaff.errors import UsageError
from tipstaff.workspace.capture.capturing import Wish
from tipstaff.workspace.capture.denied import DEFAULT_PATTERNS

Json = dict[str, Any]
NOBODY: Final = "nobody"  # stands where the plane writes who asks


class Errand(NamedTuple):
    """A request for a plane elsewhere, and the folder of this machine whose copy it is about."""

    request: Json
    folder: Path | None
    wish: Wish


def errand_of(asked: Asked, around: Surroundings, environ: Mapping[str, str]) -> Errand:
    """Spell the request, still without its workspace."""
    refuse_what_is_here(asked)
    wanted = msgspec.structs.replace(
        asked,
        capture=asked.capture or ("auto" if asked.workspace is not None else None),
        inherit=(),
        env={**{name: environ[name] for name in asked.inherit if name in environ}, **asked.env},
    )
    request = request_of(wanted, around, NOBODY)
    files = request.pop("files")
    del request["door"]
    folder = Path(files["workspace"]) if files.get("captured") else None
    form = capture_form(wanted) or "auto"
    return Errand(request, folder, Wish(form, (*DEFAULT_PATTERNS, *asked.deny)))  # type: ignore[arg-type]  # one of FORMS


def refuse_what_is_here(asked: Asked) -> None:
    """Refuse what only makes sense on this machine."""
    for is_wanted, option, why in (
        (asked.in_place, "--in-place", "a plane elsewhere cannot change a folder of this machine: it works on a copy"),
        (asked.read, "--read", "a plane elsewhere cannot read files of this machine: put them into the workspace"),
        (asked.principal is not None, "--as", "the plane knows by the token who asks"),
    ):
        if is_wanted:
            raise UsageError(f"{option}: {why}", hint=f"leave {option} out, or run it here with --plane ''")
    if asked.workspace is not None and asked.capture == "none":
        raise UsageError(
            "--capture none: a plane elsewhere cannot look at a folder of this machine", hint="leave --capture out"
        )
