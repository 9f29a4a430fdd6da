"""Brings a database to the schema of this version: numbered SQL files, forward only, each in one transaction.

Who migrates holds a lock of the home, so that two processes that start at once do it once. A database that a newer
version wrote is refused, never guessed at; one that is not ours as well.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError
from tipstaff.store.database import Database

APPLICATION: Final = 0x54495053  # "TIPS", in the header of the file


def migrate(database: Database) -> None:
    """Apply what is missing; at once when nothing is."""
    wanted = len(_scripts())
    if _version(database) == wanted and _is_ours(database):
        return
    with _locked(database.path.with_suffix(".lock")):
        version = _version(database)
        _refuse_foreign(database, version, wanted)
        if version == 0:
            database.run("PRAGMA auto_vacuum=INCREMENTAL")  # so that what is removed can be given back to the disk
        database.run("PRAGMA journal_mode=WAL")
        for number, script in list(enumerate(_scripts(), start=1))[version:]:
            with database.transaction(durable=True):
                for statement in _statements(script):
                    database.run(statement)
                database.run(f"PRAGMA application_id={APPLICATION}")
                database.run(f"PRAGMA user_version={number}")


def _refuse_foreign(database: Database, version: int, wanted: int) -> None:
    if not _is_ours(database) and database.one("SELECT 1 FROM sqlite_master"):
        raise StoreError(f"{database.path} is another program's database", hint="choose another TIPSTAFF_HOME")
    if version > wanted:
        raise StoreError(
            f"{database.path} was written by a newer Tipstaff (schema {version}; this one knows {wanted})",
            hint="install that version or a newer one",
        )


def _version(database: Database) -> int:
    return int(database.one("PRAGMA user_version")[0])


def _is_ours(database: Database) -> bool:
    return bool(database.one("PRAGMA application_id")[0] == APPLICATION)


def _scripts() -> list[str]:
    files = sorted((Path(__file__).parent / "schema").glob("*.sql"))
    return [file.read_text(encoding="utf-8") for file in files]


def _statements(script: str) -> Iterator[str]:
    """Take a script apart; sqlite3's own `executescript` would commit what is open."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
