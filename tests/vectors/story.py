"""Tells runs, refusals and journals from fixed keys and times, true ones and well-signed lies.

`Run` is one run as it will be told: its contract, its events, its receipt and who signs, each of which may be another
than the true one before it is signed. A `Vector` is one file with what a verifier has to find in it.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from tipstaff.canonical import digest
from tipstaff.evidence.approval import approve
from tipstaff.evidence.chain import chained
from tipstaff.evidence.records import journal_entry, journal_head, refuse
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import PrivateKey
from tipstaff.model.execution import argv_hash
from tipstaff.model.noun import NO_CONTENT, Actor
from tipstaff.model.records import Refusal

Json = dict[str, Any]
Event = Json | Callable[[str], Json]  # an approval is over the contract's hash, which is known only later
Change = Callable[[Json], object]

PLANE, RUNNER, RUNNER_2, ORG, APPROVER, STRANGER = (PrivateKey.from_seed(bytes([n]) * 32) for n in range(1, 7))
PEOPLE = {
    "plane": PLANE,
    "runner": RUNNER,
    "second-runner": RUNNER_2,
    "org": ORG,
    "approver": APPROVER,
    "stranger": STRANGER,
}
BORIS = {"kind": "human", "id": "boris@example.com"}
RUNNER_ID, RUNNER_2_ID = "rnr_00000000-0000-4000-8000-000000000001", "rnr_00000000-0000-4000-8000-000000000002"
DIFF, LOG = b"--- a\n+++ b\n", b"done\n"
DIFF_HASH, LOG_HASH = sha256(DIFF).hexdigest(), sha256(LOG).hexdigest()
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def at(milliseconds: int) -> str:
    """Spell a time on the first of March."""
    return (MIDNIGHT + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Events

CREATED = {"type": "run.created"}
ALLOWED = {"type": "policy.evaluated", "decision": "allow", "reason": "rule tests"}
ASKED = {"type": "policy.evaluated", "decision": "ask", "reason": "rule deploy"}
REQUESTED = {"type": "consent.requested", "requirement": "one of ops"}
CLAIMED = {"type": "run.claimed", "runnerId": RUNNER_ID, "runnerKeyId": RUNNER.public.key_id}
CLAIMED_2 = {"type": "run.claimed", "runnerId": RUNNER_2_ID, "runnerKeyId": RUNNER_2.public.key_id}
REQUEUED = {"type": "run.requeued"}
SECRET = {"type": "secret.released", "name": "TOKEN", "scope": "session"}
EXECUTED = {"type": "command.executed", "argvHash": argv_hash("make", ("test",)), "exitCode": 0}
CHANGED = {"type": "file.changed", "path": "out.txt", "contentHash": sha256(b"out").hexdigest()}
DIFF_KEPT = {"type": "artifact.created", "kind": "diff", "hash": DIFF_HASH}
DIFF_SENT = {"type": "boundary.crossed", "direction": "out", "contentHash": DIFF_HASH, "dataClass": "code-diff"}
LOG_KEPT = {"type": "artifact.created", "kind": "log", "hash": LOG_HASH}
LOG_SENT = {"type": "boundary.crossed", "direction": "out", "contentHash": LOG_HASH, "dataClass": "session-log"}
ONLINE = {"type": "network.connected", "host": "example.com", "decision": "allowed"}
REACHED_API = {"type": "network.connected", "host": "api.example.com", "decision": "allowed"}
BLOCKED = {"type": "network.connected", "host": "denied.example.com", "decision": "blocked"}
MODEL = {"type": "model.called", "provider": "example", "model": "small-1"}
COMPLETED = {"type": "run.completed"}
FAILED = {"type": "run.failed", "failure": "session_failed", "message": "agent exited with code 1"}
UNFIT = {"type": "run.failed", "failure": "capability_mismatch", "message": "no gvisor on this host"}
CANCELLED = {"type": "run.cancelled", "actor": BORIS}
LOST = {"type": "run.failed", "failure": "runner_lost", "message": "the lease was not renewed"}


def materialized(contract: Json) -> Json:
    """The event that says the workspace stands."""
    return {"type": "workspace.materialized", "manifestHash": digest(contract["workspace"])}


def granted(actor: Json = BORIS, expires: int = 3_600_000, of: str = "", signer: PrivateKey = APPROVER) -> Event:
    """The event that carries a signed approval."""

    def event(contract_hash: str) -> Json:
        signed_by = Actor(kind="human", id=BORIS["id"])
        approval = approve(of or contract_hash, signed_by, signer, "key", at(expires))
        return {"type": "consent.granted", "actor": actor, "approval": approval}

    return event


def altered(event: Event, **fields: Any) -> Event:
    """The same consent with other fields in its approval; None takes one out."""

    def changed(contract_hash: str) -> Json:
        told = event(contract_hash) if callable(event) else event
        approval = {k: v for k, v in {**told["approval"], **fields}.items() if v is not None}
        return {**told, "approval": approval}

    return changed


def granted_without_key(contract_hash: str) -> Json:
    """The event that carries an approval which was signed without its key."""
    told = granted()(contract_hash)  # type: ignore[operator]  # an Event is a call, or what one gives
    bare = {k: v for k, v in told["approval"].items() if k not in {"publicKeyPem", "sig"}}
    return {**told, "approval": {**bare, "sig": APPROVER.sign(digest(bare).encode())}}


# One run

CONTRACT: Json = {
    "version": "warrant.contract.v1",
    "runId": "run_00000000-0000-4000-8000-000000000001",
    "issuedAt": at(0),
    "issuer": {"keyId": PLANE.public.key_id, "role": "plane"},
    "requestedBy": {"kind": "human", "id": "anna@example.com"},
    "agent": {"kind": "command"},
    "task": {"prompt": "make test"},
    "runner": {"pool": "default"},
    "workspace": {
        "version": "warrant.manifest.v1",
        "baseRef": "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00",
        "bundleHash": sha256(b"bundle").hexdigest(),
        "untrackedFiles": [{"path": "notes.txt", "hash": sha256(b"notes").hexdigest(), "bytes": 5}],
        "deniedPatterns": [".env", "*.pem"],
        "deniedPaths": [],
    },
    "policyHash": sha256(b"policy").hexdigest(),
    "secrets": [],
    "network": {"defaultDeny": True, "allowHosts": []},
    "budget": {"maxSpendUsd": 0.5, "maxDurationMin": 10},
    "disclosure": "redacted",
    "execution": {"kind": "argv", "command": "make", "args": ["test"]},
    "expiresAt": at(3_600_000),
}
TREE = {
    "version": "warrant.manifest.v1",
    "kind": "tree",
    "baseRef": "7ee0" * 16,
    "treeHash": sha256(b"tree").hexdigest(),
}
BEFORE = (CREATED, ALLOWED, CLAIMED)
RESULTS = (CHANGED, DIFF_KEPT, DIFF_SENT, LOG_KEPT, LOG_SENT)


@dataclass
class Run:
    """One run as it will be told; whoever changes a part before it is signed tells a well-signed lie."""

    contract: Json = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    times: dict[int, int] = field(default_factory=dict)  # the milliseconds of an event that is not at its usual time
    receipt: Json = field(default_factory=dict)  # other values than the true ones
    links: Change | None = None  # changes the chained events before the receipt names their head
    after: Change | None = None  # changes the bundle when everybody has signed
    plane: PrivateKey = PLANE
    runner: PrivateKey = RUNNER
    runner_id: str = RUNNER_ID
    runner_as: PrivateKey | None = None  # who really signs for the runner
    plane_as: PrivateKey | None = None  # who really countersigns
    org: PrivateKey | None = None
    lost: bool = False
    seen: tuple[int, ...] = ()  # after how many events the plane signed what it had seen
    seen_by: PrivateKey = PLANE
    seen_as: Json = field(default_factory=dict)  # other values than the true ones

    def bundle(self) -> Json:
        """Tell the run: contract, chain, receipt, keys."""
        contract = {**CONTRACT, "issuer": {"keyId": self.plane.public.key_id, "role": "plane"}, **self.contract}
        contract = signed({k: v for k, v in contract.items() if v is not None}, self.plane, "plane")
        contract = signed(contract, self.org, "org") if self.org else contract
        links = self._chain(contract)
        document: Json = {
            "version": "warrant.bundle.v1",
            "contract": contract,
            "receipt": self._receipt(contract, links),
            "events": links,
            "keys": {"planePublicKeyPem": self.plane.public.pem, "runnerPublicKeyPem": self.runner.public.pem},
        }
        if self.org:
            document["keys"]["orgPublicKeyPem"] = self.org.public.pem
        if self.lost:
            del document["keys"]["runnerPublicKeyPem"]
        document = deepcopy(document)  # what is changed below is this bundle's own
        if self.after:
            self.after(document)
        return document

    def _chain(self, contract: Json) -> list[Json]:
        manifest = {**CONTRACT, **contract}
        events = self.events or (*BEFORE, materialized(manifest), EXECUTED, *RESULTS, COMPLETED)
        first = prev = payload_digest(contract)
        links: list[Json] = []
        for seq, told in enumerate(events):
            event = told(first) if callable(told) else deepcopy(told)
            links.append(chained(seq, at(self.times.get(seq, 100 + 10 * seq)), prev, event))
            prev = links[-1]["hash"]
        if self.links:
            self.links({"events": links})
        return links

    def _receipt(self, contract: Json, links: list[Json]) -> Json:
        said = [(link["ts"], link["event"]) for link in links]
        checkpoints = {"checkpoints": self._checkpoints(contract, links)} if self.seen else {}
        receipt = {**self._facts(contract, links), **_copies(said), **checkpoints, **self.receipt}
        receipt = {k: v for k, v in receipt.items() if v is not None}
        if not self.lost:
            receipt = _signed_as(receipt, self.runner, self.runner_as, "runner")
        return _signed_as(receipt, self.plane, self.plane_as, "plane")

    def _facts(self, contract: Json, links: list[Json]) -> Json:
        ending = {"run.completed": "completed", "run.cancelled": "cancelled"}.get(links[-1]["event"]["type"], "failed")
        return {
            "version": "warrant.receipt.v1",
            "runId": contract["runId"],
            "contractHash": payload_digest(contract),
            "runner": self.identity(),
            "startedAt": links[0]["ts"],
            "endedAt": max(link["ts"] for link in links),
            "status": ending,
            "eventsHead": links[-1]["hash"],
            "eventCount": len(links),
            "workspaceIn": {
                "baseRef": contract["workspace"]["baseRef"],
                "manifestHash": digest(contract["workspace"]),
            },
            "ending": "lost" if self.lost else None,
        }

    def _checkpoints(self, contract: Json, links: list[Json]) -> list[Json]:
        return [
            _signed_as(
                {
                    "version": "tipstaff.checkpoint.v1",
                    "runId": contract["runId"],
                    "contractHash": payload_digest(contract),
                    "eventCount": count,
                    "eventsHead": links[count - 1]["hash"],
                    "ts": links[count - 1]["ts"],
                    **self.seen_as,
                },
                PLANE,
                self.seen_by,
                "plane",
            )
            for count in self.seen
        ]

    def identity(self, **fields: Any) -> Json:
        """The receipt's word on its runner."""
        true = {"runnerId": self.runner_id, "keyId": self.runner.public.key_id, "pool": "default"}
        return {**true, "attestationTier": "mock", "isolation": "bwrap", **fields}


def _copies(said: list[tuple[str, Json]]) -> Json:
    """What a true receipt says again from its events."""

    def of(kind: str, *names: str) -> list[Json]:
        return [{name: event[name] for name in names} for _, event in said if event["type"] == kind]

    def once(items: list[Json]) -> list[Json]:
        return list({digest(item): item for item in items}.values())

    diffs = [event["hash"] for _, event in said if event.get("kind") == "diff"]
    return {
        "workspaceOut": {
            "diffHash": diffs[0] if diffs else "",
            "artifactHashes": [item["hash"] for item in of("artifact.created", "hash")],
        },
        "secretsReleased": [
            {"name": event["name"], "scope": event["scope"], "ts": ts}
            for ts, event in said
            if event["type"] == "secret.released"
        ],
        "networkAccessed": once(of("network.connected", "host", "decision")),
        "modelsUsed": once(of("model.called", "provider", "model")),
        "boundaryDisclosures": of("boundary.crossed", "direction", "contentHash", "dataClass"),
    }


def _signed_as(document: Json, key: PrivateKey, really: PrivateKey | None, role: Any) -> Json:
    """Sign; when somebody else really signs, the signature still names `key`."""
    result = signed(document, really or key, role)
    result["signatures"][-1]["keyId"] = key.public.key_id
    return result


# Refusals and journals


def refusal(**fields: Any) -> Json:
    """A signed denial."""
    true: Json = {
        "version": "tipstaff.refusal.v1",
        "id": "ref_00000000-0000-4000-8000-000000000001",
        "ts": at(50),
        "request_hash": sha256(b"request").hexdigest(),
        "policy_hash": sha256(b"policy").hexdigest(),
        "principal": "anna@example.com",
        "door": "cli",
        "rules": ["no-network"],
        "reasons": ["rule no-network: hosts are not allowed"],
    }
    return refuse(Refusal(**true), PLANE) | fields


def refusal_with(**fields: Any) -> Json:
    """A denial that its writer signed with more fields than this version knows."""
    return signed(_unsigned(refusal()) | fields, PLANE, "plane")


def journal(count: int = 3, key: PrivateKey = PLANE) -> Json:
    """A journal with a few entries and its signed head."""
    entries: list[Json] = []
    for seq in range(count):
        prev = entries[-1]["hash"] if entries else NO_CONTENT
        kind: Any = ("refusal", "contract", "receipt")[seq % 3]
        entries.append(journal_entry(seq, prev, at(1000 * seq), kind, sha256(kind.encode()).hexdigest()))
    return _journal(entries, key)


def journal_with(**fields: Any) -> Json:
    """A journal whose one entry has more fields than this version knows."""
    entry = {"seq": 0, "prev": NO_CONTENT, "ts": at(0), "kind": "refusal", "digest": NO_CONTENT, **fields}
    return _journal([{**entry, "hash": digest(entry)}], PLANE)


def journal_by_receipt() -> Json:
    """A journal of one invented entry, with a receipt for its head that a runner wrote so and the plane signed."""
    entry = journal_entry(0, NO_CONTENT, at(0), "receipt", NO_CONTENT)
    receipt = Run(receipt={"seq": 0, "hash": entry["hash"], "ts": at(9000)}).bundle()["receipt"]
    head = {**receipt, "signatures": [one for one in receipt["signatures"] if one["signer"] == "plane"]}
    return {"version": "tipstaff.journal.v1", "entries": [entry], "head": head}


def older_journal() -> Json:
    """A journal whose head has no version, as older ones."""
    true = journal()
    head = {name: value for name, value in _unsigned(true["head"]).items() if name != "version"}
    return {**true, "head": signed(head, PLANE, "plane")}


def head_with(**fields: Any) -> Json:
    """A head that the plane signed with more fields than a head has, or others."""
    return signed({**_unsigned(journal()["head"]), **fields}, PLANE, "plane")


def _journal(entries: list[Json], key: PrivateKey) -> Json:
    head = _signed_as(_unsigned(journal_head(entries[-1], at(9000), PLANE)), PLANE, key, "plane")
    return {"version": "tipstaff.journal.v1", "entries": entries, "head": head}


def _unsigned(document: Json) -> Json:
    return {k: v for k, v in document.items() if k != "signatures"}


# What is true of it


@dataclass
class Vector:
    """One file, and what is true of it."""

    name: str
    about: str
    content: Run | Json | str
    problems: tuple[int, ...] = ()
    pin: tuple[str, ...] = ("plane",)
    known: tuple[Json, ...] = ()
    artifacts: dict[str, str] | None = None

    @property
    def text(self) -> str:
        """The file's content."""
        if isinstance(self.content, str):
            return self.content
        document = self.content.bundle() if isinstance(self.content, Run) else self.content
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    def entry(self, verdict: str) -> Json:
        """The file's line in the index."""
        entry: Json = {"about": self.about, "verdict": verdict, "problems": list(self.problems), "pin": list(self.pin)}
        if self.known:
            entry["known"] = list(self.known)
        if self.artifacts is not None:
            entry["artifacts"] = self.artifacts
        return entry


def known(person: str, role: str, **fields: str) -> Json:
    """An entry of a known-keys file; an approver's is in the name of the one who approves here."""
    called = BORIS["id"] if role == "approver" else person
    return {"publicKeyPem": PEOPLE[person].public.pem, "role": role, "name": called, **fields}
