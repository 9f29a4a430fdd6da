"""A plane far away, with the methods of the embedded one that doors use.

Who asks is known to the plane by the token: an `actor` in a body is what a signature is for, or nothing. Content is
hashed when it arrives. Nothing is kept here but the keys that the plane's proofs are checked with.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from tipstaff.errors import InputError, NotFoundError
from tipstaff.home import Home
from tipstaff.keys import KnownKeys
from tipstaff.model.changes import from_events, is_digest
from tipstaff.plane.changes import Kept
from tipstaff.remote import shapes
from tipstaff.remote.address import Address
from tipstaff.remote.pins import Pins
from tipstaff.remote.wire import Wire

Json = dict[str, Any]
PAGE: Final = 100
_STREAM: Final = re.compile(r"stdout|stderr")


class RemotePlane:
    """One plane, asked over HTTP."""

    def __init__(self, wire: Wire, home: Home, key_file: str | None = None) -> None:
        self.wire = wire
        self.url = wire.url
        self._pins = Pins(home)
        self._key_file = key_file
        self._trusted: KnownKeys | None = None

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
        shapes.text_of(answer, "runId")
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
        answer = self.wire.post(f"{_run(run_id)}/{what}", body)
        return {"runId": run_id, "status": "", **answer}

    # Reading

    def run(self, run_id: str) -> Json:
        """Tell everything about one run."""
        return shapes.run_of(self.wire.get(_run(run_id)))

    def status(self, run_id: str) -> str:
        """Say in which state a run is."""
        return shapes.text_of(self.wire.get(_run(run_id)), "status")

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
        return [name for name in found if isinstance(name, str) and name.startswith(beginning)]

    def waiting(self) -> list[Json]:
        """List the runs that wait for people, with exactly what is asked."""
        return [self._waiting(one) for one in shapes.list_of(self.wire.get("/v1/approvals"), "waiting")]

    def questions(self) -> list[Json]:
        """List what runs at work wait for people to answer."""
        found = [shapes.waiting_of(one) for one in shapes.list_of(self.wire.get("/v1/approvals"), "questions")]
        for one in found:
            for name in ("runId", "place", "host", "rule", "askedAt"):
                shapes.text_of(one, name)
        return found

    def _waiting(self, value: Any) -> Json:
        one = shapes.waiting_of(value)
        for name in ("runId", "until", "contractHash"):
            shapes.text_of(one, name)
        return one

    def why(self, name: str) -> Json:
        """Say why a run, or a request that never became one, ended as it did."""
        told = {"policy": "", "reasons": [], "request": {}, **shapes.line_of(self.wire.get(f"{_run(name)}/why"))}
        if not all(isinstance(one, str) for one in shapes.list_of(told, "reasons")):
            raise InputError("the plane gives reasons that are no sentences")
        return told

    def output(self, run_id: str, stream: str) -> bytes:
        """Give the kept copy of what a run printed."""
        if not _STREAM.fullmatch(stream):
            raise NotFoundError(f"there is no stream '{stream}'", hint="there are stdout and stderr")
        return self.wire.fetch(f"{_run(run_id)}/output/{stream}")

    def bundle(self, run_id: str) -> Json:
        """Give the bundle of a run that has its receipt."""
        return self.wire.get(f"{_run(run_id)}/bundle")

    def refusal(self, refusal_id: str) -> Json:
        """Give a signed refusal."""
        return self.wire.get(f"/v1/refusals/{quote(refusal_id, safe='')}")

    def journal(self) -> Json | None:
        """A plane gives its journal to auditors alone, and by another way."""
        raise NotFoundError("a plane's journal is not read from here", hint="auditors have it by: GET /v1/export")

    def changes(self, run_id: str) -> Kept:
        """Give what a run changed in its workspace: the list, the diff and the contents."""
        bundle = self.bundle(run_id)
        receipt = shapes.receipt_of(bundle.get("receipt"))
        contract = shapes.contract_of(bundle.get("contract"))
        events = [link["event"] for link in shapes.events_of(bundle.get("events"))]
        created = [event for event in events if event["type"] == "artifact.created" and event.get("kind") == "bundle"]
        del contract  # looked at, so that nobody has to wonder later
        return Kept(
            bundle,
            from_events(events),
            self._content(run_id, receipt["workspaceOut"]["diffHash"]),
            self._content(run_id, created[-1].get("hash") if created else ""),
        )

    def blob(self, run_id: str, digest: str) -> bytes:
        """Give content that a run names, checked."""
        content = self.wire.fetch(f"{_run(run_id)}/blobs/{quote(digest, safe='')}")
        if sha256(content).hexdigest() != digest:
            raise InputError(f"the plane {self.url} gives other bytes for {digest} than their digest says")
        return content

    def _content(self, run_id: str, digest: Any) -> bytes | None:
        if not digest:
            return b""
        if not is_digest(digest):
            raise InputError("the plane names content by something that is no digest")
        try:
            return self.blob(run_id, digest)
        except NotFoundError:
            return None


@contextmanager
def opened(address: Address, home: Home, key_file: str | None = None) -> Iterator[RemotePlane]:
    """Open the connections to a plane."""
    with Wire(address) as wire:
        yield RemotePlane(wire, home, key_file)


def _run(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"
