"""Who may ask a plane for something, and the single-use tokens that runners enrol with. Tokens are kept as digests."""

from typing import Any

import msgspec

from tipstaff.store.database import Database

_COLUMNS = "name, principal_id, kind, role, created_at, revoked_at"


class Principal(msgspec.Struct, frozen=True):
    """One principal: `name` is who it is in contracts and approvals."""

    name: str
    principal_id: str
    kind: str
    role: str
    created_at: int
    revoked_at: int | None = None


class Principals:
    """The principals of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, principal: Principal, token_hash: str) -> bool:
        """Keep a principal; says whether its name was free."""
        return (
            self._database.run(
                "INSERT OR IGNORE INTO principals VALUES (?, ?, ?, ?, ?, ?, NULL)",
                principal.name, principal.principal_id, principal.kind, principal.role, token_hash,
                principal.created_at,
            ) == 1
        )  # fmt: skip

    def by_token(self, token_hash: str) -> Principal | None:
        """Give the principal whose token has this digest, unless it is revoked."""
        return self._one("token_hash = ? AND revoked_at IS NULL", token_hash)

    def get(self, name: str) -> Principal | None:
        """Give a principal, also a revoked one."""
        return self._one("name = ?", name)

    def all(self) -> list[Principal]:
        """List the principals by name."""
        rows = self._database.all(f"SELECT {_COLUMNS} FROM principals ORDER BY name")  # noqa: S608 - our own words
        return [Principal(*row) for row in rows]

    def rotate(self, name: str, token_hash: str) -> bool:
        """Give a principal another token; the one before is void. Says whether there was such a principal."""
        statement = "UPDATE principals SET token_hash = ? WHERE name = ? AND revoked_at IS NULL"
        return self._database.run(statement, token_hash, name) == 1

    def revoke(self, name: str, now: int) -> bool:
        """Take a principal's token away for good; its name stays taken."""
        statement = "UPDATE principals SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"
        return self._database.run(statement, now, name) == 1

    def _one(self, where: str, value: Any) -> Principal | None:
        row = self._database.one(f"SELECT {_COLUMNS} FROM principals WHERE {where}", value)  # noqa: S608 - our own words
        return Principal(*row) if row else None


class EnrollTokens:
    """The single-use tokens of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token_hash: str, pool: str | None, expires_at: int) -> None:
        """Keep a token."""
        self._database.run("INSERT INTO enroll_tokens VALUES (?, ?, ?, NULL)", token_hash, pool, expires_at)

    def find(self, token_hash: str, now: int) -> tuple[str | None, str | None] | None:
        """Give the pool of a token that has not run out, and the runner that used it; inside a transaction."""
        row = self._database.one(
            "SELECT pool, used_by FROM enroll_tokens WHERE token_hash = ? AND expires_at > ?", token_hash, now
        )
        return (row[0], row[1]) if row else None

    def use(self, token_hash: str, runner_id: str) -> None:
        """Say who used a token."""
        self._database.run("UPDATE enroll_tokens SET used_by = ? WHERE token_hash = ?", runner_id, token_hash)

    def forget(self, now: int) -> None:
        """Forget those that ran out."""
        self._database.run("DELETE FROM enroll_tokens WHERE expires_at <= ?", now)
