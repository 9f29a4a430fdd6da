"""What a run changed in its workspace: the change set, a diff of it, and the contents, as blobs.

1. Compare the base with what the run left; 2. stop where that is beyond the bounds; 3. read each changed file once, in
the order of names: its digest goes into the change, its content into one blob and into the diff; 4. find renames.
The run's files are hostile: no link is followed, no pipe waited for, nothing in a `.git` is carried, and no content
with a secret in it is kept. Does not write to the base, and applies nothing.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tipstaff.errors import InputError, UsageError
from tipstaff.model.blobs import BlobStore
from tipstaff.model.changes import Change
from tipstaff.workspace.collect.comparing import Comparison
from tipstaff.workspace.collect.difference import Difference
from tipstaff.workspace.collect.gathering import Bounds, Gathering
from tipstaff.workspace.collect.ignored import Ignored
from tipstaff.workspace.collect.keeping import Keeping, Terms
from tipstaff.workspace.collect.layers import View, holds_any, own_marks
from tipstaff.workspace.collect.moves import with_origins
from tipstaff.workspace.collect.sides import Mask
from tipstaff.workspace.git import Git, is_there

Json = dict[str, Any]
__all__ = ["Bounds", "Collected", "Mask", "View", "collect"]


class Collected(NamedTuple):
    """What a run changed."""

    changes: tuple[Change, ...]  # by name; the contents of those that are `kept` lie in `contents` in this order
    diff: str | None  # the digest of the diff; None when there is nothing to show
    contents: str | None  # the digest of the contents; None when none is kept
    summary: Json  # for the receipt
    problem: str = ""  # why nothing is kept although something changed: a sentence


def collect(view: View, bounds: Bounds, mask: Mask, blobs: BlobStore | None) -> Collected:
    """Find what a run changed; `blobs` None: no content may leave, so that there are digests only.

    InputError when what the run left cannot be read. Removes all that it made, and ends all that it started.
    """
    left = view.upper or view.copy
    if left is None:
        raise UsageError("a view has an upper layer or a whole copy", hint="name one of them")
    marks = (view.marks or own_marks()) if view.upper is not None else ""
    try:
        with ExitStack() as stack:
            ignored, difference = _gits(view, stack)
            if holds_any(left):
                ignored.start()
                difference.start()
            gathering = Gathering(view, bounds, ignored)
            Comparison(gathering.take, marks).run(view.base, left)
            gathering.finish()
            keeping = stack.enter_context(Keeping(view.base, left, Terms(bounds, mask, blobs), difference))
            return _collected(gathering, bounds, keeping)
    except OSError as error:  # without its name, which may tell a secret
        raise InputError(f"what the run changed cannot be collected: {error.strerror}") from error


def _gits(view: View, stack: ExitStack) -> tuple[Ignored, Difference]:
    """Make one git directory for the two things that are asked of git; both end with `stack`."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tipstaff-collect-", dir=view.scratch)))
    if is_there():
        Git.make(directory)
    ignored, difference = Ignored(view.base.absolute(), directory), Difference(directory)
    stack.callback(ignored.close)
    stack.callback(difference.close)
    return ignored, difference


def _collected(gathering: Gathering, bounds: Bounds, keeping: Keeping) -> Collected:
    summary = _summary(gathering, bounds)
    found = [*gathering.changes.held, *gathering.planted.held]
    if problem := _problem(gathering, bounds):
        changes = keeping.unread(found)
        summary |= {"problem": problem, **keeping.named(gathering)}
        summary["ignored"]["kept"] = False
        return Collected(tuple(changes), None, None, summary, problem)
    offered = gathering.ignored.held if summary["ignored"]["kept"] else []
    changes = with_origins(keeping.changes(found, offered))
    contents = keeping.contents()
    diff, trouble = keeping.diff()
    summary |= {"diffProblem": trouble} if trouble else {}
    return Collected(tuple(changes), diff, contents, summary | keeping.named(gathering))


def _problem(gathering: Gathering, bounds: Bounds) -> str:
    # What is in a `.git` is never kept, but read: a file with a hole takes no space and has no end.
    found = (gathering.changes, gathering.planted)
    files, size, spelled = (
        sum(each) for each in zip(*((one.files, one.bytes, one.name_bytes) for one in found), strict=True)
    )
    if files > bounds.files:
        return f"it changed {_spaced(files)} files (at most {_spaced(bounds.files)} are brought back)"
    if size > bounds.bytes:
        return f"it changed files of {_spaced(size)} bytes (at most {_spaced(bounds.bytes)} are brought back)"
    if spelled > bounds.name_bytes:
        return (
            f"its changed files have names of {_spaced(spelled)} bytes (at most {_spaced(bounds.name_bytes)} are told)"
        )
    return ""


def _summary(gathering: Gathering, bounds: Bounds) -> Json:
    ignored = gathering.ignored
    few = ignored.files <= bounds.ignored_files and ignored.name_bytes <= bounds.name_bytes
    kept = ignored.files > 0 and few and ignored.bytes <= bounds.ignored_bytes
    return {
        "files": gathering.changes.files,
        "bytes": gathering.changes.bytes,
        "ignored": {"files": ignored.files, "bytes": ignored.bytes, "kept": kept},
        **({"ignoredProblem": gathering.ignored_problem} if gathering.ignored_problem else {}),
        "git": {"files": gathering.noise.files, "named": gathering.planted.files},
    }


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
