"""A repository from its bundle: the files as its commit and the dirty diff have them, and a `.git` that works inside.

The only git directory is the one that the run will find, made by us a moment before. The diff is applied in an index
of its own, whose objects go away again; all files are written by `Planting`, none by git.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.blobs import BlobStore
from tipstaff.workspace import inside
from tipstaff.workspace.git import Git, GitError
from tipstaff.workspace.listing import FOLDER, LINK, RIGHTS, Entry
from tipstaff.workspace.materialise import bounds, bundles, objects, reading
from tipstaff.workspace.materialise.bounds import Caps
from tipstaff.workspace.materialise.packing import fetched, opened
from tipstaff.workspace.materialise.planting import CHUNK, Planting, write
from tipstaff.workspace.materialise.reading import View

SCRATCH: Final = "tipstaff"  # in our own .git, while it is being made


def unpack(view: View, blobs: BlobStore, target: Path, caps: Caps) -> None:
    """Write the files of a git manifest beneath `target`, and its `.git`."""
    git, arrived = _receive(view, blobs, target)
    inside_index(git, view.base_ref, caps)
    with _scratch(git) as scratch:
        worked, tree = git, view.base_ref
        if view.dirty_diff_hash is not None:
            diff = fetched(blobs, view.dirty_diff_hash, "the diff")
            arrived += len(diff)
            worked, tree = _patched(git, diff, scratch)
        tracked = objects.list_tree(worked, tree, caps)
        untracked = reading.untracked(view)
        bounds.check([*tracked, *untracked], caps, arrived + sum(entry.size for entry in untracked))
        with Planting(target) as planting:
            _plant_tracked(planting, worked, tracked, scratch)
            for entry in untracked:
                _plant_untracked(planting, entry, blobs)
    inside.settle(git.directory)


def inside_index(git: Git, commit: str, caps: Caps) -> None:
    """Make the index of a commit, once it is known that it fits into `caps`."""
    objects.check_commit(git, commit)
    objects.list_tree(git, commit, caps)
    try:
        git.run("read-tree", commit)
    except GitError as error:
        raise InputError(f"the workspace's commit cannot be used: {error.message}") from error


def _receive(view: View, blobs: BlobStore, target: Path) -> tuple[Git, int]:
    """Make the `.git` and put the bundle's pack into it; gives how many bytes arrived."""
    with opened(blobs, view.bundle_hash or "", "the bundle") as bundle:
        head = bundles.read(bundle.read(bundles.MOST_HEAD))
        inside.check_commit(view.base_ref, head.object_format)
        ref = head.branch_of(view.base_ref)
        git = Git(inside.write_git(target, view.base_ref, ref, head.object_format, shallow=False))
        bundle.seek(head.length)
        objects.take_pack(git, bundle)
        return git, bundle.tell()


@contextmanager
def _scratch(git: Git) -> Iterator[Path]:
    scratch = git.directory / SCRATCH
    (scratch / "objects" / "info").mkdir(parents=True)
    (scratch / "objects" / "info" / "alternates").write_text("../../objects\n")
    yield scratch
    shutil.rmtree(scratch)


def _patched(git: Git, diff: bytes, scratch: Path) -> tuple[Git, str]:
    """Apply a diff to the index, but to a copy, and with objects that go away; gives the tree that comes of it."""
    shutil.copyfile(git.directory / "index", scratch / "index")
    patched = Git(git.directory, objects=scratch / "objects", index=scratch / "index")
    try:
        patched.run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=diff, environ=objects.BOUNDED)
        return patched, patched.run("write-tree").decode().strip()
    except GitError as error:
        raise InputError(f"the workspace's diff cannot be applied: {error.message}") from error


def _plant_tracked(planting: Planting, git: Git, entries: list[Entry], scratch: Path) -> None:
    for entry in entries:
        if entry.type == FOLDER:
            planting.folder(entry.name, entry.mode & RIGHTS)
    for entry, content in objects.contents(git, [entry for entry in entries if entry.type != FOLDER], scratch):
        if entry.type == LINK:
            _check_target(entry)
            planting.link(entry.name, content.read(entry.size))
        else:
            _copy(planting, entry, content)


def _copy(planting: Planting, entry: Entry, content: IO[bytes]) -> None:
    descriptor = planting.create(entry.name, entry.mode & RIGHTS)
    try:
        left = entry.size
        while left and (chunk := content.read(min(CHUNK, left))):
            write(descriptor, chunk)
            left -= len(chunk)
    finally:
        os.close(descriptor)


def _plant_untracked(planting: Planting, entry: Entry, blobs: BlobStore) -> None:
    name = names.shown(entry.name)
    with opened(blobs, entry.digest, f"the untracked {name!r}") as content:
        size = content.seek(0, os.SEEK_END)
        if size != entry.size:
            raise InputError(f"the untracked {name!r} has {size} bytes, and not {entry.size} as the manifest says")
        content.seek(0)
        if entry.type == LINK:
            planting.link(entry.name, content.read(bounds.LONGEST_TARGET + 1))
        else:
            _copy(planting, entry, content)


def _check_target(entry: Entry) -> None:
    if entry.size > bounds.LONGEST_TARGET:
        raise InputError(f"the workspace's link {names.shown(entry.name)!r} is longer than a link can be")
