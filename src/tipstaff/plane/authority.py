"""What every office of the plane works with: the store, the keys, the policy, the clock and the randomness.

The plane's times never go back within one run, whatever the clock of this process, or of the one before it, does.
A contract's receipt is countersigned by the key that issued it, also after another has taken over.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.evidence.chain import chained
from tipstaff.evidence.trust import Trust
from tipstaff.keys import KnownKeys, Signer
from tipstaff.model.times import Clock, timestamp
from tipstaff.policy import Policy
from tipstaff.store import Owner, Run, Store
from tipstaff.store.journal import Kind

Json = dict[str, Any]
ID_BYTES = 16
UUID_PARTS = (0, 8, 12, 16, 20, 32)
MOST_HOME_BYTES = 10 * 1024**3


LEASE_MS = 60_000


def no_secret(_name: str) -> str | None:
    """Know no secret."""
    return None


def nobody_waits(_topic: str) -> None:
    """Wake nobody."""


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """The plane's means."""

    store: Store
    key: Signer
    policy: Policy
    clock: Clock
    random: Callable[[int], bytes]
    older: tuple[Signer, ...] = ()  # keys that issued contracts before `key` did
    known: KnownKeys = msgspec.field(default_factory=KnownKeys)
    owner: Owner | None = None  # this process, where runs die with it
    read_secret: Callable[[str], str | None] = no_secret
    most_home_bytes: int = MOST_HOME_BYTES  # what the store may hold before it takes no more runs
    shared: bool = False  # it serves several requesters and runners, and knows them by their tokens
    lease_ms: int = LEASE_MS  # how long a runner may be silent
    wake: Callable[[str], None] = nobody_waits  # hears `queue:POOL` and `run:ID` when something has changed there

    @property
    def owner_name(self) -> str | None:
        """Name the process that this plane's runs belong to, if they do."""
        return self.owner.name if self.owner else None

    def new_id(self, prefix: str) -> str:
        """Make an id."""
        # As `uuid` spells one of version 4, whose import would cost every start two milliseconds.
        number = int.from_bytes(self.random(ID_BYTES)) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
        digits = f"{number:032x}"
        return f"{prefix}_{'-'.join(digits[start:end] for start, end in itertools.pairwise(UUID_PARTS))}"

    def time(self, run: Run | None = None) -> int:
        """Give the time: never before the plane's last word on `run`."""
        now = self.clock()
        return max(now, run.plane_time) if run else now

    def signer(self, contract: Json) -> Signer:
        """Find the key that issued a contract."""
        wanted = contract["issuer"]["keyId"]
        for key in (self.key, *self.older):
            if key.public.key_id == wanted:
                return key
        raise PlaneError(f"the key {wanted} that issued this contract is not here", status=409, code="issuer_unknown")

    def record(self, kind: Kind, of: str, now: int) -> None:
        """Write into the journal; inside the transaction that keeps the document."""
        trust = Trust(key.public for key in (self.key, *self.older))
        self.store.journal.record(kind, of, timestamp(now), self.key, trust)

    def extend(self, run: Run, events: Iterable[Json], **changes: Any) -> Run:
        """Write the plane's own events into a run's chain; inside a transaction that read `run`."""
        now = self.time(run)
        links = list(linked(run, events, timestamp(now)))
        self.store.runs.add_events(run.run_id, links)
        head = links[-1]["hash"] if links else run.events_head
        return self.store.runs.change(
            run, event_count=run.event_count + len(links), events_head=head, plane_time=now, updated_at=now, **changes
        )


def linked(run: Run, events: Iterable[Json], ts: str) -> Iterable[Json]:
    """Chain events behind the last one of `run`."""
    seq, prev = run.event_count, run.events_head
    for event in events:
        link = chained(seq, ts, prev, event)
        yield link
        seq, prev = seq + 1, link["hash"]
