"""What one authenticated principal may do at a plane that serves several.

Every step is refused that the role does not have, and a run of somebody else's is not there for whoever may see only
their own. Who asks, approves or cancels is the principal itself, whatever the message says. The steps themselves are
the plane's.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.model.facts import Facts
from tipstaff.model.times import timestamp
from tipstaff.plane import live, reading
from tipstaff.plane.authority import Authority
from tipstaff.plane.contents import OwnedWriter
from tipstaff.plane.intake import Intake
from tipstaff.plane.people import ROLES
from tipstaff.plane.plane import Plane
from tipstaff.plane.report import disclosure_report
from tipstaff.store import Run
from tipstaff.store.blobs import Still, always
from tipstaff.store.principals import Principal

Json = dict[str, Any]
DOOR: Final = "http"
MOST_AT_ONCE: Final = 1000
MOST_REQUEST_BYTES: Final = 9 * 1024**2  # a script may have 8 MiB
MOST_MANIFEST_BYTES: Final = 32 * 1024**2


class Caller:
    """One principal at work."""

    def __init__(self, plane: Plane, authority: Authority, principal: Principal) -> None:
        self._plane = plane
        self._authority = authority
        self._store = authority.store
        self.principal = principal

    def may(self, capability: str) -> bool:
        """Say whether the role has a capability."""
        return capability in ROLES.get(self.principal.role, frozenset())

    def require(self, capability: str) -> None:
        """Refuse what the role does not have."""
        if not self.may(capability):
            message = f"{self.principal.name!r} is {self.principal.role}, which may not: {capability}"
            raise PlaneError(message, status=403, code="forbidden")

    # Asking for runs

    def submit(self, request: Any) -> Intake:
        """Take a request in, as this principal's."""
        self.require("runs:create")
        return self._plane.submit(self._own(request), self._facts())

    def report(self, request: Any) -> Json:
        """Say what would leave and what would be decided; nothing is kept."""
        self.require("runs:create")
        return disclosure_report(self._authority, self._own(request), self._facts())

    def cancel(self, run_id: str, _body: Json) -> Json:
        """Stop a run."""
        self.require("runs:cancel")
        run = self._run(run_id)
        if run.principal != self.principal.name:
            self.require("runs:cancel-all")
        return self._plane.cancel(run_id, {"actor": self._actor()})

    def approve(self, run_id: str, body: Json) -> Json:
        """Say yes to a run: by the principal's word, or by a signed approval."""
        self.require("runs:approve")
        self._run(run_id)
        return self._plane.approve(run_id, self._answer(body), "console")

    def deny(self, run_id: str, body: Json) -> Json:
        """Say no to a run that waits."""
        self.require("runs:approve")
        self._run(run_id)
        said = {name: item for name, item in body.items() if name == "contractHash"}
        return self._plane.deny(run_id, {**said, **_reason(body), "actor": self._actor()})

    def answer(self, run_id: str, body: Json) -> Json:
        """Answer a question of a run at work."""
        self.require("runs:approve")
        self._run(run_id)
        said: Json = {name: item for name, item in body.items() if name in {"answer", "question"}}
        return self._plane.answer(run_id, {**said, **_reason(body), **self._answer(body)}, "console")

    # Looking

    def runs(self, count: int, before: str | None = None, *, refused: bool = False) -> list[Json]:
        """List runs, newest first; with refused requests where they are asked for."""
        self.require("runs:read")
        count = max(1, min(count, MOST_AT_ONCE))
        if before is not None:
            self._seen(before)
        return reading.page(self._authority, count, before, self._whose(), refused=refused)

    def run(self, run_id: str) -> Json:
        """Tell everything about one run."""
        run = self._run(run_id)
        told = reading.run_whole(self._authority, run_id)
        return {**told, "position": self._store.runs.position(run)} if run.state == "created" else told

    def status(self, run_id: str) -> str:
        """Say in which state a run is."""
        return self._run(run_id).state

    def since(self, run_id: str, after: int, stdout: int, stderr: int) -> Json:
        """Tell what is new about a run."""
        run = self._run(run_id)
        wanted = (stdout, stderr) if self._may_have_content(run) else (live.BEYOND, live.BEYOND)
        return live.since(self._authority, run_id, after, *wanted)

    def bundle(self, run_id: str) -> Json:
        """Give the bundle of a run."""
        self._run(run_id)
        return self._plane.bundle(run_id)

    def why(self, name: str) -> Json:
        """Say why something was refused or ended as it did."""
        self._seen(name)
        return self._plane.why(name)

    def output(self, run_id: str, stream: str) -> bytes:
        """Give what a run printed."""
        self._refuse_content(self._run(run_id))
        return self._plane.output(run_id, stream)

    def refusal(self, refusal_id: str) -> Json:
        """Give a signed refusal."""
        self._seen(refusal_id)
        return self._plane.refusal(refusal_id)

    def named(self, beginning: str, count: int) -> list[str]:
        """List ids that begin so, of what this principal may see."""
        self.require("runs:read")
        return reading.named(self._authority, beginning, max(1, min(count, MOST_AT_ONCE)), self._whose())

    def waiting(self) -> list[Json]:
        """List the runs that wait for people."""
        self.require("runs:read")
        return reading.waiting(self._authority, self._whose())

    def questions(self) -> list[Json]:
        """List what runs at work ask people."""
        self.require("runs:read")
        return [one for one in self._plane.questions() if self._is_visible(one["runId"])]

    # Content

    def blob_writer(self) -> OwnedWriter:
        """Begin a blob of this principal's."""
        self.require("blobs:write")
        return OwnedWriter(self._authority, self.principal.name)

    def has_blob(self, digest: str) -> bool:
        """Say whether a blob is there that this principal may have."""
        blobs, name = self._store.blobs, self.principal.name
        if self.may("blobs:read-all"):
            return blobs.has(digest)
        return blobs.is_owned(name, digest) or (blobs.has(digest) and blobs.is_used_for(name, digest))

    def blob(self, digest: str, still: Still = always) -> BinaryIO:
        """Give a blob."""
        if not self.has_blob(digest):
            raise NotFoundError(f"there is no blob {digest[:64]} of yours")
        return self._store.blobs.open(digest, still)

    def run_blob(self, run_id: str, digest: str, still: Still = always) -> BinaryIO:
        """Give a blob that a run names."""
        self._refuse_content(self._run(run_id))
        if not self._store.blobs.is_used(run_id, digest):
            raise NotFoundError(f"run {run_id} names no blob {digest[:64]}")
        return self._store.blobs.open(digest, still)

    # Housekeeping

    def policy(self) -> Json:
        """Give the policy."""
        self.require("policy:read")
        return {"policy": self._authority.policy.value, "policyHash": self._authority.policy.hash}

    def export(self, since: str | None = None) -> Iterator[bytes]:
        """Give every event since a time, one line of JSON each."""
        self.require("export:read")
        return reading.export(self._authority, since)

    def metrics(self) -> Json:
        """Count."""
        self.require("metrics:read")
        return reading.metrics(self._authority)

    def principals(self) -> list[Json]:
        """List the principals."""
        self.require("principals:read")
        return self._plane.people.all()

    def issue(self, name: str, role: str, kind: str = "human") -> Json:
        """Make a principal."""
        self.require("principals:manage")
        return self._plane.people.issue(name, role, kind)

    def rotate(self, name: str) -> Json:
        """Give a principal another token: anybody their own, an admin everybody's."""
        if name != self.principal.name:
            self.require("principals:manage")
        return self._plane.people.rotate(name)

    def revoke(self, name: str) -> Json:
        """Take a principal's token away for good."""
        self.require("principals:manage")
        if name == self.principal.name:
            raise PlaneError("nobody can revoke themselves", status=409, code="own_token")
        return self._plane.people.revoke(name)

    def enroll_token(self, pool: str | None, seconds: int) -> Json:
        """Make a token that one runner can enrol with."""
        self.require("enroll-tokens:create")
        return self._plane.people.enroll_token(pool, seconds)

    def runners(self) -> list[Json]:
        """List the runners."""
        self.require("runners:read")
        return reading.runners(self._authority)

    def revoke_runner(self, runner_id: str) -> Json:
        """Take no more from a runner."""
        self.require("runners:manage")
        with self._store.database.transaction(durable=True):
            if not self._store.runners.revoke(runner_id, self._authority.time()):
                raise NotFoundError(f"there is no runner {runner_id[:64]!r}, or it is revoked")
            self._store.runs.let_go(runner_id)
        self._plane.close_lost()
        return {"runnerId": runner_id, "revokedAt": timestamp(self._authority.time())}

    def drain_runner(self, runner_id: str, *, drain: bool) -> Json:
        """Give a runner no more runs, or again."""
        self.require("runners:manage")
        with self._store.database.transaction():
            if not self._store.runners.drain(runner_id, on=drain):
                raise NotFoundError(f"there is no runner {runner_id[:64]!r}, or it is revoked")
        return {"runnerId": runner_id, "drain": drain}

    # What is whose

    def _own(self, request: Any) -> Json:
        """Write into a request who asks, and take out what only a site or a host of its own can say."""
        if type(request) is not dict:
            raise InputError("there is no `request`, or it is no object")
        _refuse_long(request)
        said = {name: item for name, item in request.items() if name not in {"tool", "toolEffect"}}
        if type(files := said.get("files")) is dict and files.get("captured"):
            # Where it was captured is a place of the requester's machine: it says nothing here.
            said["files"] = {name: item for name, item in files.items() if name not in {"captured", "workspace"}}
        return {**said, "requestedBy": self._actor(), "door": DOOR}

    def _actor(self) -> Json:
        return {"kind": self.principal.kind, "id": self.principal.name}

    def _answer(self, body: Json) -> Json:
        """Answer by the principal's word, or by a signature that is its own."""
        shown = {"contractHash": body["contractHash"]} if "contractHash" in body else {}
        if "approval" not in body:
            return {"actor": self._actor(), **shown}
        approval = body["approval"]
        actor = approval.get("actor") if type(approval) is dict else None
        if type(actor) is not dict or actor.get("id") != self.principal.name:
            raise PlaneError(f"this approval is not of {self.principal.name!r}", status=403, code="not_yours")
        return {"approval": approval, **shown}

    def _facts(self) -> Facts:
        return msgspec.convert({"authenticated": self.principal.name, "authenticatedKind": self.principal.kind}, Facts)

    def _run(self, run_id: str) -> Run:
        self._seen(run_id)  # before it is read: of another's, not even that it is pruned is told
        return self._store.runs.get(run_id)

    def _refuse_content(self, run: Run) -> None:
        """Refuse the content of a run to whoever may only look at its papers."""
        if not self._may_have_content(run):
            self.require("blobs:read-all")

    def _may_have_content(self, run: Run) -> bool:
        return run.principal == self.principal.name or self.may("blobs:read-all")

    def _seen(self, name: str) -> None:
        self.require("runs:read")
        if not self._is_visible(name):
            raise NotFoundError(f"there is no run {name[:64]!r}", hint="see: tipstaff history")

    def _is_visible(self, name: str) -> bool:
        if self.may("runs:read-all"):
            return True
        refusal = self._store.refusals.get(name)
        whose = refusal["principal"] if refusal is not None else self._store.runs.principal_of(name)
        return bool(whose == self.principal.name)

    def _whose(self) -> str | None:
        """Say of whom this principal may see runs; None: of everybody."""
        return None if self.may("runs:read-all") else self.principal.name


def _refuse_long(request: Json) -> None:
    """Refuse a request that would be carried around and read for as long as its run is kept."""
    try:
        whole = len(msgspec.json.encode(request))
        workspace = len(msgspec.json.encode(request.get("workspace")))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError("the request is not JSON") from error
    if whole - workspace > MOST_REQUEST_BYTES or workspace > MOST_MANIFEST_BYTES:
        message = f"a request is at most {MOST_REQUEST_BYTES} bytes, and its workspace's manifest {MOST_MANIFEST_BYTES}"
        raise PlaneError(message, status=413, code="request_too_large")


def _reason(body: Json) -> Json:
    return {"reason": body["reason"]} if "reason" in body else {}
