"""Questions that runs at work ask people, and their answers: one row for each place of each run, and the SQL for it.

A question is answered once: whoever answers it changes a row that still waits, or is told that it does not. Every
change is made inside the caller's transaction. Decides nothing.
"""

from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.store.database import Database

Json = dict[str, Any]
_COLUMNS: Final = "run_id, host, port, rule, asked_at, state, approval, reason, answered_at"
_PLACE: Final = "run_id = ? AND host = ? AND port = ? AND rule = ?"


class Asked(NamedTuple):
    """What is asked: whether this run may reach this place, by this rule of its policy."""

    run_id: str
    host: str
    port: int
    rule: str


class Question(NamedTuple):
    """One row."""

    asked: Asked
    asked_at: int
    state: str = "waiting"
    approval: Json | None = None
    reason: str | None = None
    answered_at: int | None = None


class Questions:
    """The questions of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, asked: Asked, now: int) -> None:
        """Keep a question; the same one twice is an error."""
        statement = "INSERT INTO questions (run_id, host, port, rule, asked_at) VALUES (?, ?, ?, ?, ?)"
        self._database.run(statement, *asked, now)

    def get(self, asked: Asked) -> Question | None:
        """Give a question, if it was asked."""
        found = self._select(_PLACE, *asked)
        return found[0] if found else None

    def of_run(self, run_id: str) -> list[Question]:
        """List the questions of a run, oldest first."""
        return self._select("run_id = ? ORDER BY asked_at, host, port, rule", run_id)

    def waiting(self) -> list[Question]:
        """List the questions that nobody has answered, oldest first; also those of runs that have ended."""
        return self._select("state = 'waiting' ORDER BY asked_at, run_id, host, port, rule")

    def answer(self, asked: Asked, now: int, *, approval: Json | None = None, reason: str | None = None) -> bool:
        """Write an answer down, yes with its approval, else no; says whether the question still waited."""
        statement = (
            f"UPDATE questions SET state = ?, approval = ?, reason = ?, answered_at = ?"  # noqa: S608 - our own words
            f" WHERE {_PLACE} AND state = 'waiting'"
        )
        kept = msgspec.json.encode(approval) if approval is not None else None
        return self._database.run(statement, "no" if kept is None else "yes", kept, reason, now, *asked) == 1

    def _select(self, where: str, *values: Any) -> list[Question]:
        rows = self._database.all(f"SELECT {_COLUMNS} FROM questions WHERE {where}", *values)  # noqa: S608 - our own words
        return [_question(row) for row in rows]


def _question(row: Any) -> Question:
    run_id, host, port, rule, asked_at, state, approval, reason, answered_at = row
    read = msgspec.json.decode(approval) if approval is not None else None
    return Question(Asked(run_id, host, port, rule), asked_at, state, read, reason, answered_at)
