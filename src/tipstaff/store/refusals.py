"""Refusals: the signed denials of a store, those of requests that never became runs and those that ended one."""

from typing import Any

import msgspec

from tipstaff.canonical import canonical
from tipstaff.store.database import Database

Json = dict[str, Any]


class Refusals:
    """The refusals of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, document: Json, ts: int, run_id: str | None) -> None:
        """Keep a refusal; a run has at most one."""
        self._database.run(
            "INSERT INTO refusals (refusal_id, run_id, ts, document) VALUES (?, ?, ?, ?)",
            document["id"], run_id, ts, canonical(document),
        )  # fmt: skip

    def of_run(self, run_id: str) -> Json | None:
        """Give the refusal that ended a run, if one did."""
        return _document(self._database.one("SELECT document FROM refusals WHERE run_id = ?", run_id))

    def get(self, refusal_id: str) -> Json | None:
        """Give a refusal by its id."""
        return _document(self._database.one("SELECT document FROM refusals WHERE refusal_id = ?", refusal_id))

    def requests(self, after: int, count: int) -> list[tuple[int, Json]]:
        """List the oldest refusals of requests that never became runs, behind number `after`, each with its number."""
        rows = self._database.all(
            "SELECT number, document FROM refusals WHERE run_id IS NULL AND number > ? ORDER BY number LIMIT ?",
            after, count,
        )  # fmt: skip
        return [(int(row[0]), msgspec.json.decode(row[1])) for row in rows]

    def remove(self, refusal_id: str) -> bool:
        """Remove the refusal of a request that never became a run; says whether there was one."""
        return self._database.run("DELETE FROM refusals WHERE refusal_id = ? AND run_id IS NULL", refusal_id) == 1

    def latest(self, count: int) -> list[Json]:
        """List the newest refusals."""
        rows = self._database.all("SELECT document FROM refusals ORDER BY number DESC LIMIT ?", count)
        return [msgspec.json.decode(row[0]) for row in rows]

    def page(self, count: int, before: tuple[int, int] | None, principal: str | None = None) -> list[Json]:
        """List refusals of requests that never became runs, newest first, from behind a place; of all, or of one."""
        where = "AND (ts, number) < (?, ?)" if before else ""
        where += "" if principal is None else " AND json_extract(CAST(document AS TEXT), '$.principal') = ?"
        rows = self._database.all(
            f"SELECT document FROM refusals WHERE run_id IS NULL {where} ORDER BY ts DESC, number DESC LIMIT ?",  # noqa: S608 - our own words
            *(before or ()), *(() if principal is None else (principal,)), count,
        )  # fmt: skip
        return [msgspec.json.decode(row[0]) for row in rows]

    def place(self, refusal_id: str) -> tuple[int, int] | None:
        """Say where a refusal stands in time."""
        row = self._database.one("SELECT ts, number FROM refusals WHERE refusal_id = ?", refusal_id)
        return (row[0], row[1]) if row else None

    def beginning(self, text: str, count: int, principal: str | None = None) -> list[str]:
        """List the ids of such refusals that begin with `text`; of all, or of one requester."""
        whose = "" if principal is None else " AND json_extract(CAST(document AS TEXT), '$.principal') = ?"
        rows = self._database.all(
            f"SELECT refusal_id FROM refusals WHERE run_id IS NULL AND substr(refusal_id, 1, ?) = ?{whose}"  # noqa: S608 - our own words
            " ORDER BY refusal_id LIMIT ?",
            len(text), text, *(() if principal is None else (principal,)), count,
        )  # fmt: skip
        return [row[0] for row in rows]


def _document(row: Any) -> Json | None:
    document: Json | None = msgspec.json.decode(row[0]) if row else None
    return document
