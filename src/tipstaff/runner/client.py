"""How a runner speaks with its plane: claim, events, renew, ask, complete, always as JSON bytes.

`PlaneClient` is what a runner asks of any way; `Speaker` spells each request and reads each answer, whatever carries
them; `InProcess` hands the bytes to a plane in the same process: at once, because a thread costs more than most
answers; on a thread where the plane is busy, its disk is slow or the body is long, so that nothing holds up what a
sandbox prints. An answer either reads or is a `PlaneError`. Holds no database.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tipstaff.errors import PlaneError

Json = dict[str, Any]
KNOWS: Final = ["release", "renew"]
OK: Final = 200
BUSY: Final = 503
BAD_ANSWER: Final = 502
MALFORMED: Final = "answer_malformed"
NO_PLANE: Final = "not_a_plane"
LONG_BYTES: Final = 64 * 1024  # a longer body takes longer to read than a thread takes to start
SLOW_SECONDS: Final = 0.02
_NOTHING: Final[Mapping[str, Any]] = {}


class UnreachableError(PlaneError):
    """A plane that cannot be reached, or cannot answer now: the same may be asked again."""

    def __init__(self, message: str, *, status: int = BUSY, code: str = "", retry_seconds: float = 0.0) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_seconds = retry_seconds  # what the plane asks to wait; 0 where it says nothing


class Call(Protocol):
    """A plane's answer: a path and a body → a status and a body. Without `wait`, 503 where it is busy."""

    def __call__(self, path: str, body: bytes, /, *, wait: bool = True) -> tuple[int, bytes]:
        """Answer one request."""


class Claim(NamedTuple):
    """A run that this runner holds."""

    run_id: str
    contract: Json
    token: str
    attempt: int
    events: list[Json]
    secrets: dict[str, str]
    lease_ms: int  # 0: the plane speaks of no lease
    proof: Json | None = None  # the plane's signed word on this claim, as it came


class PlaneClient(Protocol):
    """A runner's way to its plane. `cancel` in an answer is who wants the run stopped, or None."""

    async def claim(self, tiers: Sequence[str] | None = None, said: Mapping[str, Any] = _NOTHING) -> Claim | None:
        """Ask for a run; `tiers` are those that this host can enforce, `said` whatever else the plane may know."""

    async def append(self, claim: Claim, events: Sequence[Json], *, release: bool = False) -> Json | None:
        """Send events; with `release`, be sure that they survive before the command is let run."""

    async def renew(self, claim: Claim) -> tuple[Claim, Json | None]:
        """Prolong the lease; the claim before it is void."""

    async def ask(self, claim: Claim, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer: `waiting`, `yes` with its approval, or `no`."""

    async def complete(
        self, claim: Claim, receipt: Json, events: Sequence[Json] = (), blobs: Iterable[bytes] = ()
    ) -> Json:
        """Send the receipt, with the events and small contents not sent before; gives it countersigned."""


class _Secret(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Claimed(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a plane answers to a claim; older planes leave most of it out."""

    empty: bool = False
    drain: bool = False
    offers: list[str] = []
    run_id: str = ""
    contract: Json = {}
    claim_token: str = ""
    events: list[Json] = []
    secrets: list[_Secret] = []
    attempt: int = 1
    lease_ms: int = 0
    proof: Json | None = None


class Speaker(ABC):
    """The words of the protocol, without what carries them."""

    knows: Sequence[str] = KNOWS

    def __init__(self, runner_token: str, pool: str) -> None:
        self._runner_token = runner_token
        self._pool = pool
        self.offers: frozenset[str] = frozenset()  # what the plane said that it can do, with its last answer to a claim
        self.drain = False  # whether it wants this runner to take no more

    @abstractmethod
    async def _post(self, path: str, body: Json) -> Json:
        """Carry one request there and its answer back; PlaneError where the plane says no."""

    async def claim(self, tiers: Sequence[str] | None = None, said: Mapping[str, Any] = _NOTHING) -> Claim | None:
        """Ask for a run."""
        body = {"runnerToken": self._runner_token, "pool": self._pool, "knows": list(self.knows), **said}
        reply = await self._post("/v1/claims", body if tiers is None else {**body, "tiers": list(tiers)})
        try:
            read = msgspec.convert(reply, _Claimed)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise unreadable("a claim", str(error)) from error
        self.offers, self.drain = frozenset(read.offers), read.drain
        if read.empty:
            return None
        if not (read.run_id and read.claim_token and read.events):
            raise unreadable("a claim", "it names no run, no token or no events")
        return Claim(
            run_id=read.run_id,
            contract=read.contract,
            token=read.claim_token,
            attempt=read.attempt,
            events=read.events,
            secrets={secret.name: secret.value for secret in read.secrets},
            lease_ms=max(0, read.lease_ms),
            proof=read.proof,
        )

    async def append(self, claim: Claim, events: Sequence[Json], *, release: bool = False) -> Json | None:
        """Send events."""
        return canceller(await self.send(claim, events, release=release))

    async def send(
        self, claim: Claim, events: Sequence[Json], *, release: bool = False, blobs: Iterable[bytes] = ()
    ) -> Json:
        """Send events, and the small contents that they name; gives everything that the plane answers."""
        return await self._step(
            claim, "events", {"events": list(events), **({"release": True} if release else {}), **_inline(blobs)}
        )

    async def renew(self, claim: Claim) -> tuple[Claim, Json | None]:
        """Prolong the lease."""
        reply = await self._step(claim, "renew", {})
        token, lease_ms = reply.get("claimToken"), reply.get("leaseMs")
        if type(token) is not str or type(lease_ms) is not int or lease_ms <= 0:
            raise unreadable("a renewal", "it has no token, or no time")
        return claim._replace(token=token, lease_ms=lease_ms), canceller(reply)

    async def ask(self, claim: Claim, question: Json, *, give_up: bool = False) -> Json:
        """Ask whether a place may be reached, or look for the answer."""
        return await self._step(claim, "ask", {**question, "giveUp": give_up})

    async def complete(
        self, claim: Claim, receipt: Json, events: Sequence[Json] = (), blobs: Iterable[bytes] = ()
    ) -> Json:
        """Send the receipt."""
        body = {"receipt": receipt, "events": list(events), **_inline(blobs)}
        countersigned = (await self._step(claim, "complete", body)).get("receipt")
        if type(countersigned) is not dict:
            raise unreadable("a receipt", "it is not there")
        return countersigned

    async def _step(self, claim: Claim, step: str, body: Json) -> Json:
        return await self._post(f"/v1/runs/{claim.run_id}/{step}", {"claimToken": claim.token, **body})


class InProcess(Speaker):
    """A plane in the same process."""

    def __init__(self, call: Call, runner_token: str, pool: str, turn: asyncio.Lock | None = None) -> None:
        super().__init__(runner_token, pool)
        self._call = call
        self._turn = turn or asyncio.Lock()  # one at a time: threads that wait for each other would only add to it
        self._last_seconds = 0.0

    async def _post(self, path: str, body: Json) -> Json:
        encoded = msgspec.json.encode(body)
        async with self._turn:
            at_once = len(encoded) <= LONG_BYTES and self._last_seconds < SLOW_SECONDS
            status, data = self._timed(path, encoded, wait=False) if at_once else (BUSY, b"")
            if status == BUSY:  # nothing was changed, so the same can be asked again
                status, data = await asyncio.to_thread(self._timed, path, encoded, wait=True)
        return understood(status, data)

    def _timed(self, path: str, body: bytes, *, wait: bool) -> tuple[int, bytes]:
        """Ask, and remember how long it took: a disk that has just been slow is not waited for on the loop."""
        started = time.monotonic()
        try:
            return self._call(path, body, wait=wait)
        finally:
            self._last_seconds = time.monotonic() - started


def _inline(blobs: Iterable[bytes]) -> Json:
    """Spell small contents; nothing where there are none."""
    inline = [b64encode(content).decode() for content in blobs]
    return {"blobs": inline} if inline else {}


def understood(status: int, data: bytes) -> Json:
    """Read an answer; PlaneError where the plane says no, or nothing that could be understood.

    Every plane says in words why it says no: what does not is somebody else's answer on the way, and counts as none.
    """
    try:
        reply = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(f"an answer with status {status}", "it is not JSON") from error
    if type(reply) is not dict:
        raise unreadable(f"an answer with status {status}", "it is not an object")
    if status != OK:
        if type(reply.get("error")) is not str:
            message = f"the plane cannot be reached: something on the way answers with status {status}"
            raise UnreachableError(message, status=status, code=NO_PLANE)
        raise refused(status, reply)
    return reply


def refused(status: int, reply: Json) -> PlaneError:
    """Put the plane's own words for a refusal into an error."""
    reasons = reply.get("reasons")
    said = tuple(str(reason) for reason in reasons) if type(reasons) is list else ()
    code, message = reply.get("code"), reply.get("error")
    return PlaneError(
        message if type(message) is str else f"the plane answered with status {status}",
        status=status,
        code=code if type(code) is str else "",
        reasons=said,
    )


def unreadable(what: str, why: str) -> PlaneError:
    """Say that an answer is not what the protocol has there."""
    return PlaneError(f"the plane gave {what} that cannot be read: {why}", status=BAD_ANSWER, code=MALFORMED)


def canceller(reply: Json) -> Json | None:
    """Give who wants the run stopped, if somebody does."""
    found = reply.get("cancel")
    return found if type(found) is dict else None
