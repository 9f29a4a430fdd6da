"""Runs and their events: one row for a run, one for each event, and the SQL for both.

Documents go in and come out as the same JSON values; whoever hands one in has hashed it, so that it can be spelled.
Every change is made inside the caller's transaction, and a change of a run names what it changes from, so that none is
lost. Decides nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from tipstaff.errors import NotFoundError
from tipstaff.model.times import timestamp
from tipstaff.store.database import Database

Json = dict[str, Any]
OPEN: Final = ("awaiting_approval", "created", "claimed", "provisioning", "running")
CLAIMED: Final = ("claimed", "provisioning", "running")
EVENTS_AT_ONCE: Final = 1000
_DOCUMENTS: Final = frozenset({"contract", "requirements", "ending", "cancel_actor", "receipt"})
_read = msgspec.json.decode
_write = msgspec.json.encode


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One row."""

    run_id: str
    state: str
    pool: str
    tier: str
    principal: str
    door: str
    request_hash: str
    policy_hash: str
    contract: Json
    contract_hash: str
    created_at: int
    updated_at: int
    expires_at: int
    event_count: int
    events_head: str
    plane_time: int
    requirements: list[Json] | None = None
    approval_until: int | None = None
    owner: str | None = None
    attempt: int = 0
    lease_serial: int = 0
    lease_until: int | None = None
    runner_id: str | None = None
    released: bool = False
    ending: Json | None = None
    cancel_actor: Json | None = None
    failure_message: str | None = None
    receipt: Json | None = None
    turn: int = 0  # at a plane that serves several: its place among the runs of all requesters

    @property
    def open(self) -> bool:
        """Say whether the run has not ended."""
        return self.state in OPEN

    @property
    def claimed(self) -> bool:
        """Say whether a runner has it."""
        return self.state in CLAIMED

    @property
    def told(self) -> tuple[int, str]:
        """Count what the runner has told, its unconfirmed ending too, and give the hash of the last of it."""
        return (self.event_count + 1, self.ending["hash"]) if self.ending else (self.event_count, self.events_head)


_NAMES: Final = Run.__struct_fields__
_COLUMNS: Final = ", ".join(_NAMES)
_INSERT: Final = f"INSERT INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608 - our own names
_OPEN: Final = "state NOT IN ('completed', 'failed', 'cancelled')"
_WAITING: Final = (
    "state = 'created' AND pool = ? AND owner IS ? AND min(expires_at, coalesce(approval_until, expires_at)) >= ?"
    " AND (turn, number) > (?, ?)"
)
_LEAST_DEMANDING: Final = "json_extract(CAST(contract AS TEXT), '$.minimumTier') = 'process'"
Place = tuple[int, int]  # in the queue: the turn, and the number of intake
FIRST: Final[Place] = (-1, 0)


class Line(msgspec.Struct, frozen=True):
    """Which of the waiting runs somebody may have."""

    pool: str
    owner: str | None = None
    tiers: Sequence[str] | None = None  # None: of any tier
    weakest: bool = False  # only those that demand no tier


class Runs:
    """The runs of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: Run) -> None:
        """Add a run."""
        self._database.run(_INSERT, *(_kept(name, getattr(run, name)) for name in _NAMES))

    def change(self, run: Run, **changes: Any) -> Run:
        """Change columns of a run that is as `run` says: whoever read it did so in this transaction."""
        columns = ", ".join(f"{name} = ?" for name in changes)
        values = [_kept(name, value) for name, value in changes.items()]
        statement = f"UPDATE runs SET {columns} WHERE run_id = ? AND event_count = ? AND lease_serial = ?"  # noqa: S608 - our own names
        if self._database.run(statement, *values, run.run_id, run.event_count, run.lease_serial) != 1:
            raise RuntimeError(f"run {run.run_id} was read outside the transaction that changes it")
        return msgspec.structs.replace(run, **changes)

    def get(self, run_id: str) -> Run:
        """Give a run."""
        found = self._select("run_id = ?", run_id)
        if not found:
            raise self._missing(run_id)
        return found[0]

    def ended(self, after: int, count: int) -> list[tuple[int, Run]]:
        """List runs that have ended, oldest first, behind number `after`, each with its number."""
        rows = self._database.all(
            f"SELECT {_COLUMNS}, number FROM runs WHERE NOT ({_OPEN}) AND number > ? ORDER BY number LIMIT ?",  # noqa: S608 - our own words
            after, count,
        )  # fmt: skip
        return [(int(row[-1]), _run(row[:-1])) for row in rows]

    def remove(self, run_id: str) -> bool:
        """Remove a run that has ended, with its events and its refusal; says whether there was one."""
        if self._database.one(f"SELECT 1 FROM runs WHERE run_id = ? AND NOT ({_OPEN})", run_id) is None:  # noqa: S608 - our own words
            return False
        for table in ("events", "refusals", "runs"):
            self._database.run(f"DELETE FROM {table} WHERE run_id = ?", run_id)  # noqa: S608 - our own names
        return True

    def artifacts(self, run_id: str) -> list[str]:
        """List the blobs that a run's events name."""
        events = (link["event"] for link in self.events(run_id))
        return [event["hash"] for event in events if event["type"] == "artifact.created"]

    def _missing(self, run_id: str) -> NotFoundError:
        """Say that there is no such run; of one that was removed, say that."""
        row = self._database.one("SELECT pruned_at FROM pruned WHERE id = ?", run_id)
        if row is None:
            return NotFoundError(f"there is no run {run_id[:64]!r}", hint="see: tipstaff history")
        return NotFoundError(
            f"run {run_id} was pruned at {timestamp(row[0])}", hint="the journal still has its digests"
        )

    def is_still(self, run: Run) -> bool:
        """Say whether nobody has changed a run since it was read; inside the transaction that relies on it."""
        row = self._database.one("SELECT event_count, lease_serial, state FROM runs WHERE run_id = ?", run.run_id)
        return bool(row == (run.event_count, run.lease_serial, run.state))

    def open(self) -> list[Run]:
        """List the runs that have not ended, oldest first."""
        return self._select(f"{_OPEN} ORDER BY number")

    def overdue(self, now: int) -> list[Run]:
        """List the runs that may be nobody's any more: of a process, or with a lease or a wait that is over."""
        return self._select(
            f"number IN (SELECT number FROM runs INDEXED BY runs_due WHERE {_OPEN}"  # noqa: S608 - our own words
            " AND (owner IS NOT NULL OR CASE WHEN state IN ('claimed', 'provisioning', 'running')"
            " THEN lease_until < ?1 ELSE min(expires_at, coalesce(approval_until, expires_at)) < ?1 END))"
            " ORDER BY number",
            now,
        )

    def asking(self, principal: str | None = None) -> list[Run]:
        """List the runs that wait for people, oldest first; of all requesters, or of one."""
        if principal is None:
            return self._select("state = 'awaiting_approval' ORDER BY number")
        return self._select("state = 'awaiting_approval' AND principal = ? ORDER BY number", principal)

    def let_go(self, runner_id: str) -> None:
        """End the leases of a runner: whoever closes what is lost closes its runs next."""
        self._database.run(
            "UPDATE runs SET lease_until = 0 WHERE runner_id = ? AND state IN ('claimed', 'provisioning', 'running')",
            runner_id,
        )

    def principal_of(self, run_id: str) -> str | None:
        """Say whose a run is; None where there is none."""
        row = self._database.one("SELECT principal FROM runs WHERE run_id = ?", run_id)
        return row[0] if row else None

    def held_by(self, runner_id: str) -> list[str]:
        """List the runs that a runner has."""
        rows = self._database.all(
            "SELECT run_id FROM runs WHERE runner_id = ? AND state IN ('claimed', 'provisioning', 'running')", runner_id
        )
        return [row[0] for row in rows]

    def waiting(self, line: Line, now: int, after: Place = FIRST) -> tuple[Place, Run] | None:
        """Give the run whose turn it is in a line, behind the place `after`."""
        fitting = f" AND tier IN ({', '.join('?' * len(line.tiers))})" if line.tiers is not None else ""
        fitting += f" AND {_LEAST_DEMANDING}" if line.weakest else ""
        row = self._database.one(
            f"SELECT {_COLUMNS}, number FROM runs WHERE {_WAITING}{fitting} ORDER BY turn, number LIMIT 1",  # noqa: S608 - our own words
            line.pool, line.owner, now, *after, *(line.tiers or ()),
        )  # fmt: skip
        if row is None:
            return None
        run = _run(row[:-1])
        return (run.turn, int(row[-1])), run

    def next_turn(self, pool: str, principal: str) -> int:
        """Give the turn of a new run: behind the requester's others, and not before the one that was claimed last."""
        row = self._database.one(
            "SELECT max(coalesce((SELECT turn FROM turns WHERE pool = ?1), 0),"
            " coalesce((SELECT max(turn) FROM runs WHERE state = 'created' AND pool = ?1 AND principal = ?2), 0)) + 1",
            pool, principal,
        )  # fmt: skip
        return int(row[0])

    def took_turn(self, pool: str, turn: int) -> None:
        """Note which turn was claimed; inside the transaction that does so."""
        self._database.run(
            "INSERT INTO turns VALUES (?1, ?2) ON CONFLICT (pool) DO UPDATE SET turn = max(turn, ?2)", pool, turn
        )

    def position(self, run: Run) -> int:
        """Say how many runs of its pool come before a waiting one."""
        number = "(SELECT number FROM runs WHERE run_id = ?)"
        row = self._database.one(
            f"SELECT count(*) FROM runs WHERE state = 'created' AND pool = ? AND (turn, number) < (?, {number})",  # noqa: S608 - our own words
            run.pool, run.turn, run.run_id,
        )  # fmt: skip
        return int(row[0])

    def since(self, earliest: int) -> Iterator[str]:
        """Give the ids of the runs in which something happened since a time, oldest first."""
        after = 0
        while rows := self._database.all(
            "SELECT run_id, number FROM runs WHERE updated_at >= ? AND number > ? ORDER BY number LIMIT ?",
            earliest, after, EVENTS_AT_ONCE,
        ):  # fmt: skip
            yield from (row[0] for row in rows)
            after = rows[-1][1]

    def counts(self) -> dict[str, int]:
        """Count the runs by state."""
        return dict(self._database.all("SELECT state, count(*) FROM runs GROUP BY state"))

    def queued(self) -> dict[str, int]:
        """Count the runs that wait for a runner, by pool."""
        return dict(self._database.all("SELECT pool, count(*) FROM runs WHERE state = 'created' GROUP BY pool"))

    def latest(self, count: int, before: str | None = None) -> list[Run]:
        """List the newest runs, from behind the run `before`."""
        if before is None:
            return self._select("1 ORDER BY number DESC LIMIT ?", count)
        number = "(SELECT number FROM runs WHERE run_id = ?)"
        return self._select(f"number < {number} ORDER BY number DESC LIMIT ?", before, count)

    def page(self, count: int, before: tuple[int, int] | None, principal: str | None = None) -> list[Run]:
        """List runs by time, newest first, from behind a place in time; of all requesters, or of one."""
        where = "(created_at, number) < (?, ?)" if before else "1"
        where += " AND principal = ?" if principal is not None else ""
        values = (*(before or ()), *(() if principal is None else (principal,)), count)
        return self._select(f"{where} ORDER BY created_at DESC, number DESC LIMIT ?", *values)

    def place(self, run_id: str) -> tuple[int, int] | None:
        """Say where a run stands in time: when it was taken in, and as which."""
        row = self._database.one("SELECT created_at, number FROM runs WHERE run_id = ?", run_id)
        return (row[0], row[1]) if row else None

    def beginning(self, text: str, count: int, principal: str | None = None) -> list[str]:
        """List the ids that begin with `text`; of all requesters, or of one."""
        whose = "" if principal is None else " AND principal = ?"
        rows = self._database.all(
            f"SELECT run_id FROM runs WHERE run_id >= ? AND substr(run_id, 1, ?) = ?{whose} ORDER BY run_id LIMIT ?",  # noqa: S608 - our own words
            text, len(text), text, *(() if principal is None else (principal,)), count,
        )  # fmt: skip
        return [row[0] for row in rows]

    def add_events(self, run_id: str, links: Sequence[Json]) -> None:
        """Keep events of the chain, and which blobs they name; a number that is taken is an error."""
        rows = [(run_id, link["seq"], _write(link)) for link in links]
        self._database.run_each("INSERT INTO events VALUES (?, ?, ?)", rows)
        named = [link["event"]["hash"] for link in links if link["event"]["type"] == "artifact.created"]
        if named:
            self._database.run_each("INSERT OR IGNORE INTO uses VALUES (?, ?)", ((one, run_id) for one in named))

    def events(self, run_id: str, since: int = 0) -> Iterator[Json]:
        """Give the chain, from the event number `since` on; a long one is read in parts."""
        while True:
            rows = self._database.all(
                "SELECT link FROM events WHERE run_id = ? AND seq >= ? ORDER BY seq LIMIT ?",
                run_id, since, EVENTS_AT_ONCE,
            )  # fmt: skip
            yield from (_read(row[0]) for row in rows)
            if len(rows) < EVENTS_AT_ONCE:
                return
            since += len(rows)

    def _select(self, where: str, *values: Any) -> list[Run]:
        rows = self._database.all(f"SELECT {_COLUMNS} FROM runs WHERE {where}", *values)  # noqa: S608 - our own words
        return [_run(row) for row in rows]


def _run(row: Sequence[Any]) -> Run:
    values = dict(zip(_NAMES, row, strict=True))
    for name in _DOCUMENTS:
        if values[name] is not None:
            values[name] = _read(values[name])
    values["released"] = bool(values["released"])
    return Run(**values)


def _kept(name: str, value: Any) -> Any:
    return _write(value) if name in _DOCUMENTS and value is not None else value
