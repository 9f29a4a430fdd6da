"""The runners that a plane knows: their keys and their pools. Tokens are not kept; they are computed and compared."""

import msgspec

from tipstaff.keys import PublicKey
from tipstaff.store.database import Database


class Runner(msgspec.Struct, frozen=True):
    """One enrolled runner."""

    runner_id: str
    key: PublicKey
    pool: str


class Runners:
    """The runners of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, runner: Runner, now: int) -> Runner:
        """Keep a runner; the same key in the same pool is the same runner."""
        with self._database.transaction():
            self._database.run(
                "INSERT OR IGNORE INTO runners VALUES (?, ?, ?, ?, ?, NULL)",
                runner.runner_id, runner.key.key_id, runner.key.pem, runner.pool, now,
            )  # fmt: skip
            row = self._database.one(
                "SELECT runner_id FROM runners WHERE public_key_pem = ? AND pool = ?", runner.key.pem, runner.pool
            )
        return Runner(row[0], runner.key, runner.pool)

    def get(self, runner_id: str) -> Runner | None:
        """Give a runner that is known and not revoked."""
        row = self._database.one(
            "SELECT public_key_pem, pool FROM runners WHERE runner_id = ? AND revoked_at IS NULL", runner_id
        )
        return Runner(runner_id, PublicKey.parse(row[0]), row[1]) if row else None

    def key(self, runner_id: str) -> PublicKey | None:
        """Give a runner's key, also of one that is revoked: what it signed before still has to be shown."""
        row = self._database.one("SELECT public_key_pem FROM runners WHERE runner_id = ?", runner_id)
        return PublicKey.parse(row[0]) if row else None

    def revoke(self, runner_id: str, now: int) -> bool:
        """Take no more claims from a runner."""
        with self._database.transaction():
            statement = "UPDATE runners SET revoked_at = ? WHERE runner_id = ? AND revoked_at IS NULL"
            return self._database.run(statement, now, runner_id) == 1
