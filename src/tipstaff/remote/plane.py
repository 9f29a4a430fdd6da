"""A plane far away, with the methods of the embedded one that doors use.

Who asks is known to the plane by the token, and nobody else is named to it but in a signature. Ids are taken only in
their whole form, and content is hashed when it arrives. What a run did and printed is told from its proof,
checked with the key that was pinned; a run without one says so. Nothing is kept here but those keys.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

from tipstaff.errors import InputError, NotFoundError
from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.keys import KnownKeys
from tipstaff.model.changes import Change, from_events, is_digest
from tipstaff.plane.changes import Kept
from tipstaff.remote import outcomes, proving, shapes
from tipstaff.remote.address import Address
from tipstaff.remote.pins import Pins
from tipstaff.remote.wire import Wire

Json = dict[str, Any]
PAGE: Final = 100
MOST_DIFF_BYTES: Final = 2**30
MARK_BYTES: Final = 128  # the line at the end of a capped log
_STREAM: Final = re.compile(r"stdout|stderr")


class RemotePlane:
    """One plane, asked over HTTP."""

    def __init__(self, wire: Wire, home: Home, key_file: str | None = None) -> None:
        self.wire = wire
        self.url = wire.url
        self._pins = Pins(home)
        self._key_file = key_file
        self._trusted: KnownKeys | None = None
        self._proved: tuple[str, Json] | None = None  # the last bundle that was checked, by its run

    def trusted(self) -> KnownKeys:
        """Give the keys that this plane's proofs are checked with; they are pinned at its first use."""
        if self._trusted is None:
            if self._key_file is not None:
                self._pins.pin_file(self.url, self._key_file)
            keys = self._pins.settle(self.url, lambda: self.wire.get("/v1/keys"))
            self._trusted = self._pins.trusted(keys)
        return self._trusted

    # Asking for something

    def submit(self, request: Json) -> Json:
        """Send a request; a denial by policy is a `DeniedError` with everything that the plane says of it."""
        answer = self.wire.post("/v1/runs", {"request": request})
        shapes.whole_id(answer.get("runId"))
        shapes.text_of(answer, "status")
        return answer

    def report(self, request: Json) -> Json:
        """Have a request judged and nothing kept."""
        return self.wire.post("/v1/runs", {"dryRun": True, "request": request})

    def approve(self, run_id: str, body: Json) -> Json:
        """Say yes to a waiting run, by the token or by a signature."""
        answer = self._answer(run_id, "approve", body)
        return {**answer, "missing": [one for one in answer.get("missing", []) if isinstance(one, str)]}

    def deny(self, run_id: str, body: Json) -> Json:
        """Say no to a waiting run."""
        return self._answer(run_id, "deny", body)

    def answer(self, run_id: str, body: Json) -> Json:
        """Answer the question of a run at work."""
        return self._answer(run_id, "answer", body)

    def cancel(self, run_id: str, body: Json) -> Json:
        """Stop a run: at once where no runner has it, else the runner is told at its next word."""
        return self._answer(run_id, "cancel", body)

    def _answer(self, run_id: str, what: str, body: Json) -> Json:
        said = {name: value for name, value in body.items() if name != "actor"}  # the plane knows by the token
        answer = self.wire.post(f"{_run(run_id)}/{what}", said)
        return {**answer, "runId": run_id, "status": str(answer.get("status", ""))}

    # Reading

    def told(self, run_id: str) -> Json:
        """Tell everything about one run in the plane's own words, which prove nothing."""
        return shapes.run_of(self.wire.get_long(_run(run_id)), run_id)

    def run(self, run_id: str) -> Json:
        """Tell everything about one run: from its proof, as far as there is one; `proved` says whether."""
        told = self.told(run_id)
        if "receipt" in told:
            return proving.with_proof(told, self.proved(run_id))
        if "refusal" in told:
            self.refuse_unproved_refusal(told["refusal"], run_id)
        return {**told, "proved": "refusal" in told}

    def proved(self, run_id: str) -> Json:
        """Give the bundle of a run, checked with the pinned key."""
        if self._proved is None or self._proved[0] != run_id:
            bundle = self.wire.get_long(f"{_run(run_id)}/bundle")
            proving.refuse_unproved(bundle, self.trusted(), run_id, self.url)
            proving.refuse_other_run(bundle, run_id, self.url)
            self._proved = (run_id, bundle)
        return self._proved[1]

    def refuse_unproved_refusal(self, refusal: Json, run_id: str | None = None) -> None:
        """Refuse a refusal that the pinned key did not sign, or that is another run's."""
        proving.refuse_unproved(refusal, self.trusted(), run_id or "the refusal", self.url)
        if run_id is not None and refusal.get("runId") != run_id:
            raise InputError(f"the plane {self.url} gives the refusal of another run than {run_id}")

    def status(self, run_id: str) -> str:
        """Say in which state a run is, by the plane's word."""
        return shapes.text_of(self.wire.get_long(_run(run_id)), "status")

    def history(self, count: int = PAGE, before: str | None = None) -> list[Json]:
        """List runs and refused requests, newest first, from behind the entry `before`."""
        lines: list[Json] = []
        while len(lines) < count:
            page = self.wire.get("/v1/runs", limit=min(count - len(lines), PAGE), before=before, refused="true")
            found = [shapes.line_of(one) for one in shapes.list_of(page, "runs")]
            lines += found
            before = page.get("next")
            if not found or not isinstance(before, str):
                break
        return lines[:count]

    def named(self, beginning: str, count: int = PAGE) -> list[str]:
        """List ids of runs and refused requests that begin so."""
        found = shapes.list_of(self.wire.get("/v1/names", beginning=beginning, limit=count), "names")
        return [shapes.whole_id(name) for name in found if isinstance(name, str) and name.startswith(beginning)]

    def waiting(self) -> list[Json]:
        """List the runs that wait for people, with exactly what is asked."""
        found = [self._asked(one) for one in shapes.list_of(self.wire.get("/v1/approvals"), "waiting")]
        for one in found:
            shapes.text_of(one, "until")
        return found

    def questions(self) -> list[Json]:
        """List what runs at work wait for people to answer."""
        found = [self._asked(one) for one in shapes.list_of(self.wire.get("/v1/approvals"), "questions")]
        for one in found:
            for name in ("place", "host", "rule", "askedAt"):
                shapes.text_of(one, name)
        return found

    def _asked(self, value: Any) -> Json:
        """Read what somebody is asked about: nobody is shown a contract that the pinned key did not sign."""
        one = shapes.waiting_of(value)
        proving.refuse_unsigned(value["contract"], self.trusted(), self.url)
        return one

    def why(self, name: str) -> Json:
        """Say why a run, or a request that never became one, ended as it did."""
        told = {"policy": "", "reasons": [], "request": {}, **shapes.line_of(self.wire.get(f"{_run(name)}/why"))}
        if not all(isinstance(one, str) for one in shapes.list_of(told, "reasons")):
            raise InputError("the plane gives reasons that are no sentences")
        return told

    def output(self, run_id: str, stream: str) -> bytes:
        """Give the kept copy of what a run printed, by the digest in its receipt."""
        if not _STREAM.fullmatch(stream):
            raise NotFoundError(f"there is no stream '{stream}'", hint="there are stdout and stderr")
        record = outcomes.streams_of(self.proved(run_id)["receipt"]).get(stream)
        if record is None or not record.kept or not record.bytes:
            return b""
        return self.blob(run_id, record.kept, record.bytes + MARK_BYTES)

    def bundle(self, run_id: str) -> Json:
        """Give the bundle of a run that has its receipt, as it is: whoever gets it may check it."""
        if self._proved is not None and self._proved[0] == run_id:
            return self._proved[1]
        return self.wire.get_long(f"{_run(run_id)}/bundle")

    def refusal(self, refusal_id: str) -> Json:
        """Give a signed refusal."""
        return self.wire.get(f"/v1/refusals/{shapes.whole_id(refusal_id)}")

    def journal(self) -> Json | None:
        """A plane gives its journal to auditors alone, and by another way."""
        raise NotFoundError("a plane's journal is not read from here", hint="auditors have it by: GET /v1/export")

    def changes(self, run_id: str) -> Kept:
        """Give what a run changed in its workspace: the list, the diff and the contents.

        The proof is for whoever asks to check; where it does not hold, no content is asked for.
        """
        bundle = self.bundle(run_id)
        receipt = shapes.receipt_of(bundle.get("receipt"))
        shapes.contract_of(bundle.get("contract"))  # looked at, so that nobody has to wonder later
        events = [link["event"] for link in shapes.events_of(bundle.get("events"))]
        if verify(bundle, known=self.trusted()).verdict != "valid":
            return Kept(bundle, [], None, None)
        created = [event for event in events if event["type"] == "artifact.created" and event.get("kind") == "bundle"]
        changes = from_events(events)
        return Kept(
            bundle,
            changes,
            self._content(run_id, receipt["workspaceOut"]["diffHash"], MOST_DIFF_BYTES),
            self._content(run_id, created[-1].get("hash") if created else "", _kept_bytes(changes)),
        )

    def blob(self, run_id: str, digest: str, most: int) -> bytes:
        """Give content that a run names, checked; no more of it than there can be."""
        if not is_digest(digest):
            raise InputError("the plane names content by something that is no digest")
        content = self.wire.fetch(f"{_run(run_id)}/blobs/{digest}", most)
        if sha256(content).hexdigest() != digest:
            raise InputError(f"the plane {self.url} gives other bytes for {digest} than their digest says")
        return content

    def _content(self, run_id: str, digest: Any, most: int) -> bytes | None:
        if not digest:
            return b""
        try:
            return self.blob(run_id, digest, most)
        except NotFoundError:
            return None


def _kept_bytes(changes: list[Change]) -> int:
    return sum(change.after.size for change in changes if change.kept and change.after is not None)


@contextmanager
def opened(address: Address, home: Home, key_file: str | None = None) -> Iterator[RemotePlane]:
    """Open the connections to a plane."""
    with Wire(address) as wire:
        yield RemotePlane(wire, home, key_file)


def _run(run_id: str) -> str:
    return f"/v1/runs/{shapes.whole_id(run_id)}"
