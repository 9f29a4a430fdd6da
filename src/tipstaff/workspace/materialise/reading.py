"""A manifest as whoever unpacks it reads it: the protocol's fields, and ours beside them.

Ours are `packs` (the contents of a tree), `git` (a `.git` with one commit beside a tree), and, of an untracked file,
`pathBytes` and `mode`. A field that nobody here knows is left alone: the hash covers it. Pure.
"""

import re
from typing import Any, Final

import msgspec

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.contract import CommitClaim, Manifest, ManifestFile
from tipstaff.model.noun import VERSION_MANIFEST
from tipstaff.workspace.inside import check_commit, check_ref
from tipstaff.workspace.listing import FILE, LINK, RIGHTS, Entry

Json = dict[str, Any]
_MODE: Final = re.compile("[0-7]{6}")


class Inside(CommitClaim):
    """The `.git` of a tree: one commit, and the pack that holds it."""

    format: str = "sha1"
    ref: str | None = None  # None: HEAD is detached
    exclude: str = ""  # what only the clone that it comes from ignores


class UntrackedFile(ManifestFile):
    """A file or a link that git does not know, by content."""

    path_bytes: str | None = None
    mode: str = f"{FILE | 0o644:06o}"


class View(Manifest):
    """A manifest, typed."""

    untracked_files: list[UntrackedFile] | None = None  # type: ignore[assignment]  # ours says more of each
    git: Inside | None = None


def read(manifest: Json) -> View:
    """Read a manifest; InputError when it is none, or says too little to be unpacked."""
    try:
        view = msgspec.convert(manifest, View)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"the workspace is not a manifest: {error}") from error
    if view.version != VERSION_MANIFEST:
        raise InputError(f"the workspace's version is {view.version[:40]!r}, and not {VERSION_MANIFEST}")
    if view.kind == "tree":
        _check_tree(view)
    elif view.bundle_hash is None:
        raise InputError("the workspace is a git repository, but its manifest names no bundle")
    return view


def _check_tree(view: View) -> None:
    if view.tree_hash is None or view.tree_hash != view.base_ref:
        raise InputError("the workspace is a tree, but its treeHash is missing or is not its baseRef")
    if view.git is not None:
        check_commit(view.git.commit, view.git.format)
    if view.git is not None and view.git.ref is not None:
        check_ref(view.git.ref)


def untracked(view: View) -> list[Entry]:
    """Give the untracked files and links of a repository."""
    return [_entry(file) for file in view.untracked_files or ()]


def _entry(file: UntrackedFile) -> Entry:
    said = {"path": file.path} | ({} if file.path_bytes is None else {"pathBytes": file.path_bytes})
    name = names.read(said)
    mode = int(file.mode, 8) if _MODE.fullmatch(file.mode) else 0
    if mode & ~RIGHTS not in {FILE, LINK}:
        raise InputError(f"the untracked {names.shown(name)[:200]!r} is neither a file nor a link: {file.mode[:20]!r}")
    return Entry(name, mode, file.hash, file.bytes)
