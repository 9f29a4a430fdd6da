"""The contents of a tree as packs."""

import json
import shutil
from hashlib import sha256
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workspace.shelf import ODD, Shelf, entries, grow
from tipstaff.errors import InputError, NotFoundError
from tipstaff.workspace import listing
from tipstaff.workspace.listing import FILE, Entry
from tipstaff.workspace.materialise import packing


def contents(shelf, packs):
    """Give what packs hold, whole."""
    found: dict[str, bytes] = {}
    for digest in packs:
        for content, piece in packing.read(BytesIO(shelf.get(digest))):
            found[content] = found.get(content, b"") + bytes(piece)
    return found


def test_packs_hold_each_content_once_and_the_list_lies_beside_them(tmp_path):
    """Every content that is not empty is in one pack, under its digest, and the list is a blob of its own."""
    shelf = Shelf()
    listed = entries(ODD)

    packs = packing.pack(grow(tmp_path / "base", ODD), listed, shelf)

    held = contents(shelf, packs)
    assert held == {entry.digest: content for entry, (_, content) in zip(listed, ODD.values(), strict=True) if content}
    assert listing.decode(shelf.get(listing.tree_hash(listing.encode(listed)))) == sorted(listed)


def test_a_pack_is_a_line_and_contents(tmp_path):
    """The first line of a pack names its contents with their lengths; they follow in that order."""
    shelf = Shelf()
    tree = {b"a": (0o100644, b"one"), b"b": (0o100644, b"three")}

    (digest,) = packing.pack(grow(tmp_path / "base", tree), entries(tree), shelf)

    line, _, rest = shelf.get(digest).partition(b"\n")
    assert json.loads(line) == [[sha256(b"one").hexdigest(), 3], [sha256(b"three").hexdigest(), 5]]
    assert rest == b"onethree"


def test_what_known_packs_hold_is_not_packed_again(tmp_path):
    """A second tree's packs are the first one's and one with the new content alone."""
    shelf = Shelf()
    first = {b"a": (0o100644, b"one"), b"b": (0o100644, b"two")}
    second = {**first, b"c": (0o100644, b"three")}
    known = packing.pack(grow(tmp_path / "first", first), entries(first), shelf)

    packs = packing.pack(grow(tmp_path / "second", second), entries(second), shelf, known)

    assert packs[:1] == known
    assert contents(shelf, packs[1:]) == {sha256(b"three").hexdigest(): b"three"}


def test_known_packs_that_are_of_no_use_or_gone_are_left_out(tmp_path):
    """Of the packs known, one that holds nothing wanted, and one that is not there, are not named."""
    shelf = Shelf()
    tree = {b"a": (0o100644, b"one")}
    other = {b"x": (0o100644, b"other")}
    useless = packing.pack(grow(tmp_path / "other", other), entries(other), shelf)

    packs = packing.pack(grow(tmp_path / "base", tree), entries(tree), shelf, [*useless, "0" * 64])

    assert contents(shelf, packs) == {sha256(b"one").hexdigest(): b"one"}


def test_a_known_pack_with_a_part_of_a_content_is_not_used(tmp_path):
    """A pack with only the beginning of a wanted content is passed over, so that no part of it comes twice."""
    shelf = Shelf()
    tree = {b"a": (0o100644, b"content"), b"b": (0o100644, b"other")}
    rows = [[sha256(b"other").hexdigest(), 5], [sha256(b"content").hexdigest(), 3]]
    part = shelf.put(json.dumps(rows).encode() + b"\nothercon")

    packs = packing.pack(grow(tmp_path / "base", tree), entries(tree), shelf, [part])

    assert part not in packs
    assert set(contents(shelf, packs).values()) == {b"content", b"other"}


@given(sizes=st.lists(st.integers(0, 40), max_size=20), most=st.integers(1, 16))
def test_every_content_is_planned_once_and_no_pack_is_too_large(sizes, most):
    """Pieces cover every content in order, a pack holds at most its bytes, and only what fits in none is cut."""
    listed = [Entry(b"%d" % number, FILE, "0" * 64, size) for number, size in enumerate(sizes)]

    packs = list(packing.plan(listed, most))

    pieces = [piece for pack in packs for piece in pack]
    for entry in listed:
        own = [piece for piece in pieces if piece.entry is entry]
        assert [piece.start for piece in own] == list(range(0, entry.size, most))
        assert sum(piece.size for piece in own) == entry.size
    assert all(0 < sum(piece.size for piece in pack) <= most for pack in packs)


def test_a_file_that_is_not_as_listed_is_an_error(tmp_path):
    """A base that was changed after its list was made is not packed."""
    tree = {b"a": (0o100644, b"one")}
    base = grow(tmp_path / "base", tree)
    (base / "a").write_bytes(b"eno")

    with pytest.raises(InputError, match="'a' changed since"):
        packing.pack(base, entries(tree), Shelf())


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_pack_or_an_input_error(content):
    """Reading a pack gives contents or raises InputError, whatever the bytes."""
    try:
        held = list(packing.read(BytesIO(content)))
    except InputError:
        return
    assert sum(len(piece) for _, piece in held) < len(content)


def test_the_pack_of_a_base_s_git_is_kept_by_its_digest(tmp_path):
    """The git pack in a base becomes a blob if it is the one that the manifest names, and is missed otherwise."""
    shelf = Shelf()
    folder = tmp_path / ".git/objects/pack"
    folder.mkdir(parents=True)
    (folder / "pack-1.pack").write_bytes(b"PACK one")

    packing.keep_git_pack(tmp_path, sha256(b"PACK one").hexdigest(), shelf)

    assert shelf.get(sha256(b"PACK one").hexdigest()) == b"PACK one"
    shutil.rmtree(folder)
    with pytest.raises(NotFoundError, match="no pack"):
        packing.keep_git_pack(tmp_path, sha256(b"PACK one").hexdigest(), shelf)
