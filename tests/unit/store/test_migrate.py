"""The schema goes forward, once, and never guesses."""

import sqlite3
import subprocess
import sys

import pytest

from tipstaff.errors import StoreError
from tipstaff.store import Store

OPEN_AT_ONCE = """
import sys
from pathlib import Path
from tipstaff.store import Store
sys.stdin.read(1)
Store(Path(sys.argv[1])).blobs.put(sys.argv[2].encode())
"""


def changed(path, statement):
    """Run a statement on the file behind the store's back."""
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_new_store_has_the_newest_schema(store):
    """A store that was just made has a version, the write-ahead log and our mark."""
    assert store.database.one("PRAGMA user_version")[0] == 3
    assert store.database.one("PRAGMA journal_mode")[0] == "wal"


def test_a_store_is_opened_again_as_it_is(tmp_path):
    """What one process kept, the next one finds."""
    first = Store(tmp_path)
    kept = first.blobs.put(b"kept")
    first.close()
    second = Store(tmp_path)

    assert second.blobs.get(kept) == b"kept"
    second.close()


def test_a_newer_store_is_refused(tmp_path):
    """A store that a newer version wrote is refused with both numbers, and is not touched."""
    Store(tmp_path).close()
    changed(tmp_path / "store.sqlite", "PRAGMA user_version=7")

    with pytest.raises(StoreError, match=r"newer Tipstaff \(schema 7; this one knows 3\); install that version"):
        Store(tmp_path)


def test_another_programs_database_is_refused(tmp_path):
    """A database with tables that are not ours is left alone."""
    changed(tmp_path / "store.sqlite", "CREATE TABLE theirs (x)")

    with pytest.raises(StoreError, match="another program's"):
        Store(tmp_path)


def test_processes_that_start_at_once_make_one_store(tmp_path):
    """Six processes that open an empty home at the same moment all succeed, and all their writes are there."""
    children = [
        subprocess.Popen([sys.executable, "-c", OPEN_AT_ONCE, tmp_path, str(number)], stdin=subprocess.PIPE)
        for number in range(6)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"x")
        child.stdin.flush()
    codes = [child.wait(60) for child in children]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    store = Store(tmp_path)

    assert codes == [0] * 6
    assert store.database.one("SELECT count(*) FROM blobs")[0] == 6
    store.close()


def test_a_secret_of_the_store_stays(tmp_path):
    """The first who asks for a secret makes it; later ones, also in other processes, get the same."""
    first = Store(tmp_path)
    made = first.secret("tokens", lambda size: b"a" * size)
    first.close()
    second = Store(tmp_path)

    assert second.secret("tokens", lambda size: b"b" * size) == made
    assert second.secret("other", lambda size: b"b" * size) != made
    second.close()
