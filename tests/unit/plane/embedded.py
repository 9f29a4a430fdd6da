"""A plane with fixed keys over a real store, and an honest runner for it; the tests' children use it too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.policy.conftest import open_policy
from tipstaff.canonical import digest
from tipstaff.evidence.chain import Chain, chained
from tipstaff.evidence.copies import copies
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.keys import PrivateKey
from tipstaff.model.execution import argv_hash
from tipstaff.model.times import timestamp
from tipstaff.plane import Authority, Plane
from tipstaff.policy import Policy
from tipstaff.store import Store

Json = dict[str, Any]
PLANE, RUNNER, APPROVER, STRANGER = (PrivateKey.from_seed(bytes([n]) * 32) for n in range(1, 5))
START = 1_772_323_200_000  # the first of March 2026
ANNA = {"kind": "human", "id": "anna@example.com"}
BORIS = {"kind": "human", "id": "boris@example.com"}
REQUEST: Json = {"requestedBy": ANNA, "execution": {"kind": "argv", "command": "make", "args": ["test"]}}
KNOWS = ["release", "renew"]
ASKING = {
    "rules": [{"id": "ask-boris", "effect": "ask", "when": "any", "approvals": {"approvers": ["boris@example.com"]}}]
}


class FakeClock:
    """A clock that stands until it is moved, in whatever direction."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Counter:
    """Randomness that can be repeated, and never gives the same twice."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return bytes.fromhex(digest([self._seed, self._count]))[:size]


class Embedded:
    """A plane, its store and its clock."""

    def __init__(self, folder: Path, *, policy: Policy | None = None, owner: str = "", **means: Any) -> None:
        self.folder = folder
        self.clock: Callable[[], int] = means.pop("clock", None) or FakeClock()
        self.store = Store(folder)
        self.owner = self.store.owners.take(owner) if owner else None
        self.authority = Authority(
            store=self.store,
            key=means.pop("key", PLANE),
            policy=policy or open_policy(),
            clock=self.clock,
            random=means.pop("random", None) or Counter(),
            owner=self.owner,
            **means,
        )
        self.plane = Plane(self.authority)
        self.token = self.plane.enroll(RUNNER.public.pem, "default")["runnerToken"]

    def submit(self, **fields: Any) -> str:
        """Queue a run."""
        outcome = self.plane.submit({**REQUEST, **fields})
        run_id = getattr(outcome, "run_id", None)
        assert isinstance(run_id, str), outcome
        return run_id

    def claim(self, **fields: Any) -> Json:
        """Claim as our own runner does."""
        return self.plane.claim({"runnerToken": self.token, "pool": "default", "knows": KNOWS, **fields})

    def close(self) -> None:
        """End as a process that ends well does."""
        self.store.close()
        if self.owner:
            self.owner.release()


def follow(claim: Json, events: list[Json], now: int) -> list[Json]:
    """Chain a runner's events behind those of its claim; the claim then holds them too."""
    links = []
    for event in events:
        last = claim["events"][-1]
        links.append(chained(last["seq"] + 1, timestamp(now), last["hash"], event))
        claim["events"].append(links[-1])
    return links


def materialized(claim: Json) -> Json:
    """The event that says the workspace stands."""
    return {"type": "workspace.materialized", "manifestHash": digest(claim["contract"]["workspace"])}


def executed(exit_code: int = 0) -> Json:
    """The event that says the command ran."""
    return {"type": "command.executed", "argvHash": argv_hash("make", ("test",)), "exitCode": exit_code}


COMPLETED: Json = {"type": "run.completed"}


def receipt(claim: Json, now: int, status: str = "completed", key: PrivateKey = RUNNER, **fields: Any) -> Json:
    """Write and sign the receipt that a claim's events amount to."""
    contract, events = claim["contract"], claim["events"]
    chain = Chain(Findings())
    for link in events:
        chain.add(link)
    assert chain.claimed is not None
    document = {
        "version": "warrant.receipt.v1",
        "runId": claim["runId"],
        "contractHash": payload_digest(contract),
        "runner": {
            "runnerId": chain.claimed.runner_id,
            "keyId": key.public.key_id,
            "pool": contract["runner"]["pool"],
            "attestationTier": "mock",
            "isolation": contract["tier"],
        },
        "startedAt": events[0]["ts"],
        "endedAt": timestamp(now),
        "status": status,
        "ending": "exited",
        "eventsHead": events[-1]["hash"],
        "eventCount": len(events),
        "workspaceIn": {
            "baseRef": contract["workspace"]["baseRef"],
            "manifestHash": digest(contract["workspace"]),
        },
        **copies(chain),
        **fields,
    }
    return signed(document, key, "runner")


def carry_out(site: Embedded, claim: Json, step: Callable[[str], object] = str) -> Json:
    """Do what an honest runner does with a claim; `step` is told before each step."""
    step("materialize")
    now = site.clock()
    site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], now), release=True)
    step("execute")
    events = follow(claim, [executed(), COMPLETED], now)
    step("complete")
    done: Json = site.plane.complete(claim["claimToken"], receipt(claim, now), events)["receipt"]
    step("completed")
    return done
