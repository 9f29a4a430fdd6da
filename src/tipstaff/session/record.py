"""The receipt of one session, unsigned: what the events say, and what only the runner saw.

The copies (secrets, hosts, artifacts …) are folded from the chain itself, so that they cannot differ from it. Pure.
"""

from typing import Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.copies import copies
from tipstaff.isolation.tier import Ended
from tipstaff.model.events import FailureClass
from tipstaff.model.noun import VERSION_RECEIPT, to_wire
from tipstaff.model.outcome import StreamRecord
from tipstaff.model.receipt import Ending
from tipstaff.model.tiers import STRENGTHS, Verdict

Json = dict[str, Any]

FAILURES: Final[dict[Ending, FailureClass]] = {
    "exited": "session_failed",
    "signalled": "session_failed",
    "timed-out": "budget_exceeded",
    "out-of-memory": "budget_exceeded",
    "disk-limit": "budget_exceeded",
    "output-limit": "budget_exceeded",
    "setup-failed": "capability_mismatch",
}
_SENTENCES: Final[dict[Ending, str]] = {
    "timed-out": "the time was up",
    "out-of-memory": "the limit on memory was reached",
    "disk-limit": "the limit on disk was reached",
    "output-limit": "the limit on output was reached",
}


class Account(msgspec.Struct, frozen=True):
    """What only the runner saw of a run."""

    ended: Ended
    tier: str
    streams: dict[str, StreamRecord]
    executed_at: str  # empty when no command ran
    ended_at: str
    host: Json
    changes: Json | None = None  # what it changed in its workspace, in short
    leaks: list[Json] | None = None  # secrets that were found in output and records; None where there were none to find


def failure_message(ended: Ended) -> str:
    """Say in a sentence why a run did not end well."""
    if ended.reason:
        return ended.reason
    return _SENTENCES.get(ended.ending) or f"agent exited with code {ended.exit_code}"


def too_weak(demands: list[Json], verdicts: tuple[Verdict, ...]) -> str:
    """Say which demand of the contract the sandbox does not meet, or nothing; silence is not enforcement."""
    found = {verdict.clause: verdict for verdict in verdicts}
    problems = []
    for demand in demands:
        verdict = found.get(demand["clause"])
        strength = verdict.strength if verdict else "unenforceable"
        if STRENGTHS.index(strength) < STRENGTHS.index(demand["strength"]):
            how = f" ({verdict.by})" if verdict and verdict.by else ""
            problems.append(f"{demand['clause']} is {strength}{how}, the contract demands {demand['strength']}")
    return f"the sandbox does not hold what the contract demands: {'; '.join(problems)}" if problems else ""


def receipt_of(contract: Json, chain: Chain, account: Account) -> Json:
    """Write the receipt, without signatures."""
    if chain.claimed is None:
        raise ValueError("a run that nobody claimed has no receipt")
    ended = account.ended
    receipt = {
        "version": VERSION_RECEIPT,
        "runId": contract["runId"],
        "contractHash": chain.genesis,  # which the runner has seen to be the contract's
        "runner": {
            "runnerId": chain.claimed.runner_id,
            "keyId": chain.claimed.runner_key_id,
            "pool": contract["runner"]["pool"],
            "attestationTier": "mock",
            "isolation": account.tier,
        },
        "startedAt": chain.first_time,
        "endedAt": account.ended_at,
        "status": status_of(ended),
        "ending": ended.ending,
        "exitCode": ended.exit_code,
        "eventsHead": chain.head,
        "eventCount": chain.count,
        "workspaceIn": {
            "baseRef": contract["workspace"]["baseRef"],
            "manifestHash": digest(contract["workspace"]),
        },
        "enforcement": [
            {"clause": verdict.clause, "verdict": verdict.strength, "by": verdict.by} for verdict in ended.verdicts
        ],
        "host": account.host,
        "streams": {name: _spelled(record) for name, record in account.streams.items()},
        "usage": to_wire(ended.usage),
        **copies(chain),
    }
    receipt |= {"executionStartedAt": account.executed_at} if account.executed_at else {}
    receipt |= {"changes": account.changes} if account.changes is not None else {}
    return receipt if account.leaks is None else receipt | {"leaks": account.leaks}


def status_of(ended: Ended) -> str:
    """Give the protocol's word for how a run ended."""
    if ended.ending == "cancelled":
        return "cancelled"
    return "completed" if (ended.ending, ended.exit_code) == ("exited", 0) else "failed"


def _spelled(record: StreamRecord) -> Json:
    said: Json = msgspec.to_builtins(record)
    return {name: value for name, value in said.items() if value is not None}
