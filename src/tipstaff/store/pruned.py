"""What was removed on purpose: one line for each run, or refusal, whose content is gone.

The journal keeps the digests of what was removed, so that nothing can be taken out of it; these lines say that it was
the owner who did it, and when.
"""

import msgspec

from tipstaff.store.database import Database


class Tombstone(msgspec.Struct, frozen=True):
    """One removal; `contract_hash` is None for a request that never became a run."""

    id: str
    contract_hash: str | None
    proof_digest: str
    ts: int
    pruned_at: int


class Pruned:
    """The removals of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tombstone: Tombstone) -> None:
        """Say that something was removed; inside the transaction that does so."""
        self._database.run("INSERT INTO pruned VALUES (?, ?, ?, ?, ?)", *msgspec.structs.astuple(tombstone))

    def get(self, name: str) -> Tombstone | None:
        """Give the line of a run, or a refusal, that was removed."""
        row = self._database.one("SELECT * FROM pruned WHERE id = ?", name)
        return Tombstone(*row) if row else None

    def all(self) -> list[Tombstone]:
        """List what was removed, in the order of intake."""
        return [Tombstone(*row) for row in self._database.all("SELECT * FROM pruned ORDER BY ts, rowid")]
