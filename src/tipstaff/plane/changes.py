"""What is kept of a run's change: the signed list, the diff, and the contents; for whoever looks or brings it back.

Everything is read from the receipt, the events and the blobs that they name; nothing is compared with a folder here.
"""

from typing import Any, NamedTuple

from tipstaff.errors import InputError, NotFoundError
from tipstaff.model import names
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
        summary = self.bundle["receipt"].get("changes") or {}
        if type(summary) is not dict:
            raise InputError("the receipt does not say in short what was changed: `changes` is no object")
        return summary

    def named(self, key: str) -> list[bytes]:
        """Give the names that the receipt lists under `key`: `edited`, `large` or `setuid`."""
        listed = self.summary.get(key, [])
        if type(listed) is not list or not all(type(one) is dict for one in listed):
            raise InputError(f"the receipt does not list names under `{key}` of `changes`")
        return [names.read(one) for one in listed]

    @property
    def problem(self) -> str:
        """Say why it is not known, or not kept, what the run changed; empty when it is."""
        receipt = self.bundle["receipt"]
        if receipt.get("ending") == "lost":
            return "its runner was lost, so that it is not known what it changed"
        if self.contract.get("files", {}).get("inPlace"):
            return "it worked in place: what it changed is there already, and is not kept"
        if self.summary.get("problem"):
            return f"{self.summary['problem']}; its content is not kept"
        if self.contract.get("disclosure") == "none":
            return "under the disclosure `none`, what a run changed is not told"
        return ""


def kept(authority: Authority, run_id: str) -> Kept:
    """Read the change of a run that has its receipt."""
    run = authority.store.runs.get(run_id)
    if run.receipt is None:
        why = f"has not ended: it is {run.state}" if run.open else "was refused before anything ran"
        raise NotFoundError(f"run {run_id} {why}; it has left no change", hint=f"see: tipstaff why {run_id}")
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
