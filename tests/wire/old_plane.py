"""A plane of the other implementation, emulated from the protocol's text on the standard library's server.

It knows enrolment, claims, events, completion and blobs, and answers with the protocol's fields alone. It keeps all
that was said to it. `alter` lets a test change what it gives out: then it is a plane that somebody else took over.
"""

import hashlib
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.wire.old_peer import DENIED
from tests.wire.old_words import OldChain, OldKey, hash_of, holds_together, key_id, now, payload, problems

Json = dict[str, Any]
ENROLL_TOKEN = "enrol-me-please"  # noqa: S105 - of a plane that lives for one test
NOTHING: Json = {
    "version": "warrant.manifest.v1",
    "kind": "tree",
    "baseRef": hash_of([]),
    "treeHash": hash_of([]),
    "untrackedFiles": [],
    "deniedPatterns": list(DENIED),
    "deniedPaths": [],
}


class OldRun:
    """One run, as the plane keeps it."""

    def __init__(self, contract: Json, secrets: dict[str, str]) -> None:
        self.contract, self.secrets = contract, secrets
        self.events: list[Json] = []
        self.receipt: Json | None = None
        self.token = ""
        self.bundle: Json | None = None


class OldPlane:
    """The authority of the other implementation."""

    def __init__(self) -> None:
        self.key = OldKey()
        self.runs: dict[str, OldRun] = {}
        self.runners: dict[str, tuple[str, str, str]] = {}  # a token; an id, a key and a pool
        self.blobs: dict[str, bytes] = {}
        self.said: list[tuple[str, Json]] = []  # every post that came, with its path
        self.refused: list[list[int]] = []  # the checks that a receipt did not pass
        self.credulous = False  # takes every word of a runner, so that nothing but the runner itself can refuse
        self.alter: Callable[[Json], Json] = lambda claim: claim
        self.url = ""

    def keep(self, data: bytes) -> str:
        """Keep a blob."""
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return name

    def contract(self, execution: Json, **changes: Any) -> Json:
        """Write a contract with the protocol's fields alone, unsigned."""
        later = datetime.now(UTC) + timedelta(hours=1)
        kind = execution["agent"]["kind"] if execution["kind"] == "agent" else "command"
        contract: Json = {
            "version": "warrant.contract.v1",
            "runId": f"run_{uuid.uuid4()}",
            "issuedAt": now(),
            "issuer": {"keyId": self.key.key_id, "role": "plane"},
            "requestedBy": {"kind": "human", "id": "demo@example.com"},
            "agent": {"kind": kind},
            "task": {"prompt": execution.get("prompt", execution.get("script", ""))},
            "runner": {"pool": "default"},
            "workspace": NOTHING,
            "policyHash": hash_of({"policy": "theirs"}),
            "secrets": [],
            "network": {"defaultDeny": True, "allowHosts": []},
            "budget": {},
            "disclosure": "minimal-context",
            "execution": execution,
            "expiresAt": later.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        return contract | changes

    def queue(self, contract: Json, secrets: dict[str, str] | None = None, key: OldKey | None = None) -> str:
        """Sign a contract and let it be claimed; gives the run's id."""
        signed = (key or self.key).signed(contract, "plane")
        self.runs[contract["runId"]] = OldRun(signed, secrets or {})
        return str(contract["runId"])

    def posts(self, ending: str) -> list[Json]:
        """Give the bodies of the posts whose path ends so."""
        return [body for path, body in self.said if path.endswith(ending)]

    def answer(self, path: str, body: Json) -> tuple[int, Json]:
        """Answer one post."""
        self.said.append((path, body))
        found = re.fullmatch(r"/v1/runs/([^/]+)/(events|complete)", path)
        if path == "/v1/runners/enroll":
            return self._enroll(body)
        if path == "/v1/claims":
            return self._claim(body)
        if found is None:
            return 404, {"error": "not found"}
        if self.credulous:
            return 200, {"ok": True} if found[2] == "events" else {"receipt": self.key.signed(body["receipt"], "plane")}
        run = self.runs.get(found[1])
        if run is None or not run.token or body.get("claimToken") != run.token:
            return 401, {"error": "invalid claim token"}
        return self._append(run, body) if found[2] == "events" else self._complete(run, body)

    def _enroll(self, body: Json) -> tuple[int, Json]:
        if body.get("enrollToken") != ENROLL_TOKEN:
            return 400, {"error": "invalid enroll token"}
        token, runner_id = uuid.uuid4().hex, f"rnr_{uuid.uuid4()}"
        self.runners[token] = (runner_id, body["publicKeyPem"], body["pool"])
        return 200, {"runnerId": runner_id, "runnerToken": token}

    def _claim(self, body: Json) -> tuple[int, Json]:
        runner_id, pem, _ = self.runners.get(body.get("runnerToken", ""), ("", "", ""))
        if not runner_id:
            return 401, {"error": "unknown runner"}
        run = next((one for one in self.runs.values() if not one.token), None)
        if run is None:
            return 200, {"empty": True}
        run.token = uuid.uuid4().hex
        first: Json = {"seq": 0, "ts": now(), "prev": payload(run.contract), "event": {"type": "run.created"}}
        chain = OldChain([{"version": "warrant.event.v1", **first, "hash": hash_of(first)}])
        chain.add("policy.evaluated", decision="allow", reason="policy allows this run")
        chain.add("run.claimed", runnerId=runner_id, runnerKeyId=key_id(pem))
        for secret in run.contract["secrets"]:
            chain.add("secret.released", name=secret["name"], scope=secret["scope"])
        run.events = chain.links
        return 200, self.alter(
            {
                "runId": run.contract["runId"],
                "contract": run.contract,
                "claimToken": run.token,
                "events": run.events,
                "secrets": [{"name": name, "value": value} for name, value in run.secrets.items()],
            }
        )

    def _append(self, run: OldRun, body: Json) -> tuple[int, Json]:
        events = [*run.events, *body["events"]]
        if not holds_together({"contract": run.contract, "events": events}):
            return 400, {"error": "event chain broken"}
        run.events = events
        return 200, {"ok": True}

    def _complete(self, run: OldRun, body: Json) -> tuple[int, Json]:
        if run.receipt is not None:
            return 409, {"error": "already completed"}
        pem = next(key for one, key, _ in self.runners.values() if one == body["receipt"]["runner"]["runnerId"])
        keys = {"planePublicKeyPem": self.key.pem, "runnerPublicKeyPem": pem}
        run.receipt = self.key.signed(body["receipt"], "plane")
        bundle = {
            "version": "warrant.bundle.v1",
            "contract": run.contract,
            "receipt": run.receipt,
            "events": run.events,
            "keys": keys,
        }
        if found := problems(bundle):
            self.refused.append(found)
            run.receipt = None
            return 422, {"error": f"receipt does not verify: {found}"}
        run.bundle = bundle
        return 200, {"receipt": run.receipt}


def _handler(plane: OldPlane) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        """The old routes, and no other."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Say that all is well, or give a blob to whoever asks."""
            name = self.path.removeprefix("/v1/blobs/")
            if self.path in {"/v1/health", "/v1/ready"}:
                self._reply(200, {"ok": True, "service": "plane"})
            elif self.path.startswith("/v1/blobs/") and name in plane.blobs:
                self._reply(200, plane.blobs[name])
            else:
                self._reply(404, {"error": "not found"})

        def do_POST(self) -> None:
            """Take a post."""
            data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.path == "/v1/blobs":
                self._reply(200, {"hash": plane.keep(data)})
                return
            with lock:
                status, body = plane.answer(self.path, json.loads(data))
            self._reply(status, body)

        def _reply(self, status: int, body: Json | bytes) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if isinstance(body, dict) and "location" in body:
                self.send_header("Location", body["location"])
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(plane: OldPlane) -> Iterator[OldPlane]:
    """Let a plane answer on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(plane))
    server.daemon_threads = True
    plane.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield plane
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
