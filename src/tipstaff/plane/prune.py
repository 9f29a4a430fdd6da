"""Pruning: the content of what ended long ago is removed, oldest first, by age or down to a size.

Contract, events, receipt or refusal go, and the blobs that nothing else names. The journal stays whole: it still has
every digest, and a line for each removal says that it was meant. What has not ended is never touched. Without an age
or a size, what each contract says of its retention holds: first its artifacts go, much later the rest.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final, NamedTuple

from tipstaff.evidence.seal import payload_digest
from tipstaff.model.times import milliseconds
from tipstaff.plane.authority import Authority
from tipstaff.plane.contract import blobs_of_manifest
from tipstaff.store import Run, Tombstone

Json = dict[str, Any]
DAY_MS: Final = 86_400_000
AT_ONCE: Final = 100


class Wish(NamedTuple):
    """What is to go: what is older than an age, and as much as brings the store down to a size."""

    older_than_ms: int | None = None
    down_to_bytes: int | None = None
    dry: bool = False  # only say what would go


class Ended(NamedTuple):
    """A run, or a refused request, with what it names; in the order of its making."""

    made_at: int
    ended_at: int
    name: str
    contract_hash: str | None
    proof: Json
    documents: tuple[str, ...]  # blobs that the decision was made from
    artifacts: tuple[str, ...]  # blobs that the command left
    retention: Json


def prune(authority: Authority, wish: Wish) -> Json:
    """Remove what `wish` says; tells what went."""
    store = authority.store
    if not wish.dry:
        store.shrink()  # a log of what was written lately would count as content
    before = store.size_bytes()
    pruning = _Pruning(authority, dry=wish.dry)
    pruning.by_age(wish)
    if wish.down_to_bytes is not None:
        pruning.by_size(wish.down_to_bytes)
    if not wish.dry:
        pruning.finish()
    after = before - pruning.weight if wish.dry else store.size_bytes()
    return {"dryRun": wish.dry, **pruning.counts, "bytesBefore": before, "bytesAfter": max(0, after)}


class _Pruning:
    """One round."""

    def __init__(self, authority: Authority, *, dry: bool) -> None:
        self._authority = authority
        self._store = authority.store
        self._dry = dry
        self._now = authority.time()
        self._gone: set[str] = set()
        self.weight = 0  # about what would be free, where nothing is removed
        self.counts = {"runs": 0, "refusals": 0, "artifactsOf": 0, "earlierThanRetention": 0}

    def by_age(self, wish: Wish) -> None:
        """Remove what is older than is wished, or than its own contract says where nothing is wished."""
        if wish.older_than_ms is None and wish.down_to_bytes is not None:
            return
        for one in self._each():
            age = self._now - one.ended_at
            if age > (_kept_ms(one, "receiptsDays") if wish.older_than_ms is None else wish.older_than_ms):
                self._remove(one)
            elif wish.older_than_ms is None and age > _kept_ms(one, "artifactsDays"):
                self._remove_artifacts(one)

    def by_size(self, most_bytes: int) -> None:
        """Remove the oldest until the store is small enough, or nothing is left that has ended."""
        for one in self._each():
            held = self._store.size_bytes() - self._store.database.log_bytes() - self.weight
            if held <= most_bytes:
                return
            self._remove(one)

    def finish(self) -> None:
        """Remove what nothing names any more, make it all durable, and give the disk its room back."""
        self._store.blobs.remove_unused()
        with self._store.database.transaction(durable=True):
            pass
        self._store.shrink()

    def _each(self) -> Iterator[Ended]:
        """Give what has ended, oldest first, and is still there."""
        found = merge(self._runs(), self._refusals(), key=lambda one: one.made_at)
        return (one for one in found if one.name not in self._gone)

    def _runs(self) -> Iterator[Ended]:
        after = 0
        while page := self._store.runs.ended(after, AT_ONCE):
            yield from (self._ended_run(run) for _, run in page)
            after = page[-1][0]

    def _refusals(self) -> Iterator[Ended]:
        after = 0
        while page := self._store.refusals.requests(after, AT_ONCE):
            yield from (self._ended_request(refusal) for _, refusal in page)
            after = page[-1][0]

    def _ended_run(self, run: Run) -> Ended:
        return Ended(
            made_at=run.created_at,
            ended_at=run.updated_at,
            name=run.run_id,
            contract_hash=run.contract_hash,
            proof=run.receipt or self._store.refusals.of_run(run.run_id) or {},
            documents=(run.request_hash, run.policy_hash, *blobs_of_manifest(run.contract["workspace"])),
            artifacts=tuple(self._store.runs.artifacts(run.run_id)),
            retention=run.contract.get("retention", {}),
        )

    def _ended_request(self, refusal: Json) -> Ended:
        made = milliseconds(refusal["ts"])
        days = self._authority.policy.tables.retention.receipts_days
        documents = (refusal["requestHash"], refusal["policyHash"])
        return Ended(made, made, refusal["id"], None, refusal, documents, (), {"receiptsDays": days})

    def _remove(self, one: Ended) -> None:
        self.counts["refusals" if one.contract_hash is None else "runs"] += 1
        self.counts["earlierThanRetention"] += self._now - one.ended_at <= _kept_ms(one, "receiptsDays")
        self._gone.add(one.name)
        named = [*one.documents, *one.artifacts]
        if self._dry:
            self.weight += self._store.weight(one.name) + self._store.blobs.used_alone(one.name, named)
            return
        with self._store.database.transaction():
            self._store.blobs.release(one.name, named)
            removed = self._store.runs.remove(one.name) or self._store.refusals.remove(one.name)
            if removed:  # else another process was faster
                digest = payload_digest(one.proof)
                self._store.pruned.add(Tombstone(one.name, one.contract_hash, digest, one.made_at, self._now))
        self._store.blobs.remove_unused(named)

    def _remove_artifacts(self, one: Ended) -> None:
        if self._dry:
            self.counts["artifactsOf"] += bool(one.artifacts)
            self.weight += self._store.blobs.used_alone(one.name, one.artifacts)
            return
        with self._store.database.transaction():
            released = self._store.blobs.release(one.name, one.artifacts)
        self.counts["artifactsOf"] += released > 0
        self._store.blobs.remove_unused(one.artifacts)


def _kept_ms(one: Ended, what: str) -> int:
    """Say how long something is to be kept: as its contract says, and forever where it says nothing."""
    days: int = one.retention.get(what, 10**9)
    return days * DAY_MS
