"""A plane with fixed keys that is played over HTTP: what it answers is true, until a test twists an answer on its way.

It has one run that was carried out and printed a line, and, where a policy asks, others that wait for people.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.unit.plane.embedded import (
    ASKING,
    COMPLETED,
    PLANE,
    Counter,
    Embedded,
    executed,
    follow,
    materialized,
    receipt,
)
from tests.unit.policy.conftest import open_policy
from tests.unit.remote.scripted import Asked, Reply, event, json_reply, scripted
from tipstaff.errors import TipstaffError
from tipstaff.home import Home
from tipstaff.remote.address import address_of
from tipstaff.remote.plane import RemotePlane
from tipstaff.remote.wire import Wire

Json = dict[str, Any]
Twist = Callable[[Asked, Any], Any]  # a request and the true answer → the one that is given
PRINTED = b"the tests FAILED\n"
STREAM = {"Content-Type": "text/event-stream"}


class Played:
    """The plane, and how its answers are twisted."""

    def __init__(self, folder: Path, *, asking: bool = False, streams: Json | None = None) -> None:
        self.site = Embedded(folder)
        self.run_id = self.site.submit()
        self.ended(self.site.claim(), streams)
        self.waits: list[str] = []
        if asking:
            self.site.close()
            self.site = Embedded(folder, policy=open_policy(**ASKING), random=Counter("later"))
            self.waits = [self.site.submit(purpose=word) for word in ("harmless", "other")]
        self.twist: Twist = lambda _, answer: answer
        self.live = [("stdout", 0, PRINTED)]
        self.posted: list[tuple[str, Json]] = []
        self.url = ""

    def ended(self, claim: Json, streams: Json | None) -> None:
        """Carry a run out that prints a line."""
        now, kept = self.site.clock(), self.site.store.blobs.put(PRINTED)
        self.site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], now), release=True)
        log = [
            {"type": "artifact.created", "kind": "log", "hash": kept},
            {"type": "boundary.crossed", "direction": "out", "contentHash": kept, "dataClass": "session-log"},
        ]
        events = follow(claim, [executed(), *log, COMPLETED], now)
        told = streams if streams is not None else {"stdout": record(PRINTED), "stderr": record(b"")}
        signed = receipt(claim, now, streams=told, exitCode=0)
        self.site.plane.complete(claim["claimToken"], signed, events)

    def answer(self, asked: Asked) -> Reply:
        """Answer as a plane does."""
        path, _, query = asked.path.partition("?")
        if path.endswith("/follow"):
            return Reply(200, self._told(asked), STREAM)
        if "/blobs/" in path:
            return Reply(200, self.twist(asked, {"": self.site.store.blobs.get(path.rpartition("/")[2])})[""])
        try:
            said: Any = self._json(asked, path, query)
        except TipstaffError as error:
            said = json_reply({"error": error.message}, getattr(error, "status", 404))
        answer = self.twist(asked, said)
        return answer if isinstance(answer, Reply) else json_reply(answer)

    def _told(self, asked: Asked) -> bytes:
        said = [
            event("output", {"stream": name, "offset": at, "data": base64.b64encode(data).decode()}, f"9.{at}.0")
            for name, at, data in self.live
        ]
        whole = {"": b"".join([*said, event("end", {"status": "completed"})])}
        told: bytes = self.twist(asked, whole)[""]
        return told

    def _json(self, asked: Asked, path: str, query: str) -> Json:
        if asked.method == "POST":
            return self._posted(path, asked.body)
        plane = self.site.plane
        beginning = query.partition("beginning=")[2].partition("&")[0]
        key = {"keyId": PLANE.public.key_id, "publicKeyPem": PLANE.public.pem, "role": "plane"}
        routes: dict[str, Callable[[str], Json]] = {
            "/v1/keys": lambda _: {"keys": [key]},
            "/v1/approvals": lambda _: {"waiting": plane.waiting(), "questions": []},
            "/v1/names": lambda _: {"names": plane.named(beginning, 9)},
            "/v1/runs": lambda _: {"runs": plane.history(9)},
            "": plane.run,
            "bundle": plane.bundle,
            "why": plane.why,
        }
        if path in routes:
            return routes[path]("")
        run_id, _, what = path.removeprefix("/v1/runs/").partition("/")
        return routes[what](run_id)

    def _posted(self, path: str, body: bytes) -> Json:
        said: Json = msgspec.json.decode(body)
        self.posted.append((path, said))
        return {"status": "created", "missing": []}


def record(printed: bytes) -> Json:
    """Say what a receipt says of a stream."""
    digest = sha256(printed).hexdigest()
    return {"bytes": len(printed), "sha256": digest, "truncated": False, "kept": digest}


@contextmanager
def played(folder: Path, **how: Any) -> Iterator[Played]:
    """Play a plane on a free port of this machine."""
    folder.mkdir(exist_ok=True)
    made = Played(folder, **how)
    try:
        with scripted(made.answer) as server:
            made.url = server.url
            yield made
    finally:
        made.site.close()


@contextmanager
def client_of(plane: Played, folder: Path) -> Iterator[RemotePlane]:
    """Be a client that knows the plane's key from before."""
    with Wire(address_of(plane.url, "tip_x")) as wire:
        found = RemotePlane(wire, Home(folder / "client"))
        found.trusted()
        yield found


def on(ending: str, change: Callable[[Any], Any]) -> Twist:
    """Twist the answers whose path ends so."""

    def twist(asked: Asked, answer: Any) -> Any:
        return change(answer) if urlsplit(asked.path).path.endswith(ending) else answer

    return twist
