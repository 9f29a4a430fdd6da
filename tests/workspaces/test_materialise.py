"""Workspaces made again from blobs: trees, trees with a commit, repositories."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workspace.shelf import ODD, Shelf, Tree, entries, git, grow, seen
from tipstaff.errors import InputError, NotFoundError, UsageError
from tipstaff.model.noun import VERSION_MANIFEST
from tipstaff.workspace import listing
from tipstaff.workspace.capture.capturing import Wish, capture
from tipstaff.workspace.depot import Depot
from tipstaff.workspace.materialise import packing
from tipstaff.workspace.materialise.making import Caps, materialise

PARTS = st.binary(min_size=1, max_size=12).filter(
    lambda part: not set(part) & set(b"\0/") and part not in {b".", b".."} and b"git" not in part.lower()
)
RIGHTS = st.sampled_from([0o644, 0o755, 0o600, 0o444])
TREES = st.dictionaries(
    st.lists(PARTS, min_size=1, max_size=3).map(b"/".join), st.tuples(RIGHTS, st.binary(max_size=40)), max_size=8
)


def packed(base, tree, shelf, most_bytes=packing.PACK_BYTES):
    """Capture a tree in blobs, as the form `tree`."""
    listed = entries(tree)
    tree_hash = listing.tree_hash(listing.encode(listed))
    manifest = {"version": VERSION_MANIFEST, "kind": "tree", "baseRef": tree_hash, "treeHash": tree_hash}
    return {**manifest, "packs": packing.pack(base, listed, shelf, most_bytes=most_bytes)}


def made(manifest, shelf, target: Path, caps=Caps()):  # noqa: B008 - a value
    """Make a workspace in a new folder."""
    target.mkdir()
    materialise(manifest, shelf, target, caps)
    return target


def test_a_tree_comes_back_byte_for_byte_and_mode_for_mode(tmp_path):
    """Odd names, rights, links, empty files and empty folders are the same after the way through blobs."""
    shelf = Shelf()
    base = grow(tmp_path / "base", ODD)

    target = made(packed(base, ODD, shelf), shelf, tmp_path / "target")

    assert seen(target) == seen(base) == ODD


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=TREES)
def test_any_tree_comes_back(tmp_path_factory, files):
    """Whatever the names, the rights and the contents: a tree of files comes back as it was."""
    folder = tmp_path_factory.mktemp("any")
    shelf = Shelf()
    tree: Tree = {}
    for name, (rights, content) in files.items():
        above = name.split(b"/")[:-1]
        parents = [b"/".join(above[:depth]) for depth in range(1, len(above) + 1)]
        if not any(parent in files for parent in parents):
            tree |= dict.fromkeys(parents, (16877, b"")) | {name: (stat.S_IFREG | rights, content)}
    base = grow(folder / "base", tree)

    assert seen(made(packed(base, tree, shelf), shelf, folder / "target")) == tree


def test_a_content_longer_than_a_pack_comes_back_under_all_its_names(tmp_path):
    """A content that goes over several packs is put together again, once for each name that has it."""
    shelf = Shelf()
    long = os.urandom(100)
    tree = {b"a": (0o100644, b"first"), b"b": (0o100755, long), b"c": (0o100600, long), b"d": (0o100644, b"last")}
    base = grow(tmp_path / "base", tree)

    manifest = packed(base, tree, shelf, most_bytes=32)

    assert len(manifest["packs"]) == 5
    assert seen(made(manifest, shelf, tmp_path / "target")) == tree


def test_an_empty_tree_is_an_empty_folder(tmp_path):
    """The tree without files needs no packs."""
    shelf = Shelf()

    assert seen(made(packed(tmp_path, {}, shelf), shelf, tmp_path / "target")) == {}


def test_folders_that_no_entry_names_get_ordinary_rights(tmp_path):
    """A folder that only other names speak of can be entered by all, whatever the mask."""
    shelf = Shelf()
    tree = {b"a/b": (0o100644, b"x")}
    base = grow(tmp_path / "base", {b"a": (0o040755, b""), **tree})
    mask = os.umask(0o077)
    try:
        target = made(packed(base, tree, shelf), shelf, tmp_path / "target")
    finally:
        os.umask(mask)

    assert seen(target)[b"a"] == (0o040755, b"")


def test_only_an_empty_folder_is_filled(tmp_path):
    """A folder with something in it is refused, and stays as it is."""
    shelf = Shelf()
    manifest = packed(tmp_path, {}, shelf)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "mine").write_text("kept")

    with pytest.raises(UsageError, match="is not empty"):
        materialise(manifest, shelf, tmp_path / "target")

    assert seen(tmp_path / "target") == {b"mine": (0o100644, b"kept")}


def test_a_missing_blob_is_not_found(tmp_path):
    """A list, or a pack, that the blobs do not hold is named as missing."""
    shelf = Shelf()
    tree = {b"a": (0o100644, b"x")}
    manifest = packed(grow(tmp_path / "base", tree), tree, shelf)

    with pytest.raises(NotFoundError, match="no pack of the workspace holds"):
        made({**manifest, "packs": []}, shelf, tmp_path / "one")
    del shelf.kept[manifest["packs"][0]]
    with pytest.raises(NotFoundError, match="there is no blob"):
        made(manifest, shelf, tmp_path / "two")
    with pytest.raises(NotFoundError, match="there is no blob"):
        made(manifest, Shelf(), tmp_path / "three")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("ref", ["refs/heads/topic/one", None])
def test_a_tree_with_a_commit_has_a_git_that_works(tmp_path, object_format, ref):
    """A lean workspace has its files as they were, and git inside says what is not committed, and can commit."""
    shelf = Shelf()
    tree = {b"kept": (0o100644, b"same"), b"changed": (0o100755, b"after"), b"new": (0o100644, b"new")}
    base = grow(tmp_path / "base", {**tree, b"changed": (0o100755, b"before")})
    git(base, "init", "-q", f"--object-format={object_format}")
    git(base, "add", "kept", "changed")
    git(base, "commit", "-q", "-m", "first")
    git(base, "commit", "-q", "-m", "second", "--allow-empty")
    commit = git(base, "rev-parse", "HEAD").decode().strip()
    wanted = git(base, "rev-list", "--objects", "--no-walk", commit)
    names = b"".join(line.split(b" ")[0] + b"\n" for line in wanted.splitlines())
    pack_hash = shelf.put(git(base, "pack-objects", "-q", "--stdout", stdin=names))
    (base / "changed").write_bytes(b"after")
    inside = {"commit": commit, "ref": ref, "packHash": pack_hash, "format": object_format}

    target = made({**packed(base, tree, shelf), "git": inside}, shelf, tmp_path / "target")

    assert seen(target) == tree
    assert git(target, "status", "--porcelain") == b" M changed\n?? new\n"
    assert git(target, "log", "--format=%s") == b"second\n"
    assert git(target, "branch", "--show-current") == (b"topic/one\n" if ref else b"")
    git(target, "fsck", "--strict")
    git(target, "commit", "-q", "-a", "-m", "third")
    assert git(target, "log", "--format=%an %s", "-1") == b"t@example.org third\n"
    assert git(target, "remote") == b""
    assert list((target / ".git" / "hooks").iterdir()) == []


@pytest.mark.parametrize("form", ["tree", "lean", "git"])
def test_what_was_captured_here_is_made_elsewhere(tmp_path, form):
    """A captured folder, its list and contents packed, is the same folder after it travelled, in every form."""
    work = grow(tmp_path / "work", {name: found for name, found in ODD.items() if name != b"private"})
    git(work, "init", "-q")
    git(work, "add", "plain.txt", "tool", "deep", "case")
    git(work, "commit", "-q", "-m", "first")
    (work / "plain.txt").write_bytes(b"dirty")
    shelf, depot = Shelf(), Depot(tmp_path / "depot")
    manifest = capture(work, Wish(form), depot, shelf, environ={}).manifest
    if form != "git":
        with depot.base(manifest, lambda _: None) as base:
            listed = listing.decode(shelf.get(manifest["treeHash"]))
            manifest = {**manifest, "packs": packing.pack(base.path, listed, shelf)}
            if form == "lean":
                packing.keep_git_pack(base.path, manifest["git"]["packHash"], shelf)

    target = made(manifest, shelf, tmp_path / "target")

    found = {name: one for name, one in seen(target).items() if form != "git" or not stat.S_ISDIR(one[0])}
    assert found == {name: one for name, one in seen(work).items() if form != "git" or not stat.S_ISDIR(one[0])}
    if form != "tree":
        assert git(target, "status", "--porcelain", "-z") == git(work, "status", "--porcelain", "-z")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("version", "warrant.manifest.v2", "version"),
        ("version", None, "not a manifest"),
        ("treeHash", None, "treeHash"),
        ("treeHash", "0" * 64, "treeHash"),
        ("treeHash", "../../etc/passwd", "not a manifest"),
        ("packs", ["../../etc/passwd"], "not a manifest"),
        ("packs", {}, "not a manifest"),
        ("kind", "other", "not a manifest"),
        ("kind", None, "names no bundle"),
        ("git", {"commit": "HEAD", "packHash": "0" * 64}, "not the name of a commit"),
        ("git", {"commit": "0" * 40, "packHash": "0" * 64, "format": "md5"}, "sha1 or sha256"),
        ("git", {"commit": "0" * 40, "packHash": "0" * 64, "ref": "refs/heads/../../config"}, "name of a branch"),
        ("git", {"commit": "0" * 40, "packHash": "0" * 64, "ref": "refs/remotes/origin/main"}, "name of a branch"),
    ],
)
def test_a_manifest_that_is_none_is_an_input_error(tmp_path, field, value, said):
    """A manifest is understood, or refused before anything is written."""
    shelf = Shelf()

    with pytest.raises(InputError, match=said):
        made({**packed(tmp_path, {}, shelf), field: value}, shelf, tmp_path / "target")

    assert seen(tmp_path / "target", but=()) == {}
