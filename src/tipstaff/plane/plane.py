"""The plane: decides, permits, records and proves; it cannot run anything.

Everything goes in and comes out as JSON values, as the protocol has them, so that what stands in front (a call, HTTP)
is only transport. What is refused by policy is a value; a step that the protocol does not allow is a `PlaneError`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, BinaryIO

from tipstaff.errors import NotFoundError, StoreError
from tipstaff.model.facts import Facts
from tipstaff.model.noun import to_wire
from tipstaff.plane import approvals, intake, reading
from tipstaff.plane.authority import Authority
from tipstaff.plane.chains import Chains
from tipstaff.plane.completion import Completion, bundle_of
from tipstaff.plane.leases import Leases
from tipstaff.plane.lost import Lost
from tipstaff.plane.refusals import Cause, refuse_run
from tipstaff.plane.tokens import Tokens
from tipstaff.policy.judge import NO_FACTS
from tipstaff.store.blobs import Still, always

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from tipstaff.plane.callers import Caller
    from tipstaff.plane.changes import Kept
    from tipstaff.plane.contents import OwnedWriter
    from tipstaff.plane.people import People

Json = dict[str, Any]
PAGE = 100


class Plane:
    """One authority over one store."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._store = authority.store
        tokens = Tokens(self._store.secret("tokens", authority.random))
        chains = Chains(self._store.runs)
        self._leases = Leases(authority, tokens, chains)
        self._completion = Completion(authority, tokens, chains, self._leases)
        self._lost = Lost(authority, self._completion)
        self._wake = authority.wake

    @cached_property
    def people(self) -> "People":
        """The principals, and the tokens that runners enrol with."""
        from tipstaff.plane.people import People  # noqa: PLC0415 - an embedded plane has none

        return People(self._authority)

    def caller(self, token: str | None) -> "Caller | None":
        """Give what the principal with this token may do; None where there is no such principal."""
        from tipstaff.plane.callers import Caller  # noqa: PLC0415 - as above

        principal = self.people.who(token)
        return Caller(self, self._authority, principal) if principal is not None else None

    def public_keys(self) -> list[Json]:
        """List the keys that this plane signs, or signed, with."""
        signers = (self._authority.key, *self._authority.older)
        return [{"keyId": one.public.key_id, "publicKeyPem": one.public.pem, "role": "plane"} for one in signers]

    def others_version(self) -> int:
        """Give a number that changes whenever another process has written to the store."""
        return int(self._store.database.one("PRAGMA data_version")[0])

    def ready(self) -> bool:
        """Say whether the store answers."""
        try:
            return self._store.database.one("SELECT 1") is not None
        except StoreError:
            return False

    # For doors

    def submit(self, request: Any, facts: Facts = NO_FACTS, announce: intake.Announce | None = None) -> intake.Intake:
        """Take a request in: refused, queued, or waiting for people. What will be queued is announced first."""
        taken = intake.submit(self._authority, request, facts, announce)
        if isinstance(taken, intake.Queued):
            self._wake(f"queue:{taken.contract['runner']['pool']}")
        return taken

    def approve(self, run_id: str, body: Json, by: approvals.Vouched = "same-uid") -> Json:
        """Take an approval of a waiting run."""
        told = approvals.approve(self._authority, run_id, body, by)
        self._wake(f"run:{run_id}")
        if told["status"] == "created":
            self._wake(f"queue:{self._store.runs.get(run_id).pool}")
        return told

    def deny(self, run_id: str, body: Json) -> Json:
        """End a waiting run by an approver's word."""
        told = approvals.deny(self._authority, run_id, body)
        self._wake(f"run:{run_id}")
        return told

    def expire(self, run_id: str) -> Json:
        """End a waiting run because nobody waits for its approval any longer."""
        return approvals.expire(self._authority, run_id)

    def cancel(self, run_id: str, body: Json) -> Json:
        """Stop a run: at once where no runner has it, else the runner is told at its next word."""
        actor = to_wire(approvals.actor_of(body))
        with self._store.database.transaction(durable=True):
            run = self._store.runs.get(run_id)
            if run.claimed:
                self._store.runs.change(run, cancel_actor=run.cancel_actor or actor)  # its runner names the first
            elif run.open:
                event = {"type": "run.cancelled", "actor": actor}
                refuse_run(self._authority, run, Cause("run.cancelled", f"{actor['id']!r} cancelled it", event))
        self._wake(f"run:{run_id}")
        return {"runId": run_id, "status": self._store.runs.get(run_id).state}

    def answer(self, run_id: str, body: Json, by: approvals.Vouched = "same-uid") -> Json:
        """Take a person's answer to a question of a run at work."""
        from tipstaff.plane import questions  # noqa: PLC0415 - few runs ask while they run

        told = questions.answer(self._authority, run_id, body, by)
        self._wake(f"run:{run_id}")
        return told

    # For runners

    def enroll(self, public_key_pem: str, pool: str) -> Json:
        """Make a runner known."""
        return self._leases.enroll(public_key_pem, pool)

    def enroll_by_token(self, body: Json) -> Json:
        """Make a runner known that has a token for that."""
        from tipstaff.plane.people import Enrolment  # noqa: PLC0415 - an embedded plane enrols its own

        return Enrolment(self._authority, self._leases).enroll(body)

    def drain(self, body: Json) -> Json:
        """Give a runner that asks for it no more runs, or again."""
        runner, on = self._leases.runner(body), body.get("drain") is not False
        with self._store.database.transaction():
            self._store.runners.drain(runner.runner_id, on=on)
        return {"runnerId": runner.runner_id, "drain": on}

    def claim(self, body: Json) -> Json:
        """Give a runner the oldest run that fits."""
        claimed = self._leases.claim(body)
        if "runId" in claimed:
            self._wake(f"run:{claimed['runId']}")
        return claimed

    def holds(self, token: object, run_id: str) -> None:
        """Refuse a token that is not for this run."""
        self._leases.refuse_other(token, run_id)

    def runner_of(self, token: object) -> str:
        """Name the runner that a token was given to, or nobody: for a log, not for a permission."""
        return self._leases.runner_of(token)

    def renew(self, token: object) -> Json:
        """Prolong a runner's lease."""
        return self._leases.renew(token)

    def append(self, token: object, events: Any, *, release: bool = False, contents: Sequence[bytes] = ()) -> Json:
        """Take a runner's events, and small content that they name."""
        told = self._leases.append(token, events, release=release, contents=contents)
        self._woken(token)
        return told

    def print(self, token: object, body: Json) -> Json:
        """Take what a run prints, for whoever watches."""
        from tipstaff.plane import live  # noqa: PLC0415 - an embedded plane's output passes it by

        with self._store.database.transaction():
            told = live.take(self._authority, self._leases.holder(token), body)
        self._woken(token)
        return told

    def claim_writer(self, token: object) -> "OwnedWriter":
        """Begin a blob that the holder of a claim brings."""
        from tipstaff.plane.contents import OwnedWriter, run_owner  # noqa: PLC0415 - as above

        return OwnedWriter(self._authority, run_owner(self._leases.holder(token).run_id))

    def blob_for_claim(self, token: object, digest: str, still: Still = always) -> BinaryIO:
        """Give the holder of a claim content that its run is made of, or that it brought."""
        from tipstaff.plane.contents import content_of_claim  # noqa: PLC0415 - as above

        return content_of_claim(self._authority, self._leases.holder(token), digest, still)

    def blob_for_old_peer(self, digest: str, still: Still = always) -> BinaryIO:
        """Give anybody content that a run at a runner is made of: for runners that cannot say who they are."""
        from tipstaff.plane.contents import content_of_anybody  # noqa: PLC0415 - as above

        return content_of_anybody(self._authority, digest, still)

    def _woken(self, token: object) -> None:
        self._wake(f"run:{self._leases.run_of(token)}")

    def ask(self, token: object, body: Json) -> Json:
        """Take a runner's question about a place, or give its answer."""
        from tipstaff.plane import questions  # noqa: PLC0415 - few runs ask while they run

        return questions.ask(self._authority, self._leases.holder(token), body)

    def complete(self, token: object, receipt: Any, events: Any = (), contents: Sequence[bytes] = ()) -> Json:
        """End a run by its runner's receipt; gives it countersigned."""
        countersigned = self._completion.complete(token, receipt, events, contents)
        self._woken(token)
        return {"receipt": countersigned}

    def without_waiting(self) -> AbstractContextManager[None]:
        """Inside, a step that would have to wait for others is a `BusyError`, and can be taken again."""
        return self._store.database.without_waiting()

    # Housekeeping and reading

    def close_lost(self) -> list[Json]:
        """Close every run that is nobody's any more, and sweep what dead processes left."""
        closed = self._lost.close()
        for one in closed:
            self._wake(f"run:{one['runId']}")
            if one["how"] == "requeued":
                self._wake(f"queue:{self._store.runs.get(one['runId']).pool}")
        self._store.owners.sweep()
        self._store.blobs.sweep()
        return closed

    def prune(self, older_than_ms: int | None = None, down_to_bytes: int | None = None, *, dry: bool = False) -> Json:
        """Remove the content of what ended long ago; by each contract's own retention where nothing is said."""
        from tipstaff.plane import prune  # noqa: PLC0415 - few starts of the program tidy up

        return prune.prune(self._authority, prune.Wish(older_than_ms, down_to_bytes, dry))

    def status(self, run_id: str) -> str:
        """Say in which state a run is."""
        return self._store.runs.get(run_id).state

    def run(self, run_id: str) -> Json:
        """Tell everything about one run."""
        return reading.run_whole(self._authority, run_id)

    def history(self, count: int = PAGE, before: str | None = None) -> list[Json]:
        """List runs and refused requests, newest first, from behind the entry `before`."""
        return reading.history(self._authority, count, before)

    def named(self, beginning: str, count: int = PAGE) -> list[str]:
        """List ids of runs and refused requests that begin so."""
        return reading.named(self._authority, beginning, count)

    def waiting(self) -> list[Json]:
        """List the runs that wait for people, with exactly what is asked."""
        return reading.waiting(self._authority)

    def questions(self) -> list[Json]:
        """List what runs at work wait for people to answer."""
        from tipstaff.plane import questions  # noqa: PLC0415 - few runs ask while they run

        return questions.waiting(self._authority)

    def why(self, name: str) -> Json:
        """Say why a run, or a request that never became one, ended as it did."""
        return reading.why(self._authority, name)

    def output(self, run_id: str, stream: str) -> bytes:
        """Give the kept copy of what a run printed."""
        return reading.output(self._authority, run_id, stream)

    def changes(self, run_id: str) -> "Kept":
        """Give what a run changed in its workspace: the list, the diff and the contents."""
        from tipstaff.plane import changes  # noqa: PLC0415 - few starts of the program look at a change

        return changes.kept(self._authority, run_id)

    def refusal(self, refusal_id: str) -> Json:
        """Give a signed refusal."""
        return reading.refusal(self._authority, refusal_id)

    def refusals(self, count: int = PAGE) -> list[Json]:
        """List refusals, newest first."""
        return self._store.refusals.latest(count)

    def bundle(self, run_id: str) -> Json:
        """Give the bundle of a run that has its receipt."""
        run = self._store.runs.get(run_id)
        if run.receipt is None:
            why = "it ended with a refusal" if not run.open else f"it is {run.state}"
            raise NotFoundError(f"run {run_id} has no receipt: {why}")
        return bundle_of(self._authority, run, run.receipt, list(self._store.runs.events(run_id)))

    def metrics(self) -> Json:
        """Count what there is."""
        return reading.metrics(self._authority)

    def runners(self) -> list[Json]:
        """List the runners that are not revoked."""
        return reading.runners(self._authority)

    def journal(self) -> Json | None:
        """Give the journal with its signed head; None while nothing was decided."""
        return self._store.journal.document()
