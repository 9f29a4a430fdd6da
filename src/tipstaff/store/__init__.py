"""The store: what a plane must not forget, in one folder of one machine.

`Store` is a SQLite database with its tables (`runs`, `questions`, `runners`, `refusals`, `journal`) and the blobs
beside it. Any number of processes share it. Keeps and finds; decides nothing and signs nothing by itself.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tipstaff.errors import StoreError
from tipstaff.store.blobs import Blobs
from tipstaff.store.database import Database
from tipstaff.store.journal import Journal
from tipstaff.store.migrate import migrate
from tipstaff.store.owners import Owner, Owners
from tipstaff.store.place import refuse_network
from tipstaff.store.pruned import Pruned, Tombstone
from tipstaff.store.refusals import Refusals
from tipstaff.store.runners import Runner, Runners
from tipstaff.store.runs import Run, Runs

if TYPE_CHECKING:
    from tipstaff.store.live import Attachments, Live
    from tipstaff.store.principals import EnrollTokens, Principals
    from tipstaff.store.questions import Questions

__all__ = [
    "Blobs",
    "Database",
    "Journal",
    "Owner",
    "Owners",
    "Run",
    "Runner",
    "Runners",
    "Runs",
    "Store",
    "Tombstone",
]

SECRET_BYTES: Final = 32


class Store:
    """One folder: `store.sqlite`, `blobs/`, `owners/`. The folder must be there."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise StoreError(f"there is no folder {folder} for the store")
        refuse_network(folder)
        self.database = Database(folder / "store.sqlite")
        migrate(self.database)
        self.runs = Runs(self.database)
        self.runners = Runners(self.database)
        self.refusals = Refusals(self.database)
        self.journal = Journal(self.database)
        self.blobs = Blobs(self.database, folder / "blobs")
        self.owners = Owners(folder / "owners")
        self.pruned = Pruned(self.database)

    @cached_property
    def questions(self) -> "Questions":
        """The questions that runs at work ask."""
        from tipstaff.store.questions import Questions  # noqa: PLC0415 - few runs ask while they run

        return Questions(self.database)

    @cached_property
    def principals(self) -> "Principals":
        """Who may ask for something."""
        from tipstaff.store.principals import Principals  # noqa: PLC0415 - an embedded plane has none

        return Principals(self.database)

    @cached_property
    def enroll_tokens(self) -> "EnrollTokens":
        """What runners enrol with."""
        from tipstaff.store.principals import EnrollTokens  # noqa: PLC0415 - as above

        return EnrollTokens(self.database)

    @cached_property
    def live(self) -> "Live":
        """What runs at work print."""
        from tipstaff.store.live import Live  # noqa: PLC0415 - as above

        return Live(self.database)

    @cached_property
    def attachments(self) -> "Attachments":
        """What came too late."""
        from tipstaff.store.live import Attachments  # noqa: PLC0415 - as above

        return Attachments(self.database)

    def secret(self, name: str, random: Callable[[int], bytes]) -> bytes:
        """Give the store's own secret called `name`; the first who asks makes it."""
        row = self.database.one("SELECT value FROM settings WHERE name = ?", name)
        if row is None:
            with self.database.transaction():
                self.database.run("INSERT OR IGNORE INTO settings VALUES (?, ?)", name, random(SECRET_BYTES))
            row = self.database.one("SELECT value FROM settings WHERE name = ?", name)
        return bytes(row[0])

    def size_bytes(self) -> int:
        """Say how much the store holds: pages in use, the write-ahead log, and the files of large blobs."""
        files = int(self.database.one("SELECT file_bytes FROM held")[0])
        return self.database.used_bytes() + self.database.log_bytes() + files

    def weight(self, run_id: str) -> int:
        """Say about how much would be free without a run."""
        found = self.database.one(
            "SELECT (SELECT coalesce(sum(length(link)), 0) FROM events WHERE run_id = ?1)"
            " + (SELECT length(contract) + coalesce(length(receipt), 0) FROM runs WHERE run_id = ?1)",
            run_id,
        )
        return int(found[0] or 0)

    def shrink(self) -> None:
        """Give pages that hold nothing back to the disk; what another process keeps busy stays for the next time."""
        self.blobs.remove_strays()
        self.database.shrink()

    def close(self) -> None:
        """Close the database."""
        self.database.close()
