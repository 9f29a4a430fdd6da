"""The hash chain of events: how one is appended, and how a whole one is folded into what it says.

hash = H({seq, ts, prev, event}), seq counts from 0, the first prev is the contract's hash. Folding takes one event at
a time and keeps only what the checks need, so that it is linear, and flat in memory but for what really differs.
What was folded can be taken back to a mark, at the cost of what came after it: all that is kept only ever grows.
Breaks in the chain are check 8, foreign fields in a wrapper 15, odd times 22, wrong places 23.
"""

import re
from typing import Any, Final, NamedTuple

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, InputError
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.model import events as e
from tipstaff.model.noun import TIME, VERSION_EVENT

WRAPPER: Final = frozenset({"version", "seq", "ts", "prev", "event", "hash"})
SHOWN_CHARACTERS: Final = 64
LAST_PORT: Final = 65535
_GROWING: Final = (list, dict, bytearray)
NO_HASH: Final = bytes(32)  # of an event that has none; nothing hashes to it
_is_time = re.compile(TIME).match


class Way(NamedTuple):
    """How a host was reached, as far as an event says: 0 and empty where it does not."""

    host: str
    port: int
    rule: str
    depth: str  # how deep the gate could look
    method: str
    summed: bool  # it stands for several, and may name the rule's pattern as its host
    approval: str  # the digest of the approval that it carries


class Mark(NamedTuple):
    """How far a chain was folded: the lengths of what only grows, and the rest as it was."""

    event_count: int
    events_head: str
    grown: dict[str, int]
    rest: dict[str, Any]


def chained(seq: int, ts: str, prev: str, event: dict[str, Any]) -> dict[str, Any]:
    """Put `event` into the chain behind the event whose hash is `prev`."""
    link = {"seq": seq, "ts": ts, "prev": prev, "event": event}
    return {"version": VERSION_EVENT, **link, "hash": digest(link)}


class Chain:
    """What a chain of events says, folded from one event after the other."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.count = 0
        self._hashes = bytearray()  # of every event, so that what was seen of a chain earlier can be compared
        self.genesis: str | None = None
        self.head = ""
        self.first_time = ""
        self.last: e.Event | None = None
        self.claimed: e.RunClaimed | None = None
        self.claimed_at = ""
        self.asked = False
        self.consents: list[tuple[int, str, e.ConsentGranted]] = []
        self.manifests: dict[str, None] = {}  # in order, as all that differs: the newest can be taken back
        self.commands: list[tuple[str, int]] = []
        self.secrets: list[tuple[str, str, str]] = []
        self.network: dict[tuple[str, str], None] = {}
        self.reached: dict[Way, tuple[int, str, Any]] = {}  # how, and the first time that way: number, time, approval
        self.refused_with_bytes: dict[str, int] = {}  # hosts to which bytes went out all the same: the first event
        self.models: dict[tuple[str, str], None] = {}
        self.disclosures: list[tuple[str, str, str]] = []
        self.artifacts: list[tuple[str, str]] = []
        self.last_runner_time = ""
        self._last_plane_time = ""
        self._runner_began = False
        self._runner_acted = False
        self._ended = False

    def add(self, link: Any) -> None:
        """Fold one more event, as it arrived."""
        seq = self.count
        self.count += 1
        if type(link) is not dict or not link.keys() >= WRAPPER:
            self._problem(8, seq, "this is not an event with all its fields")
            self.head, self.last = "", None
            self._hashes += NO_HASH
            return
        if len(link) != len(WRAPPER):
            self._problem(15, seq, f"the field {_odd_field(link)} is covered by no hash")
        if link["version"] != VERSION_EVENT:
            self._problem(1, seq, f"the version {_short(link['version'])} is unknown")
        self._follow(seq, link)
        self._understand(seq, link["ts"], link["event"])

    def _follow(self, seq: int, link: dict[str, Any]) -> None:
        """Check 8: number, predecessor and hash."""
        if link["seq"] != seq or type(link["seq"]) is not int:
            self._problem(8, seq, f"its number is {_short(link['seq'])}")
        if seq == 0:
            self.genesis = link["prev"]
        elif link["prev"] != self.head:
            self._problem(8, seq, "its prev is not the hash of the event before it")
        try:
            expected = digest({"seq": link["seq"], "ts": link["ts"], "prev": link["prev"], "event": link["event"]})
        except CanonicalError as error:
            self._problem(8, seq, error.message)
            expected = ""
        if link["hash"] != expected:
            self._problem(8, seq, "its hash does not fit its content")
        self._hashes += bytes.fromhex(expected) or NO_HASH
        self.head = link["hash"] if type(link["hash"]) is str else ""

    def hash_after(self, count: int) -> str:
        """Give the hash of the last of the first `count` events; empty where there were not so many."""
        if not 0 < count <= self.count:
            return ""
        return self._hashes[(count - 1) * len(NO_HASH) : count * len(NO_HASH)].hex()

    def mark(self) -> Mark:
        """Note how far the chain is folded; only one without a problem can be taken back to it."""
        grown = {name: len(value) for name, value in vars(self).items() if isinstance(value, _GROWING)}
        rest = {name: value for name, value in vars(self).items() if name not in grown and name != "findings"}
        return Mark(self.count, self.head, grown, rest)

    def rewind(self, mark: Mark) -> None:
        """Forget what was folded since a mark of this chain, and what was found in it."""
        for name, length in mark.grown.items():
            value = getattr(self, name)
            if isinstance(value, dict):
                while len(value) > length:
                    value.popitem()
            else:
                del value[length:]
        vars(self).update(mark.rest)
        self.findings = Findings()

    def _understand(self, seq: int, ts: Any, payload: Any) -> None:
        event = self.last = self._parse(seq, payload)
        if type(ts) is not str or _is_time(ts) is None:
            self._problem(22, seq, f"{_short(ts)} is not a time in UTC with milliseconds")
            return
        if seq == 0:
            self.first_time = ts
        if (seq == 0) is not (type(event) is e.RunCreated):
            self._problem(23, seq, "the first event, and only the first, is run.created")
        if event is None:
            return
        self._place(seq, ts, event)
        collect = _COLLECT.get(type(event))
        if collect is not None:
            collect(self, seq, ts, event)
        elif type(event) is e.NetworkConnected:
            self._reach(seq, ts, event, payload)

    def _parse(self, seq: int, payload: Any) -> e.Event | None:
        if type(payload) is not dict:
            self._problem(0, seq, "the event is not an object")
            return None
        name = payload.get("type")
        if type(name) is not str:
            self._problem(0, seq, "the event has no type")
            return None
        kind = e.KINDS.get(name)
        if kind is None:
            # A newer writer may know more types. What this version cannot judge it must not call valid.
            self._problem(23, seq, f"the event type {_short(name)} is not known to this version", certain=False)
            return None
        try:
            return typed(payload, kind)
        except InputError as error:
            self._problem(0, seq, f"the event {name} is malformed: {error.message}")
            return None

    def _place(self, seq: int, ts: str, event: e.Event) -> None:
        """Checks 22 and 23: who may write here, and does this author's clock go forward."""
        author = e.AUTHORS[type(event)]
        kind = type(event)
        if self._ended:
            self._problem(23, seq, "it stands after the end of the run")
        self._ended = self._ended or kind in e.ENDINGS
        if author == "runner":
            self._place_runner(seq, ts, kind)
        elif author == "plane":
            self._place_plane(seq, ts, kind)
        elif ts < min(self.last_runner_time, self._last_plane_time):
            self._problem(22, seq, "it is dated before the last event of the runner, and of the plane")

    def _place_runner(self, seq: int, ts: str, kind: type) -> None:
        if self.claimed is None:
            self._problem(23, seq, "a runner's event stands where no runner has claimed the run")
        if ts < self.last_runner_time:
            self._problem(22, seq, "it is dated before the runner's event before it")
        self.last_runner_time = ts
        self._runner_began = True
        self._runner_acted = self._runner_acted or kind is not e.WorkspaceMaterialized

    def _place_plane(self, seq: int, ts: str, kind: type) -> None:
        if ts < self._last_plane_time:
            self._problem(22, seq, "it is dated before the plane's event before it")
        self._last_plane_time = ts
        if kind is e.SecretReleased and (self.claimed is None or self._runner_began):
            self._problem(23, seq, "a secret is released when a runner claims the run, not before or later")
        elif kind in _BEFORE_CLAIM and self.claimed is not None:
            self._problem(23, seq, "the plane does not write this once a runner is at work")

    def claim(self, seq: int, ts: str, event: e.RunClaimed) -> None:
        """A runner begins, with a clock of its own; what policy asked for must have been granted before."""
        if self.asked:
            self._problem(24, seq, "policy asked for approval, and nobody had granted it when the run was claimed")
        self.claimed, self.claimed_at = event, ts
        self.last_runner_time = ""
        self._runner_began = self._runner_acted = False

    def consent(self, seq: int, ts: str, event: e.ConsentGranted) -> None:
        """Somebody approved what was asked so far."""
        self.asked = False
        self.consents.append((seq, ts, event))

    def requeue(self, seq: int, _ts: str, _event: e.RunRequeued) -> None:
        """The lease was lost: only a run whose command was not released may go back."""
        if self.claimed is None or self._runner_acted:
            self._problem(23, seq, "only a claimed run whose command had not begun can be requeued")
        self.claimed = None

    def _reach(self, seq: int, ts: str, event: e.NetworkConnected, payload: dict[str, Any]) -> None:
        """The sandbox asked for a host; each way by which one was reached is kept once."""
        self.network[event.host, event.decision] = None
        if event.decision == "allowed":
            approval = event.approval if type(event.approval) is dict else None
            self.reached.setdefault(_way(event.host, payload, _digest(approval)), (seq, ts, approval))
        elif _number(payload, "bytesOut") > 0:
            self.refused_with_bytes.setdefault(event.host, seq)

    def _problem(self, number: int, seq: int, message: str, *, certain: bool = True) -> None:
        self.findings.add(number, message, f"events[{seq}]", certain=certain)


_BEFORE_CLAIM = frozenset({e.RunCreated, e.PolicyEvaluated, e.RunClaimed})


def _ask(chain: Chain, _seq: int, _ts: str, event: e.PolicyEvaluated) -> None:
    chain.asked = chain.asked or event.decision == "ask"


_COLLECT: Final[dict[type, Any]] = {
    e.RunClaimed: Chain.claim,
    e.RunRequeued: Chain.requeue,
    e.PolicyEvaluated: _ask,
    e.ConsentGranted: Chain.consent,
    e.WorkspaceMaterialized: lambda chain, _seq, _ts, event: chain.manifests.setdefault(event.manifest_hash),
    e.CommandExecuted: lambda chain, _seq, _ts, event: chain.commands.append((event.argv_hash, event.exit_code)),
    e.SecretReleased: lambda chain, _seq, ts, event: chain.secrets.append((event.name, event.scope, ts)),
    e.ModelCalled: lambda chain, _seq, _ts, event: chain.models.setdefault((event.provider, event.model)),
    e.BoundaryCrossed: lambda chain, _seq, _ts, event: chain.disclosures.append(
        (event.direction, event.content_hash, event.data_class)
    ),
    e.ArtifactCreated: lambda chain, _seq, _ts, event: chain.artifacts.append((event.kind, event.hash)),
}


def _way(host: str, payload: dict[str, Any], approval: str) -> Way:
    """Read what a connection says of itself; a field of another type says nothing."""
    port = _number(payload, "port")
    return Way(
        host=host,
        port=int(port) if 0 < port <= LAST_PORT and port % 1 == 0 else 0,
        rule=_text(payload, "rule"),
        depth=_text(payload, "depth"),
        method=_text(payload, "method"),
        summed=_number(payload, "count") > 0,
        approval=approval,
    )


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if type(value) is str else ""


def _number(payload: dict[str, Any], name: str) -> float:
    """Read a number; 443 and 443.0 are the same to the hash, so they are here."""
    value = payload.get(name)
    return value if type(value) is int or type(value) is float else 0


def _digest(approval: dict[str, Any] | None) -> str:
    try:
        return digest(approval) if approval is not None else ""
    except CanonicalError:  # check 8 has said so
        return ""


def _odd_field(link: dict[Any, Any]) -> str:
    return _short(next(key for key in link if key not in WRAPPER))


def _short(value: Any) -> str:
    """Show a hostile value: never a whole one, never by a `repr` that could recurse."""
    if type(value) is str:
        return repr(value[:SHOWN_CHARACTERS])
    return f"of type {type(value).__name__}"
