"""The runners that a plane knows: their keys and their pools. Tokens are not kept; they are computed and compared."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tipstaff.keys import PublicKey
from tipstaff.store.database import Database

_read = msgspec.json.decode


def _write(value: list[str]) -> str:
    return msgspec.json.encode(value).decode()


class Runner(msgspec.Struct, frozen=True):
    """One enrolled runner."""

    runner_id: str
    key: PublicKey
    pool: str
    drain: bool = False
    last_seen_at: int | None = None


class Runners:
    """The runners of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, runner: Runner, now: int) -> Runner:
        """Keep a runner; the same key in the same pool is the same runner."""
        with self._database.transaction():
            self._database.run(
                "INSERT OR IGNORE INTO runners (runner_id, key_id, public_key_pem, pool, enrolled_at)"
                " VALUES (?, ?, ?, ?, ?)",
                runner.runner_id, runner.key.key_id, runner.key.pem, runner.pool, now,
            )  # fmt: skip
            row = self._database.one(
                "SELECT runner_id FROM runners WHERE public_key_pem = ? AND pool = ?", runner.key.pem, runner.pool
            )
        return Runner(row[0], runner.key, runner.pool)

    def get(self, runner_id: str) -> Runner | None:
        """Give a runner that is known and not revoked."""
        row = self._database.one(
            "SELECT public_key_pem, pool, drain, last_seen_at FROM runners WHERE runner_id = ? AND revoked_at IS NULL",
            runner_id,
        )
        return Runner(runner_id, PublicKey.parse(row[0]), row[1], bool(row[2]), row[3]) if row else None

    def seen(self, runner_id: str, now: int, labels: Sequence[str], tiers: Sequence[str] | None) -> None:
        """Note when a runner was last heard of, and what it says of itself."""
        self._database.run(
            "UPDATE runners SET last_seen_at = ?, labels = ?, tiers = ? WHERE runner_id = ?",
            now, _write(list(labels)), None if tiers is None else _write(list(tiers)), runner_id,
        )  # fmt: skip

    def drain(self, runner_id: str, *, on: bool) -> bool:
        """Say whether a runner is to be given no more runs; gives whether there is such a runner."""
        statement = "UPDATE runners SET drain = ? WHERE runner_id = ? AND revoked_at IS NULL"
        return self._database.run(statement, int(on), runner_id) == 1

    def all(self) -> list[dict[str, Any]]:
        """List the runners that are not revoked, with what they said of themselves."""
        rows = self._database.all(
            "SELECT runner_id, key_id, pool, enrolled_at, last_seen_at, labels, tiers, drain FROM runners"
            " WHERE revoked_at IS NULL ORDER BY enrolled_at, runner_id"
        )
        return [
            {
                "runner_id": row[0],
                "key_id": row[1],
                "pool": row[2],
                "enrolled_at": row[3],
                "last_seen_at": row[4],
                "labels": _read(row[5]),
                "tiers": None if row[6] is None else _read(row[6]),
                "drain": bool(row[7]),
            }
            for row in rows
        ]

    def key(self, runner_id: str) -> PublicKey | None:
        """Give a runner's key, also of one that is revoked: what it signed before still has to be shown."""
        row = self._database.one("SELECT public_key_pem FROM runners WHERE runner_id = ?", runner_id)
        return PublicKey.parse(row[0]) if row else None

    def is_revoked(self, runner_id: str) -> bool:
        """Say whether nothing more is taken from a runner."""
        row = self._database.one("SELECT revoked_at FROM runners WHERE runner_id = ?", runner_id)
        return row is None or row[0] is not None

    def known(self, key: PublicKey, pool: str) -> str | None:
        """Give the runner that has this key in this pool, also one that is revoked."""
        row = self._database.one("SELECT runner_id FROM runners WHERE public_key_pem = ? AND pool = ?", key.pem, pool)
        return row[0] if row else None

    def revoke(self, runner_id: str, now: int) -> bool:
        """Take no more claims from a runner."""
        with self._database.transaction():
            statement = "UPDATE runners SET revoked_at = ? WHERE runner_id = ? AND revoked_at IS NULL"
            return self._database.run(statement, now, runner_id) == 1
