"""The protocol's bytes, hashes, keys and checks, written again from its text: nothing of the project takes part.

What the tests of this folder hold the program against. Canonical JSON by `rfc8785`, Ed25519 by `cryptography`.
"""

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

Json = dict[str, Any]
ENDS = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
VERSIONS = {"contract": "warrant.contract.v1", "receipt": "warrant.receipt.v1"}


def hash_of(value: Any) -> str:
    """H(x)."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def payload(document: Json) -> str:
    """H(object without "signatures")."""
    return hash_of({name: value for name, value in document.items() if name != "signatures"})


def key_id(pem: str) -> str:
    """Name a key by its text."""
    return f"ed25519:{hashlib.sha256(pem.strip().encode()).hexdigest()[:16]}"


def now() -> str:
    """The time as the wire has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OldKey:
    """A key pair of a peer."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        public = self._private.public_key()
        self.pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        self.key_id = key_id(self.pem)

    def signed(self, document: Json, signer: str) -> Json:
        """Add a signature to a document."""
        sig = base64.b64encode(self._private.sign(payload(document).encode())).decode()
        mine = {"keyId": self.key_id, "alg": "ed25519", "signer": signer, "sig": sig}
        return {**document, "signatures": [*document.get("signatures", []), mine]}


def signed_by(document: Json, signer: str, pem: str) -> bool:
    """Say whether `signer` signed it with this key."""
    public = load_pem_public_key(pem.encode())
    assert isinstance(public, Ed25519PublicKey)
    found = [one for one in document["signatures"] if one["signer"] == signer and one["keyId"] == key_id(pem)]
    try:
        for one in found:
            public.verify(base64.b64decode(one["sig"]), payload(document).encode())
    except InvalidSignature:
        return False
    return len(found) == 1


class OldChain:
    """A chain of events, from what somebody else wrote of it onwards."""

    def __init__(self, links: list[Json]) -> None:
        self.links = list(links)

    def add(self, kind: str, /, **fields: Any) -> Json:
        """Add one event of this type."""
        said: Json = {"seq": len(self.links), "ts": now(), "prev": self.links[-1]["hash"]}
        said["event"] = {"type": kind, **fields}
        self.links.append({"version": "warrant.event.v1", **said, "hash": hash_of(said)})
        return self.links[-1]

    def of(self, kind: str) -> list[Json]:
        """Give the links of one type."""
        return [link for link in self.links if link["event"]["type"] == kind]


def problems(bundle: Json) -> list[int]:
    """Give the numbers of the fourteen checks that do not hold, in the protocol's order."""
    return [number for number, holds in enumerate(CHECKS, start=1) if not holds(bundle)]


def _versions(bundle: Json) -> bool:
    known = bundle["version"] == "warrant.bundle.v1"
    known &= all(bundle[name]["version"] == version for name, version in VERSIONS.items())
    return known and all(link["version"] == "warrant.event.v1" for link in bundle["events"])


def _runner_key(bundle: Json) -> bool:
    return bool(bundle["receipt"]["runner"]["keyId"] == key_id(bundle["keys"]["runnerPublicKeyPem"]))


def holds_together(bundle: Json) -> bool:
    """Say whether the events are one chain from the contract's hash."""
    prev = payload(bundle["contract"])
    for seq, link in enumerate(bundle["events"]):
        said = {name: link[name] for name in ("seq", "ts", "prev", "event")}
        if (link["seq"], link["prev"], link["hash"]) != (seq, prev, hash_of(said)):
            return False
        prev = link["hash"]
    return True


def _workspace(bundle: Json) -> bool:
    manifest = bundle["contract"]["workspace"]
    said = bundle["receipt"]["workspaceIn"]
    return bool((said["baseRef"], said["manifestHash"]) == (manifest["baseRef"], hash_of(manifest)))


def _secrets(bundle: Json) -> bool:
    released = [link for link in bundle["events"] if link["event"]["type"] == "secret.released"]
    told = [{"name": one["event"]["name"], "scope": one["event"]["scope"], "ts": one["ts"]} for one in released]
    return bool(bundle["receipt"]["secretsReleased"] == told)


def _diff(bundle: Json) -> bool:
    wanted = bundle["receipt"]["workspaceOut"]["diffHash"]
    events = [link["event"] for link in bundle["events"]]
    made = [one["hash"] for one in events if one["type"] == "artifact.created" and one["kind"] == "diff"]
    return not wanted or wanted in made


CHECKS: tuple[Callable[[Json], bool], ...] = (
    _versions,
    lambda bundle: signed_by(bundle["contract"], "plane", bundle["keys"]["planePublicKeyPem"]),
    lambda bundle: bundle["receipt"]["runId"] == bundle["contract"]["runId"],
    lambda bundle: bundle["receipt"]["contractHash"] == payload(bundle["contract"]),
    _runner_key,
    lambda bundle: bundle["receipt"]["runner"]["pool"] == bundle["contract"]["runner"]["pool"],
    lambda bundle: signed_by(bundle["receipt"], "runner", bundle["keys"]["runnerPublicKeyPem"]),
    holds_together,
    lambda bundle: (
        (bundle["receipt"]["eventsHead"], bundle["receipt"]["eventCount"])
        == (bundle["events"][-1]["hash"], len(bundle["events"]))
    ),
    lambda bundle: ENDS.get(bundle["events"][-1]["event"]["type"]) == bundle["receipt"]["status"],
    _workspace,
    _secrets,
    _diff,
    lambda bundle: signed_by(bundle["receipt"], "plane", bundle["keys"]["planePublicKeyPem"]),
)
