"""One SQLite database, shared by any number of processes of one machine.

Write-ahead log; every change is one BEGIN IMMEDIATE transaction, so that what was read in it still holds when it is
written; a busy database is waited for. A `durable` transaction, and all before it, survives power loss (synchronous
FULL); any other survives SIGKILL. What SQLite cannot do is a `StoreError` of one sentence. Knows no table.

Waiting is done here and not by SQLite, so that a caller can say for each step whether it may be kept waiting.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tipstaff.errors import BusyError, StoreError

BUSY_SECONDS: Final = 30.0
PAGES_AT_ONCE: Final = 1000
PAGE_BYTES: Final = 4096  # SQLite's own choice
LOOK_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)  # between one look at a busy database and the next
_RESTORE = "restore it from a backup, or move it away to start anew"
_SENTENCES: Final = {
    sqlite3.SQLITE_BUSY: ("is kept busy by another process", "try again"),
    sqlite3.SQLITE_READONLY: ("cannot be written", "check who owns it, and that its disk is mounted writable"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written: the disk gives an error", "check the disk"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", _RESTORE),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "make room, for example with: tipstaff prune"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "check that its folder is there and that you may write in it"),
    sqlite3.SQLITE_NOTADB: ("is damaged, or no database at all", _RESTORE),
}
_PRIMARY = 0xFF  # the low byte of an extended result code is the primary one


class Database:
    """A connection that threads may share: one transaction at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._depth = 0
        self._durable = False
        self._synchronous = ""
        self._riding: list[tuple[str, tuple[Any, ...]]] = []
        self.patience_seconds = BUSY_SECONDS
        try:
            _create_private(path)
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            for setting in ("foreign_keys=ON", "trusted_schema=OFF", "cell_size_check=ON"):
                self.run(f"PRAGMA {setting}")
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection; what was committed, or waits for the next transaction, stays."""
        with self._lock:
            if self._riding:
                with self.transaction():
                    pass
            try:
                self._connection.close()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other threads of this process away."""
        with self._lock:
            yield

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside, whatever would have to wait for another process or thread is a `BusyError` instead."""
        if not self._lock.acquire(blocking=False):
            raise BusyError(f"another thread is at the database {self.path}", hint="try again")
        patience, self.patience_seconds = self.patience_seconds, 0.0
        try:
            yield
        finally:
            self.patience_seconds = patience
            self._lock.release()

    def take_time(self) -> None:
        """Say that something slow comes next: a `BusyError` inside `without_waiting`."""
        if not self.patience_seconds:
            raise BusyError("this takes time", hint="try again")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Change something: all of it or nothing. One inside another is part of it."""
        with self._lock:
            if self._depth:
                if durable and not self._durable:
                    raise RuntimeError("a durable transaction cannot begin inside one that is not")
                yield
                return
            self._begin(durable=durable)
            try:
                for statement, values in self._riding:
                    self.run(statement, *values)
                yield
                self.run("COMMIT")
                self._riding.clear()
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth = 0

    def run(self, statement: str, *values: Any) -> int:
        """Run one statement; gives how many rows it changed."""
        with self._lock:
            return self._execute(statement, values).rowcount

    def ride(self, statement: str, *values: Any) -> None:
        """Run one statement with the next transaction of this process: alone it would be a commit of its own."""
        with self._lock:
            if self._depth:
                self._execute(statement, values)
            else:
                self._riding.append((statement, values))

    def run_each(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Run one statement for each row of values, in a transaction; gives how many rows it changed."""
        with self._lock:
            try:
                return self._connection.executemany(statement, rows).rowcount
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def all(self, statement: str, *values: Any) -> list[Any]:
        """Ask for rows."""
        with self._lock:
            found = self._execute(statement, values)
            try:
                return found.fetchall()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def one(self, statement: str, *values: Any) -> Any:
        """Ask for one row, or None."""
        with self._lock:
            found = self._execute(statement, values)
            try:
                return found.fetchone()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def log_bytes(self) -> int:
        """Say how long the write-ahead log is."""
        return _file_bytes(f"{self.path}-wal")

    def used_bytes(self) -> int:
        """Say how much of the file, without the log, holds something."""
        free = int(self.one("PRAGMA freelist_count")[0])
        return max(0, _file_bytes(str(self.path)) - free * PAGE_BYTES)

    def shrink(self) -> None:
        """Give free pages and the log back to the disk, a part at a time; what others keep busy stays as it is."""
        free = -1
        with self._lock, suppress(sqlite3.OperationalError):
            while free != (free := int(self.one("PRAGMA freelist_count")[0])) and free:
                # Only a script is run to its end: this pragma gives back one page at each step, and no row.
                self._connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE});")
            self.all("PRAGMA wal_checkpoint(TRUNCATE)")

    def faults(self) -> list[str]:
        """Look through the whole file for damage; slow, for those who ask."""
        found = [str(row[0]) for row in self.all("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def _begin(self, *, durable: bool) -> None:
        wanted = "FULL" if durable else "NORMAL"
        if wanted != self._synchronous:  # SQLite ignores the setting inside a transaction
            self.run(f"PRAGMA synchronous={wanted}")
            self._synchronous = wanted
        self.run("BEGIN IMMEDIATE")
        self._depth, self._durable = 1, durable

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite has done it by itself after some errors
            self.run("ROLLBACK")

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        """Run a statement, waiting for others where that helps; inside the lock."""
        started, looks = 0.0, iter(LOOK_SECONDS)
        while True:
            try:
                return self._connection.execute(statement, values)
            except sqlite3.Error as error:
                failure = self._failure(error)
                now = time.monotonic()
                started = started or now
                if not isinstance(failure, BusyError) or now - started >= self.patience_seconds:
                    raise failure from error
            time.sleep(next(looks, LOOK_SECONDS[-1]))

    def _failure(self, error: sqlite3.Error) -> StoreError:
        """Say what SQLite's word means for whoever waits for an answer."""
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
        sentence, hint = _SENTENCES.get(code, (f"cannot be used: {error}", ""))
        kind = BusyError if code == sqlite3.SQLITE_BUSY else StoreError
        return kind(f"the database {self.path} {sentence}", hint=hint)


def _file_bytes(name: str) -> int:
    try:
        return os.stat(name).st_size  # noqa: PTH116 - asked at every intake, and a Path costs more than the answer
    except OSError:
        return 0


def _create_private(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others; its side files take its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise StoreError(
            f"the database {path} cannot be opened: {error.strerror}",
            hint="check that its folder is there and that you may write in it",
        ) from error
