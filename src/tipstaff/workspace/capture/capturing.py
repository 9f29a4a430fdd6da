"""A folder becomes a manifest: what a run is to work on, named by its content, and a base in the depot to work from.

`tree` is any folder; `lean` is a git repository with its commit but without its history; `git` has the whole history,
as the protocol spells it (see `whole`). What the deny patterns match is never taken: an untracked file is left out and
named, a tracked one is a refusal, except for `tree`, which leaves it out. The folder itself is only read.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tipstaff.errors import InputError, RefusedError, UsageError
from tipstaff.model.blobs import BlobStore
from tipstaff.workspace.capture.denied import DEFAULT_PATTERNS, Denied
from tipstaff.workspace.capture.repository import Repository
from tipstaff.workspace.capture.scan import ChangedError, Limits
from tipstaff.workspace.capture.taking import Task, take
from tipstaff.workspace.depot import Depot

Json = dict[str, Any]
Form = Literal["auto", "git", "lean", "tree"]
TRIES: Final = 3


class Wish(NamedTuple):
    """How a folder is to be captured."""

    form: Form = "auto"
    denied: tuple[str, ...] = DEFAULT_PATTERNS


class Captured(NamedTuple):
    """A captured folder: its manifest, what its owner should be told, and the form that it took."""

    manifest: Json
    notices: tuple[str, ...]
    form: str


def capture(  # noqa: PLR0913 - what, how, where to, and two things that a test gives
    folder: Path,
    wish: Wish,
    depot: Depot,
    blobs: BlobStore,
    *,
    environ: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Captured:
    """Capture a folder; InputError or RefusedError with a sentence where it cannot be done.

    A folder that changes meanwhile is captured anew, twice. `environ` says where the user's git configuration is.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder, so it cannot be captured")
    task = Task(Path(os.path.realpath(folder)), "tree", Denied(wish.denied), depot, limits or Limits())
    for _ in range(TRIES - 1):
        try:
            return _captured(task, wish, blobs, environ)
        except ChangedError:
            continue
    return _captured(task, wish, blobs, environ)


def _captured(task: Task, wish: Wish, blobs: BlobStore, environ: Mapping[str, str] | None) -> Captured:
    with task.depot.making() as room, ExitStack() as stack:
        repository = _repository(task.folder, wish.form, room, environ)
        if repository is not None:
            stack.enter_context(repository)
        form = _form(task.folder, wish.form, repository)
        if form == "git" and repository is not None:
            from tipstaff.workspace.capture.whole import capture_history  # noqa: PLC0415 - only for who wants the whole history

            return capture_history(repository, wish.denied, blobs)
        manifest, notices, listed = take(task._replace(form=form, room=room, repository=repository))
        blobs.put(listed)
        return Captured(manifest, (*notices, *_about(task.folder, repository)), form)


def _repository(folder: Path, form: Form, room: Path, environ: Mapping[str, str] | None) -> Repository | None:
    """Find the repository in a folder; where only its files are wanted, one that cannot be read is no obstacle."""
    try:
        found = Repository.find(folder, scratch=room, environ=environ)
    except InputError as error:
        if form != "tree":
            raise
        return _unread(folder, room, environ, error)
    if found is not None and form == "tree":
        try:
            found.listed()
        except InputError as error:
            found.close()
            return _unread(folder, room, environ, error)
        except BaseException:
            found.close()
            raise
    return found


def _unread(folder: Path, room: Path, environ: Mapping[str, str] | None, error: InputError) -> Repository:
    found = Repository.ignoring(folder, scratch=room, environ=environ)
    found.notices.append(f"{error.message}: all files count as untracked")
    return found


def _about(folder: Path, repository: Repository | None) -> list[str]:
    """Say that a folder in a repository is taken for a plain one."""
    above = next((path for path in folder.parents if (path / ".git").exists()), None)
    if repository is not None or above is None:
        return []
    return [f"the folder is only a part of the repository {above}: what is ignored there is captured as well"]


def _form(folder: Path, wanted: Form, repository: Repository | None) -> str:
    """Say which form a capture takes; RefusedError where the folder does not allow the one that is wanted."""
    has_commit = repository is not None and repository.commit is not None
    if wanted == "auto":
        return "lean" if has_commit else "tree"
    if wanted != "tree" and not has_commit:
        what = "is a repository without commits" if repository is not None else "is not the top of a git repository"
        raise RefusedError(
            f"{folder} {what}, so there is no commit to begin from", hint="capture it with: --capture tree"
        )
    return wanted
