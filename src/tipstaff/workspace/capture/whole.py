"""Capture as the protocol has it: a bundle of the whole history, a diff of what is not committed, and untracked files.

All contents are the bytes in the folder, whatever filters and line endings the repository asks for. Deny patterns hold
for every name that ever was in the history that travels: it cannot be left out of there, so it is a refusal. Writes
into a directory of ours beside the look-alike of the repository, and nowhere else but into the blobs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from tipstaff.errors import InputError, RefusedError
from tipstaff.model import names
from tipstaff.model.blobs import BlobStore
from tipstaff.model.noun import VERSION_MANIFEST
from tipstaff.workspace import links
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.capturing import Captured
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.dirty import Tracked
from tipstaff.workspace.capture.loose import Loose
from tipstaff.workspace.capture.manifest import MOST_NAMED, SHOWN, Left, notices, some
from tipstaff.workspace.capture.repository import Repository
from tipstaff.workspace.capture.scan import Limits, Looker, Wanted, scan
from tipstaff.workspace.git import Git, GitError
from tipstaff.workspace.materialise import objects

Json = dict[str, Any]
OFFER: Final = "--capture tree leaves them out"
CHUNK: Final = 2**20  # bytes
_BUNDLE: Final = (
    "-c",
    "pack.threads=1",
    "bundle",
    "create",
    "--quiet",
    "-",
    "HEAD",
)  # one thread: the same bytes again
_DIFF: Final = (
    "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"
)  # fmt: skip
# A name that is in any commit was added by one: against a parent, each of them, or as the first.
_ADDED: Final = ("log", "--format=%H", "--root", "-m", "-r", "--raw", "-z", "--no-renames", "--diff-filter=A", "HEAD")


def capture_history(repository: Repository, patterns: Sequence[str], blobs: BlobStore) -> Captured:
    """Capture a repository with commits; RefusedError where its history, or its index, names what is denied."""
    if repository.commit is None:
        raise InputError(f"{repository.folder} has no commits yet", hint="take --capture tree")
    denied = Denied(patterns)
    git = _directory(repository, repository.commit)
    _refuse_denied(repository, git, denied)
    with Beneath(repository.folder) as folder:
        looker = Looker(folder)
        found = scan(looker, Wanted(repository.names()), denied, Limits())
        tracked = Tracked(git, folder, repository)
        tree = tracked.write_tree()
        loose = Loose(folder, denied, tracked.links)
        loose.keep(repository.untracked(), blobs)
        looker.check_unchanged(found)
    _refuse_links(tracked.links, loose.links)
    refs = [repository.ref] if repository.ref else []
    manifest = {
        "version": VERSION_MANIFEST,
        "baseRef": repository.commit,
        "bundleHash": _keep(blobs, git, *_BUNDLE, *refs),
        "untrackedFiles": loose.files,
        "deniedPatterns": list(patterns),
        "deniedPaths": [names.shown(name) for name in sorted(loose.denied)[:MOST_NAMED]],
    }
    if tree != tracked.committed_tree:
        manifest["dirtyDiffHash"] = _keep(blobs, git, *_DIFF, tracked.committed_tree, tree)
    left = Left(loose.denied, tracked.left_out + loose.left_out)
    if left.out:
        manifest["leftOut"] = [names.spelled(name) | {"reason": why} for name, why in sorted(left.out)[:MOST_NAMED]]
    return Captured(manifest, (*repository.notices, *notices(left, tracked.pointers, hidden=0)), "git")


def _directory(repository: Repository, commit: str) -> Git:
    """Make a git directory that borrows the repository's objects, and knows one branch."""
    directory = repository.git.directory / "whole"
    git = Git.make(directory, object_format=repository.object_format)
    (directory / "objects/info/alternates").write_text("../../objects\n")
    if repository.ref is None:
        (directory / "HEAD").write_text(f"{commit}\n")
    else:
        (directory / "HEAD").write_text(f"ref: {repository.ref}\n")
        (directory / "packed-refs").write_text(f"{commit} {repository.ref}\n")
    return git


def _refuse_denied(repository: Repository, git: Git, denied: Denied) -> None:
    """Refuse names that would travel although they are denied: in the index, or in any commit."""
    found: dict[bytes, str] = {name: "" for name in repository.tracked() if denied.matches(name)}
    try:
        with objects.reading(git, *_ADDED, bounded=False) as log:
            for commit, name in _added(log):
                if denied.matches(name):
                    found[name] = found.get(name) or commit
    except GitError as error:
        hint = "take --capture lean, or --capture tree"
        raise InputError(f"the history of {repository.folder} is not all there: {error.message}", hint=hint) from error
    if found:
        raise RefusedError(f"denied files are tracked, and would travel: {_told(found)}", hint=OFFER)


def _added(log: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Read which commit added which name."""
    commit, is_name = "", False
    for piece in objects.pieces(log):
        if is_name:
            yield commit, piece
            is_name = False
        elif piece.startswith((b":", b"\n:")):
            is_name = True
        else:
            commit = piece.decode().strip() or commit


def _refuse_links(tracked: Mapping[bytes, bytes], loose: Mapping[bytes, bytes]) -> None:
    every = {**tracked, **loose}
    if out := [name for name in tracked if links.leads_out(name, every)]:
        raise RefusedError(f"tracked links lead out of the folder: {some(out)}", hint=OFFER)


def _keep(blobs: BlobStore, git: Git, *words: str) -> str:
    """Keep what a command prints as a blob."""
    writer = blobs.writer()
    try:
        with objects.reading(git, *words, bounded=False) as printed:
            while chunk := printed.read(CHUNK):
                writer.write(chunk)
    except BaseException:
        writer.discard()
        raise
    return writer.finish()


def _told(found: Mapping[bytes, str]) -> str:
    """Name a few denied files, with the commit of each that is in the history."""
    listed = [f"{names.shown(name)!r}" + f" (commit {commit[:12]})" * bool(commit) for name, commit in found.items()]
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
