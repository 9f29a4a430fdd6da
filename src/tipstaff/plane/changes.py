"""What is kept of a run's change: the signed list, the diff, and the contents; for whoever looks or brings it back.

Everything is read from the receipt, the events and the blobs that they name; nothing is compared with a folder here.
"""

from typing import Any, NamedTuple

from tipstaff.errors import NotFoundError
from tipstaff.model.changes import Change, from_events
from tipstaff.plane.authority import Authority
from tipstaff.plane.completion import bundle_of

Json = dict[str, Any]


class Kept(NamedTuple):
    """The change of one run; `diff` and `contents` are None where they are not kept (any more)."""

    bundle: Json
    changes: list[Change]
    diff: bytes | None
    contents: bytes | None

    @property
    def contract(self) -> Json:
        """Give the permission that the run had."""
        contract: Json = self.bundle["contract"]
        return contract

    @property
    def summary(self) -> Json:
        """Give what the receipt says about the change as a whole."""
        summary: Json = self.bundle["receipt"].get("changes") or {}
        return summary


def kept(authority: Authority, run_id: str) -> Kept:
    """Read the change of a run that has its receipt."""
    run = authority.store.runs.get(run_id)
    if run.receipt is None:
        why = "it was refused before anything ran" if not run.open else f"it is {run.state}"
        raise NotFoundError(f"run {run_id} has changed nothing: {why}", hint=f"see: tipstaff why {run_id}")
    links = list(authority.store.runs.events(run_id))
    events = [link["event"] for link in links]
    created = [event for event in events if event["type"] == "artifact.created"]
    contents = [event["hash"] for event in created if event.get("kind") == "bundle"]
    return Kept(
        bundle_of(authority, run, run.receipt, links),
        from_events(events),
        _blob(authority, run.receipt.get("workspaceOut", {}).get("diffHash")),
        _blob(authority, contents[-1] if contents else ""),
    )


def _blob(authority: Authority, digest: str | None) -> bytes | None:
    if not digest:
        return b""
    return authority.store.blobs.get(digest) if authority.store.blobs.has(digest) else None
