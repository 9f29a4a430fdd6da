"""Closes what nobody will close any more: at the start of a process, and now and then in a long-lived plane.

A run of a living process is never touched: its owner's lock says so, whatever the clock says. Without an owner the
lease decides. A run that a runner held goes back to the queue once, if its command was surely not released; else it
gets a receipt that says `lost`. One that no runner held gets a refusal.
"""

from collections.abc import Callable
from typing import Any, Final

from tipstaff.errors import PlaneError, StoreError
from tipstaff.plane.approvals import time_out
from tipstaff.plane.authority import Authority
from tipstaff.plane.completion import Completion
from tipstaff.plane.leases import acted
from tipstaff.plane.refusals import failed, refuse_run
from tipstaff.store import Run

Json = dict[str, Any]
Close = Callable[[Run], str]
RETRIES: Final = 1  # where a contract does not say


class Lost:
    """Looks for runs that nobody holds."""

    def __init__(self, authority: Authority, completion: Completion) -> None:
        self._authority = authority
        self._store = authority.store
        self._completion = completion

    def close(self) -> list[Json]:
        """Close, or requeue, every run that is nobody's; says which, and how."""
        return [
            {"runId": seen.run_id, "how": how}
            for seen in self._store.runs.overdue(self._authority.time())
            if self._way(seen) is not None and (how := self._close(seen.run_id))
        ]

    def _close(self, run_id: str) -> str:
        """Close one run; empty when another process was faster."""
        try:
            self._completion.prepare(self._store.runs.get(run_id))
            with self._store.database.transaction(durable=True):
                run = self._store.runs.get(run_id)
                way = self._way(run) if run.open else None
                return way(run) if way else ""
        except (PlaneError, StoreError) as error:
            # One whose issuing key is not here must not keep the others open; and on a full disk the home must still
            # open, for whoever wants to make room. What stays is closed at another start.
            return f"kept: {error.message}"

    def _way(self, run: Run) -> Close | None:
        """Say how a run has to be closed, or None while it is somebody's."""
        now = self._authority.time(run)
        mine = run.owner is not None and run.owner == self._authority.owner_name
        if run.owner is not None and not mine:
            return None if self._store.owners.alive(run.owner) else self._orphan
        if not run.claimed and run.approval_until is not None and now > run.approval_until:
            return self._time_out
        if mine:
            return None
        if run.claimed:
            return self._lease if now > (run.lease_until or 0) else None
        return self._expire if now > run.expires_at else None

    def _time_out(self, run: Run) -> str:
        time_out(self._authority, run)
        return "consent_timeout"

    def _orphan(self, run: Run) -> str:
        if run.claimed:
            self._completion.close_lost(run, "the process that ran it is gone")
            return "lost"
        message = "the process that asked for it was gone before a runner claimed it"
        refuse_run(self._authority, run, failed("owner.lost", "runner_lost", message))
        return "refused"

    def _lease(self, run: Run) -> str:
        if self._can_go_back(run):
            self._authority.extend(
                run,
                [{"type": "run.requeued"}],
                state="created",
                lease_serial=run.lease_serial + 1,
                lease_until=None,
                runner_id=None,
            )
            return "requeued"
        self._completion.close_lost(run, "the lease was not renewed")
        return "lost"

    def _can_go_back(self, run: Run) -> bool:
        ends = min(run.expires_at, run.approval_until or run.expires_at)
        is_over = run.attempt > run.contract.get("retries", RETRIES) or self._authority.time(run) > ends
        if run.released or run.ending or run.cancel_actor or is_over:
            return False
        events = list(self._store.runs.events(run.run_id))
        claimed = max(link["seq"] for link in events if link["event"]["type"] == "run.claimed")
        told = [link for link in events[claimed + 1 :] if link["event"]["type"] != "secret.released"]
        return not any(acted(link) for link in told)

    def _expire(self, run: Run) -> str:
        message = "the contract expired before a runner claimed it"
        refuse_run(self._authority, run, failed("contract.expired", "policy_denied", message))
        return "expired"
