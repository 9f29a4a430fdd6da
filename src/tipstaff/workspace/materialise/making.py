"""A workspace made again from its manifest and blobs, in an empty folder.

1. The manifest is read, and every blob is hashed before it is used.
2. Names, counts and sizes are checked before anything is written.
3. Files are written beneath the folder only, by descriptor; links when all files are there.
Whoever calls throws the folder away when this fails: what is in it then is good for nothing.
"""

import errno
from pathlib import Path
from typing import Any, Final

from tipstaff.errors import InputError, StoreError, UsageError
from tipstaff.model.blobs import BlobStore
from tipstaff.workspace import inside, listing
from tipstaff.workspace.git import Git
from tipstaff.workspace.materialise import bounds, history, objects
from tipstaff.workspace.materialise.bounds import Caps
from tipstaff.workspace.materialise.packing import fetched, opened
from tipstaff.workspace.materialise.planting import Planting
from tipstaff.workspace.materialise.reading import Inside, View, read
from tipstaff.workspace.materialise.unpacking import Unpacking

__all__ = ["Caps", "materialise"]
Json = dict[str, Any]
_CLASHES: Final = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}


def materialise(manifest: Json, blobs: BlobStore, target: Path, caps: Caps = Caps()) -> None:  # noqa: B008 - a value
    """Make the workspace that a manifest names in `target`, an empty folder.

    InputError when manifest or blobs are not what they should be, NotFoundError when a blob is missing.
    """
    view = read(manifest)
    try:
        if next(target.iterdir(), None) is not None:
            raise UsageError(f"{target} is not empty", hint="name an empty folder")
        unpack = _unpack_tree if view.kind == "tree" else history.unpack
        unpack(view, blobs, target.resolve(), caps)
    except OSError as error:
        raise _explained(error) from error


def _unpack_tree(view: View, blobs: BlobStore, target: Path, caps: Caps) -> None:
    listed = fetched(blobs, view.tree_hash or "", "the list")
    entries = listing.decode(listed)
    different = {entry.digest: entry.size for entry in entries}
    bounds.check(entries, caps, sum(different.values()))
    with Planting(target) as planting:
        Unpacking(entries, planting).take_all(view.packs or [], blobs)
    if view.git is not None:
        _unpack_git(view.git, blobs, target, caps)


def _unpack_git(wanted: Inside, blobs: BlobStore, target: Path, caps: Caps) -> None:
    """Make the `.git` of a tree: one commit."""
    with opened(blobs, wanted.pack_hash, "the history") as pack:
        exclude = wanted.exclude.encode(errors="replace")
        made = inside.write_git(target, wanted.commit, wanted.ref, wanted.format, shallow=True, exclude=exclude)
        git = Git(made)
        objects.take_pack(git, pack)
    history.inside_index(git, wanted.commit, caps)
    inside.settle(git.directory)


def _explained(error: OSError) -> InputError | StoreError:
    """Say what it means that the kernel does not write a name."""
    if error.errno in _CLASHES:
        return InputError(f"the workspace names something twice, or beneath what is no folder: {error}")
    return StoreError(f"the workspace cannot be written: {error.strerror}", hint="check the disk")
