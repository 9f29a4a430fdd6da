"""Blobs are whole, checked when they are read, and small ones cost no file."""

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tipstaff.errors import BusyError, NotFoundError, StoreError
from tipstaff.store.blobs import IN_ROW, PART

LARGE = b"0123456789abcdef" * 8192


def files(store):
    """List the files of the blobs."""
    folder = store.database.path.parent / "blobs"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("size", "in_row"), [(0, True), (1, True), (IN_ROW, True), (IN_ROW + 1, False)])
def test_a_blob_comes_back_as_it_went(store, size, in_row):
    """Bytes of any size are given back by their sha-256; only large ones are files."""
    content = b"x" * size
    digest = store.blobs.put(content)

    assert digest == sha256(content).hexdigest()
    assert store.blobs.get(digest) == content
    assert (files(store) == []) is in_row


def test_the_same_bytes_are_kept_once(store):
    """Keeping a blob again changes nothing."""
    assert store.blobs.put(LARGE) == store.blobs.put(LARGE)
    assert len(files(store)) == 1


@given(pieces=st.lists(st.binary(max_size=40_000), max_size=12))
@settings(max_examples=25)
def test_pieces_make_the_whole(tmp_path_factory, pieces):
    """However a blob is cut into pieces, it is the same blob."""
    from tipstaff.store import Store  # noqa: PLC0415 - one store for each example

    store = Store(tmp_path_factory.mktemp("store"))
    writer = store.blobs.writer()
    for piece in pieces:
        writer.write(piece)
    digest = writer.finish()

    assert digest == sha256(b"".join(pieces)).hexdigest()
    assert store.blobs.get(digest) == b"".join(pieces)
    store.close()


def test_a_blob_that_is_not_there_is_said_so(store):
    """A digest that nobody put is not found."""
    with pytest.raises(NotFoundError, match="there is no blob"):
        store.blobs.get("0" * 64)
    assert not store.blobs.has("0" * 64)


def test_a_changed_file_is_never_given_out(store):
    """A file whose bytes do not fit its name is damage, and so is one that is gone."""
    digest = store.blobs.put(LARGE)
    store.blobs.path(digest).write_bytes(LARGE[:-1] + b"!")
    with pytest.raises(StoreError, match="is damaged"):
        store.blobs.get(digest)
    store.blobs.path(digest).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        store.blobs.get(digest)


def test_a_changed_row_is_never_given_out(store):
    """A row whose bytes do not fit its name is damage."""
    digest = store.blobs.put(b"small")
    store.database.run("UPDATE blobs SET content = ? WHERE hash = ?", b"other", digest)

    with pytest.raises(StoreError, match="is damaged"):
        store.blobs.get(digest)


def test_what_was_discarded_leaves_nothing(store):
    """A writer that is given up leaves no file and no row."""
    writer = store.blobs.writer()
    writer.write(LARGE)
    assert any(name.endswith(PART) for name in files(store))
    writer.discard()

    assert files(store) == []


def test_a_sweep_removes_what_the_dead_left_and_nothing_else(store):
    """A half-written file whose writer is gone is removed; one that is being written stays, and can be finished."""
    writer = store.blobs.writer()
    writer.write(LARGE)
    left = store.database.path.parent / "blobs" / f"left{PART}"
    left.write_bytes(b"half")
    store.blobs.sweep()

    assert not left.exists()
    assert store.blobs.get(writer.finish()) == LARGE


def test_a_row_follows_its_transaction(store):
    """A small blob of a transaction that fails is not kept."""

    def fail() -> None:
        with store.database.transaction():
            store.blobs.put(b"small")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not store.blobs.has(sha256(b"small").hexdigest())
    assert store.blobs.put(b"small") == sha256(b"small").hexdigest()


def test_a_small_blob_of_a_run_at_work_rides_on_its_transaction(store):
    """A riding blob costs no transaction of its own, comes back by its digest, and large ones are files as ever."""
    riding = store.blobs.riding()
    digest = riding.put(b"small")
    assert not store.blobs.has(digest)
    assert riding.get(digest) == b"small"
    large = riding.put(LARGE)

    assert store.blobs.get(digest) == b"small"
    assert store.blobs.get(large) == LARGE


def test_what_nothing_names_is_removed_and_what_something_names_is_not(store):
    """Blobs go when no run names them and a newer run is there; those of the newest run are too new to judge."""
    named, unnamed = store.blobs.put(LARGE), store.blobs.put(b"unnamed")
    store.blobs.use("run_1", [named])
    store.blobs.remove_unused()
    assert store.blobs.has(unnamed)
    store.database.run("INSERT INTO sqlite_sequence VALUES ('runs', 1)")
    store.blobs.remove_unused()
    assert (store.blobs.has(named), store.blobs.has(unnamed)) == (True, False)
    assert store.blobs.release("run_1", [named, unnamed]) == 1
    store.blobs.remove_unused([named])

    assert not store.blobs.has(named)
    assert files(store) == []


def test_a_file_that_no_row_speaks_of_is_removed(store):
    """What a process that was killed while it removed a blob left is found; a file with its row stays."""
    kept = store.blobs.put(LARGE)
    stray = store.blobs.path("ab" + "0" * 62)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"left")
    store.blobs.remove_strays()

    assert not stray.exists()
    assert store.blobs.get(kept) == LARGE


def test_the_size_of_a_store_counts_rows_files_and_the_log(store):
    """The size grows with what is kept, in a row or in a file, and shrinks when that is removed."""
    empty = store.size_bytes()
    store.blobs.put(LARGE)
    with_file = store.size_bytes()
    assert with_file >= empty + len(LARGE)
    for number in range(20):
        store.blobs.put(str(number).encode() * 20_000)
    assert store.size_bytes() >= with_file + 20 * 20_000
    store.database.run("INSERT INTO sqlite_sequence VALUES ('runs', 1)")
    store.blobs.remove_unused()
    store.shrink()

    assert store.size_bytes() <= empty
    assert store.database.path.stat().st_size <= empty


def test_a_large_blob_is_not_hashed_for_nobody(store):
    """Where nobody waits any more the check ends early; where somebody does, the blob is given."""
    digest = store.blobs.put(b"x" * (IN_ROW + 1))
    with pytest.raises(BusyError, match="nobody waits"):
        store.blobs.open(digest, lambda: False)
    with store.blobs.open(digest, lambda: True) as file:
        assert file.read() == b"x" * (IN_ROW + 1)
