"""Blobs that are read in pieces: checked whole before the first piece is given out."""

import os

import pytest

from tipstaff.errors import NotFoundError, StoreError
from tipstaff.store import Store
from tipstaff.store.blobs import IN_ROW


@pytest.mark.parametrize("size", [0, 1, IN_ROW, IN_ROW + 1, 3_000_000])
def test_any_blob_can_be_read_in_pieces(tmp_path, size):
    """What was kept comes out the same, whether it lies in a row or in a file."""
    store, content = Store(tmp_path), os.urandom(size)
    digest = store.blobs.put(content)
    with store.blobs.open(digest) as file:
        assert b"".join(iter(lambda: file.read(100_000), b"")) == content
    store.close()


def test_a_damaged_file_gives_nothing(tmp_path):
    """Bytes that do not fit their name, or are gone, are an error before anything is read; a whole file is not."""
    store = Store(tmp_path)
    digest = store.blobs.put(b"x" * (IN_ROW + 1))
    store.blobs.open(digest).close()
    store.blobs.path(digest).write_bytes(b"y" * (IN_ROW + 1))
    with pytest.raises(StoreError, match="damaged"):
        store.blobs.open(digest)
    store.blobs.path(digest).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        store.blobs.open(digest)
    with pytest.raises(NotFoundError, match="no blob"):
        store.blobs.open("0" * 64)
    store.close()
