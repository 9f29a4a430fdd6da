"""What passes by: output of runs at work, for whoever watches, and results that came too late.

Live output is bounded and goes when its run has ended: the kept log is a blob by then. A late result is one document of
a run and attempt; the first one stays.
"""

from typing import Any, Final

import msgspec

from tipstaff.store.database import Database

Json = dict[str, Any]
MOST_LIVE_BYTES: Final = 1024 * 1024  # of one stream; the oldest goes first
AT_ONCE: Final = 16  # pieces that are given to a watcher in one answer
FIRST_LIVE_BYTES: Final = 256 * 1024  # but these stay: whoever comes late begins at the beginning


class Live:
    """The output of runs at work."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run_id: str, stream: str, start: int, data: bytes) -> None:
        """Keep some output that begins at byte `start` of its stream; what is not behind the rest is passed over."""
        row = self._database.one(
            "SELECT start + length(data) FROM live WHERE run_id = ? AND stream = ? ORDER BY start DESC LIMIT 1",
            run_id, stream,
        )  # fmt: skip
        if row is not None and start < row[0]:
            return
        self._database.run("INSERT INTO live VALUES (?, ?, ?, ?)", run_id, stream, start, data)
        oldest = start + len(data) - MOST_LIVE_BYTES
        if oldest > 0:
            gone = "DELETE FROM live WHERE run_id = ? AND stream = ? AND start >= ? AND start < ?"
            self._database.run(gone, run_id, stream, FIRST_LIVE_BYTES, oldest)

    def since(self, run_id: str, stream: str, start: int) -> list[tuple[int, bytes]]:
        """List what is there from byte `start` on, not too much at once; there may be gaps."""
        rows = self._database.all(
            "SELECT start, data FROM live WHERE run_id = ? AND stream = ? AND start + length(data) > ?"
            " ORDER BY start LIMIT ?",
            run_id, stream, start, AT_ONCE,
        )  # fmt: skip
        return [(max(at, start), bytes(data)[max(0, start - at) :]) for at, data in rows]

    def forget(self, run_id: str) -> None:
        """Forget the output of a run that has ended."""
        self._database.run("DELETE FROM live WHERE run_id = ?", run_id)


class Attachments:
    """Results that came too late."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run_id: str, attempt: int, runner_id: str, now: int, document: Json) -> None:
        """Keep a document, unless one of that attempt is there."""
        self._database.run(
            "INSERT OR IGNORE INTO attachments VALUES (?, ?, ?, ?, ?)",
            run_id, attempt, runner_id, now, msgspec.json.encode(document),
        )  # fmt: skip

    def of_run(self, run_id: str) -> list[tuple[int, str, int, Json]]:
        """List attempt, runner, time and document of what came too late for a run."""
        rows = self._database.all(
            "SELECT attempt, runner_id, received_at, document FROM attachments WHERE run_id = ? ORDER BY attempt",
            run_id,
        )
        return [(row[0], row[1], row[2], msgspec.json.decode(row[3])) for row in rows]
