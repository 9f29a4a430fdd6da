"""What `tipstaff run` says of its own: the decision, what was refused, where the receipt is; or one JSON object."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from tipstaff.doors.cli.output import complain, emit_json
from tipstaff.model.noun import to_wire
from tipstaff.model.outcome import Outcome

Json = dict[str, Any]
HERE: Final = "tipstaff"  # a program that speaks to the plane of this home
NAMED: Final = 5  # names that one line tells
DECIDED: Final = {"allow": "allowed", "ask": "allowed after approval", "deny": "denied"}
ENDED: Final = {
    "signalled": "was ended by a signal",
    "timed-out": "was ended because its time was over",
    "out-of-memory": "was ended because its memory was used up",
    "disk-limit": "was ended because it wrote too much",
    "output-limit": "was ended because it printed too much",
    "cancelled": "was stopped",
    "setup-failed": "could not be started",
    "lost": "was lost",
}


def tell(outcome: Outcome, *, quiet: bool = False, program: str = HERE) -> None:
    """Say how it went on stderr, with advice that begins with `program`; a refusal is never silent."""
    said = _refused if outcome.ending in {"refused", "setup-failed"} else _refused_inside if quiet else _ran
    for line in said(outcome, program):
        mention(line)


def mention(line: str) -> None:
    """Say a line to people, if there is anybody to hear it: what happens does not depend on that."""
    with suppress(OSError):
        complain(line)


def _ran(outcome: Outcome, program: str) -> Iterator[str]:
    yield f"tipstaff: {DECIDED[outcome.decision]} by {', '.join(outcome.rules)} of policy {outcome.policy}" + (
        f", tier {outcome.tier}" if outcome.tier else ""
    )
    yield from _refused_inside(outcome, program)
    yield f"tipstaff: {outcome.run_id} {_ending(outcome)}; {_place(outcome, program)}"
    yield from _changed(outcome, program)


def _changed(outcome: Outcome, program: str) -> Iterator[str]:
    """Say what it changed, and that nothing of it is on the host."""
    summary = (outcome.receipt or {}).get("changes") or {}
    if summary.get("problem"):
        yield f"tipstaff: {summary['problem']}; nothing of it can be applied"
        return
    count = sum(not (change.get("ignored") or change.get("withheld")) for change in outcome.changes)
    if count:
        files, run = "1 file" if count == 1 else f"{count} files", outcome.run_id
        yield f"tipstaff: {files} changed, in a copy: {program} diff {run}, then: {program} apply {run}"
    yield from _edited(outcome, summary.get("edited", ()))


def _edited(outcome: Outcome, edited: Sequence[Json]) -> Iterator[str]:
    """Name what somebody edited while it ran: apply refuses that."""
    ours = (change for change in outcome.changes if not (change.get("ignored") or change.get("withheld")))
    changed = {(change["path"], change.get("pathBytes")) for change in ours}
    both = [one["path"] for one in edited if (one["path"], one.get("pathBytes")) in changed]
    if both:
        listed = ", ".join(both[:NAMED]) + (f" and {len(both) - NAMED} more" if len(both) > NAMED else "")
        yield f"tipstaff: edited here while it ran, so apply will refuse to write over it: {listed}"


def _refused_inside(outcome: Outcome, _program: str) -> Iterator[str]:
    yield from (f"tipstaff: refused while it ran: {refusal}" for refusal in outcome.refusals)


def _refused(outcome: Outcome, program: str) -> Iterator[str]:
    if outcome.ending == "setup-failed":
        yield f"tipstaff: {outcome.run_id} {_ending(outcome)}; {_place(outcome, program)}"
        if not _started(outcome) and program == HERE:
            yield "tipstaff: next: tipstaff doctor says what this machine lacks, and how to mend it"
        return
    if outcome.decision == "deny":
        yield f"tipstaff: denied by policy {outcome.policy}; nothing was run"
        yield from (f"tipstaff:   {reason}" for reason in outcome.reasons)
    else:
        why = "was not approved" if outcome.decision == "ask" else "could not have what it asked for"
        yield f"tipstaff: {outcome.run_id} {why}; nothing was run"
        yield from (f"tipstaff:   {reason}" for reason in (outcome.message, *outcome.reasons) if reason)
    named = (outcome.refusal or {}).get("id") or outcome.run_id
    yield f"tipstaff: next: {program} why {named} (a signed refusal is kept), or: tipstaff policy explain --help"


def _ending(outcome: Outcome) -> str:
    if outcome.ending == "setup-failed" and _started(outcome):
        return f"ran, but {outcome.message}"
    said = f"exited {outcome.exit_code}" if outcome.ending == "exited" else ENDED.get(outcome.ending, outcome.ending)
    return f"{said} ({outcome.message})" if outcome.message else said


def _started(outcome: Outcome) -> bool:
    """Say whether the command ran, whatever became of it."""
    return "executionStartedAt" in (outcome.receipt or {})


def _place(outcome: Outcome, program: str) -> str:
    if outcome.receipt is None:
        return f"no receipt, but a signed refusal: {program} why {outcome.run_id}"
    return f"receipt: {program} show {outcome.run_id}"


def emit(outcome: Outcome) -> None:
    """Print everything as one JSON object."""
    emit_json(as_json(outcome))


def as_json(outcome: Outcome) -> Json:
    """Spell an outcome for a machine."""
    return {
        "runId": outcome.run_id,
        "decision": outcome.decision,
        "policy": outcome.policy,
        "rules": list(outcome.rules),
        "reasons": list(outcome.reasons),
        "tier": outcome.tier,
        "requestedTier": outcome.requested_tier,
        "ending": outcome.ending,
        "exitCode": outcome.exit_code,
        "message": outcome.message,
        **_text("stdout", outcome.stdout),
        **_text("stderr", outcome.stderr),
        "truncated": any(stream.truncated for stream in outcome.streams.values()),
        "streams": {name: to_wire(stream) for name, stream in outcome.streams.items()},
        "refusals": list(outcome.refusals),
        "changes": list(outcome.changes),
        "enforcement": [to_wire(verdict) for verdict in outcome.enforcement],
        "usage": to_wire(outcome.usage) if outcome.usage is not None else None,
        "receipt": outcome.receipt,
        "refusal": outcome.refusal,
    }


def _text(name: str, data: bytes) -> Json:
    """Spell output as text; bytes that are none stand beside it in base64, so that nothing is lost."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: data.decode(errors="replace"), f"{name}Base64": base64.b64encode(data).decode()}
