"""One database, many processes: changes are whole, waited for and explained."""

import os
import sqlite3
import stat
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from tipstaff.errors import BusyError, StoreError
from tipstaff.store import Store
from tipstaff.store.database import Database


@pytest.fixture
def database(tmp_path):
    made = Database(tmp_path / "one.sqlite")
    made.run("PRAGMA journal_mode=WAL")
    made.run("CREATE TABLE things (name TEXT PRIMARY KEY)")
    yield made
    made.close()


def things(database: Database) -> list[str]:
    """List what is there."""
    return [row[0] for row in database.all("SELECT name FROM things ORDER BY name")]


def test_a_transaction_is_kept_whole(database):
    """What two statements of one transaction wrote is there after it."""
    with database.transaction():
        database.run("INSERT INTO things VALUES ('a')")
        database.run("INSERT INTO things VALUES ('b')")

    assert things(database) == ["a", "b"]


def test_a_transaction_that_fails_leaves_nothing(database):
    """An exception in a transaction takes everything in it back, and the next one works."""

    def fail() -> None:
        with database.transaction():
            database.run("INSERT INTO things VALUES ('a')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with database.transaction():
        database.run("INSERT INTO things VALUES ('b')")

    assert things(database) == ["b"]


def test_a_transaction_inside_another_is_part_of_it(database):
    """The inner transaction is taken back with the outer one."""

    def fail() -> None:
        with database.transaction():
            with database.transaction():
                database.run("INSERT INTO things VALUES ('a')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert things(database) == []


@pytest.mark.parametrize("durable", [True, False])
def test_power_loss_is_guarded_against_only_where_it_must_be(database, durable):
    """A durable transaction runs with synchronous FULL, any other with NORMAL."""
    with database.transaction(durable=durable):
        assert database.one("PRAGMA synchronous")[0] == (2 if durable else 1)


def test_a_durable_transaction_cannot_hide_in_another(database):
    """Durability that would not be had is refused, not promised."""
    with database.transaction(), pytest.raises(RuntimeError, match="durable"), database.transaction(durable=True):
        pass


def test_two_connections_wait_for_each_other(database):
    """A second connection's transaction waits until the first has ended; neither update is lost."""
    database.run("INSERT INTO things VALUES ('0')")

    def count_up(connection: Database) -> None:
        for _ in range(50):
            with connection.transaction():
                value = int(connection.one("SELECT name FROM things")[0])
                connection.run("UPDATE things SET name = ?", str(value + 1))

    other = Database(database.path)
    threads = [Thread(target=count_up, args=(one,)) for one in (database, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()

    assert things(database) == ["100"]


def test_the_file_is_private(tmp_path):
    """The database and its side files are readable by their owner alone, whatever the umask."""
    old = os.umask(0)
    try:
        store = Store(tmp_path)
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("store.*")}
    store.close()

    assert set(modes) >= {"store.sqlite", "store.sqlite-wal", "store.lock"}
    assert set(modes.values()) == {0o600}


def test_bytes_that_are_no_database_are_refused_in_one_sentence(tmp_path):
    """A file of other content is said to be damaged, with what to do."""
    (tmp_path / "store.sqlite").write_bytes(b"this is not a database" * 1000)

    with pytest.raises(StoreError, match="is damaged, or no database at all; restore it from a backup"):
        Store(tmp_path)


def test_a_damaged_page_is_said_to_be_damage(tmp_path):
    """Pages that were overwritten are found when they are read, as damage."""
    store = Store(tmp_path)
    for number in range(200):
        store.blobs.put(str(number).encode() * 1000)
    store.close()
    path = tmp_path / "store.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StoreError, match="is damaged"):
        Store(tmp_path).blobs.put(b"more")


def test_damage_is_looked_for_on_request(store):
    """A sound database has no faults; that can be asked."""
    assert store.database.faults() == []


def test_a_full_disk_is_said_to_be_full(database):
    """A database that cannot grow says that the disk is full."""
    database.run("PRAGMA max_page_count=3")

    def fill() -> None:
        with database.transaction():
            for number in range(10_000):
                database.run("INSERT INTO things VALUES (?)", "x" * 100 + str(number))

    with pytest.raises(StoreError, match="disk is full"):
        fill()
    assert things(database) == []


def test_a_busy_database_is_said_to_be_busy(tmp_path):
    """A database that another process keeps locked is given up on with a sentence."""
    path = tmp_path / "one.sqlite"
    database = Database(path)
    database.patience_seconds = 0.01
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreError, match="busy by another process"), database.transaction():
        pass
    holder.close()
    with database.transaction():
        pass
    database.close()


def test_a_missing_folder_is_a_sentence(tmp_path):
    """A store is not made in a folder that is not there."""
    with pytest.raises(StoreError, match="there is no folder"):
        Store(tmp_path / "missing")


def test_a_symbolic_link_is_not_followed(tmp_path):
    """A database that is a link to somewhere else is refused."""
    (tmp_path / "store.sqlite").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path)
    assert not Path(tmp_path / "elsewhere").exists()


def test_without_waiting_a_busy_database_is_said_so_at_once(tmp_path):
    """Whoever may not be kept waiting hears at once that another process writes, and nothing is changed."""
    database = Database(tmp_path / "one.sqlite")
    database.run("PRAGMA journal_mode=WAL")
    database.run("CREATE TABLE things (name TEXT PRIMARY KEY)")
    holder = sqlite3.connect(database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(BusyError), database.without_waiting(), database.transaction():
        pass
    assert time.monotonic() - started < 1
    holder.execute("COMMIT")
    holder.close()
    with database.without_waiting(), database.transaction():
        database.run("INSERT INTO things VALUES ('a')")

    assert things(database) == ["a"]
    database.close()


def test_without_waiting_another_thread_is_not_waited_for(database):
    """A thread that is at the database makes it busy for one that may not wait; afterwards it is free."""
    entered, leave = Event(), Event()

    def stay() -> None:
        with database.transaction():
            entered.set()
            leave.wait(10)

    thread = Thread(target=stay)
    thread.start()
    assert entered.wait(10)
    with pytest.raises(BusyError), database.without_waiting():
        pass
    leave.set()
    thread.join()
    with database.without_waiting():
        assert things(database) == []


def test_a_statement_rides_on_the_next_transaction(database):
    """What rides is not there before the next transaction, is there after it, and survives one that fails."""

    def fail() -> None:
        with database.transaction():
            raise KeyError

    database.ride("INSERT INTO things VALUES (?)", "a")
    assert things(database) == []
    with pytest.raises(KeyError):
        fail()
    assert things(database) == []
    with database.transaction():
        database.ride("INSERT INTO things VALUES (?)", "b")

    assert things(database) == ["a", "b"]
    with database.transaction():
        pass
    assert things(database) == ["a", "b"]


def test_what_rides_is_kept_when_the_database_is_closed(tmp_path):
    """A database that is closed writes what still waits."""
    for expected in ([], ["a"]):
        database = Database(tmp_path / "one.sqlite")
        database.run("CREATE TABLE IF NOT EXISTS things (name TEXT PRIMARY KEY)")
        assert things(database) == expected
        database.ride("INSERT OR IGNORE INTO things VALUES ('a')")
        database.close()
