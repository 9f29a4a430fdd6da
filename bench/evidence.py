"""How fast a bundle is verified, and whether that stays so from a thousand events to a million."""

import gc
import json
from collections.abc import Iterator
from typing import Any

from bench.figure import Figure, seconds
from tipstaff.evidence import verify
from tipstaff.evidence.chain import chained
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import PrivateKey

EVENT_BYTES = 350
_BARE_BYTES = 350  # such an event with an empty padding, at about the hundred-thousandth place
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TRIES = {1_000: 15, 10_000: 9, 100_000: 4}
PLANE, RUNNER = PrivateKey.from_seed(b"plane".ljust(32)), PrivateKey.from_seed(b"runner".ljust(32))
START, NO_DIGEST = "2026-01-01T00:00:00.000Z", "0" * 64


def figures(sizes: tuple[int, ...] = SIZES) -> Iterator[Figure]:
    """Measure; the rate of the slowest size is the one that counts."""
    rates: dict[int, float] = {}
    size_of_one = 0.0
    for count in sizes:
        data = bundle(count)
        size_of_one = len(data) / count
        rates[count] = count / min(_verify_seconds(data) for _ in range(TRIES.get(count, 2)))
    detail = {"eventBytes": round(size_of_one), "bySize": {str(count): round(rate) for count, rate in rates.items()}}
    yield Figure("verify_events_per_second", min(rates.values()), "events/s", at_least=50_000, detail=detail)
    flatness = rates[sizes[-1]] / rates[sizes[0]]
    yield Figure("verify_flatness", flatness, "rate at the largest size / at the smallest", at_least=0.7)


def _verify_seconds(data: bytes) -> float:
    gc.collect()

    def run() -> None:
        report = verify(data, [PLANE.public])
        if not report.ok:
            raise AssertionError(report.problems[0])

    return seconds(run)


def bundle(count: int) -> bytes:
    """Write a valid bundle with `count` events of about 350 bytes."""
    contract = signed(_contract(), PLANE, "plane")
    first = prev = payload_digest(contract)
    links: list[bytes] = []
    for seq, event in enumerate(_events(count)):
        link = chained(seq, START, prev, event)
        prev = link["hash"]
        links.append(json.dumps(link, separators=(",", ":")).encode())
    receipt = signed(signed(_receipt(first, prev, count), RUNNER, "runner"), PLANE, "plane")
    keys = {"planePublicKeyPem": PLANE.public.pem, "runnerPublicKeyPem": RUNNER.public.pem}
    rest = {"version": "warrant.bundle.v1", "contract": contract, "receipt": receipt, "keys": keys}
    return json.dumps(rest)[:-1].encode() + b',"events":[' + b",".join(links) + b"]}"


def _events(count: int) -> Iterator[dict[str, Any]]:
    yield {"type": "run.created"}
    yield {"type": "run.claimed", "runnerId": "rnr_bench", "runnerKeyId": RUNNER.public.key_id}
    padding = "x" * (EVENT_BYTES - _BARE_BYTES)
    for number in range(count - 3):
        yield {"type": "file.changed", "path": f"{number:07d}{padding}", "contentHash": f"{number:064x}"}
    yield {"type": "run.completed"}


def _contract() -> dict[str, Any]:
    return {
        "version": "warrant.contract.v1",
        "runId": "run_bench",
        "issuedAt": START,
        "issuer": {"keyId": PLANE.public.key_id, "role": "plane"},
        "requestedBy": {"kind": "human", "id": "bench"},
        "agent": {"kind": "command"},
        "task": {"prompt": "true"},
        "runner": {"pool": "default"},
        "workspace": {"version": "warrant.manifest.v1", "baseRef": "bench"},
        "policyHash": NO_DIGEST,
        "secrets": [],
        "network": {"defaultDeny": True, "allowHosts": []},
        "budget": {},
        "disclosure": "full",
        "expiresAt": "2026-01-01T01:00:00.000Z",
    }


def _receipt(contract_hash: str, head: str, count: int) -> dict[str, Any]:
    return {
        "version": "warrant.receipt.v1",
        "runId": "run_bench",
        "contractHash": contract_hash,
        "runner": {
            "runnerId": "rnr_bench",
            "keyId": RUNNER.public.key_id,
            "pool": "default",
            "attestationTier": "mock",
            "isolation": "bwrap",
        },
        "startedAt": START,
        "endedAt": START,
        "status": "completed",
        "eventsHead": head,
        "eventCount": count,
        "workspaceIn": {"baseRef": "bench", "manifestHash": payload_digest(_contract()["workspace"])},
        "workspaceOut": {"diffHash": "", "artifactHashes": []},
        "secretsReleased": [],
        "networkAccessed": [],
        "modelsUsed": [],
        "boundaryDisclosures": [],
    }
