"""From what the plane and the runner say to the one `Outcome` that doors hand out. Reads kept output; else pure."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tipstaff.model.decision import Decision
from tipstaff.model.outcome import Outcome, StreamRecord
from tipstaff.plane import Queued, Refused, Waiting
from tipstaff.runner.loop import Done

Json = dict[str, Any]
REFUSED_EXIT_CODE: Final = 126


def denied(intake: Refused) -> Outcome:
    """Policy said no: there was no run."""
    return Outcome(**_decided(intake.decision), ending="refused", exit_code=REFUSED_EXIT_CODE, refusal=intake.refusal)


def unapproved(intake: Waiting | Queued, run: Json) -> Outcome:
    """The run ended before a runner had it: people said no, nobody said yes in time, or it was stopped."""
    cancelled = run["status"] == "cancelled"
    return Outcome(
        **_decided(intake.decision),
        run_id=intake.run_id,
        ending="cancelled" if cancelled else "refused",
        exit_code=130 if cancelled else REFUSED_EXIT_CODE,
        refusal=run.get("refusal"),
        message=run.get("failureMessage", ""),
    )


def ran(intake: Waiting | Queued, done: Done, read: Callable[[str], bytes] | None) -> Outcome:
    """There is a receipt, whatever it says."""
    receipt, ended = done.receipt, done.ended
    streams = msgspec.convert(receipt.get("streams", {}), dict[str, StreamRecord])
    kept = {name: read(record.kept) for name, record in streams.items() if read is not None and record.kept}
    return Outcome(
        **_decided(intake.decision),
        run_id=intake.run_id,
        ending=ended.ending,
        exit_code=ended.exit_code,
        requested_tier=intake.contract.get("isolation") or intake.contract["tier"],
        tier=receipt["runner"]["isolation"],
        stdout=kept.get("stdout", b""),
        stderr=kept.get("stderr", b""),
        streams=streams,
        refusals=done.refusals,
        changes=tuple(done.changes),
        enforcement=ended.verdicts,
        usage=ended.usage,
        receipt=receipt,
        message=ended.reason,
    )


def _decided(decision: Decision) -> Json:
    return {
        "decision": decision.effect,
        "policy": decision.policy,
        "rules": decision.rules,
        "reasons": tuple(f"{reason.rule}: {reason.message}" for reason in decision.reasons),
    }
