"""From what a plane says and proves to the one `Outcome` that doors hand out. Pure.

Whatever is told of a run that ended is read from its bundle, which was checked before; only the decision and the name
of the policy are the plane's own words.
"""

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from tipstaff.errors import InputError
from tipstaff.model.outcome import Outcome, StreamRecord, Usage
from tipstaff.model.receipt import Ending
from tipstaff.model.tiers import Verdict

if TYPE_CHECKING:
    from tipstaff.model.decision import Effect

Json = dict[str, Any]
REFUSED_EXIT_CODE: Final = 126
CANCELLED_EXIT_CODE: Final = 130
_EFFECTS: Final = ("allow", "ask", "deny")


class Decided:
    """What the plane said when it took a request in, or refused it."""

    def __init__(self, said: Json) -> None:
        effect = said.get("decision", "ask" if said.get("consentRequirements") else "allow")
        effect = effect.get("effect") if isinstance(effect, dict) else effect
        self.effect = cast("Effect", effect if effect in _EFFECTS else "allow")
        self.policy = said["policy"] if isinstance(said.get("policy"), str) else ""
        self.rules = _texts(said.get("rules"))
        self.reasons = _texts(said.get("reasons"))

    def fields(self) -> Json:
        """Give the fields of an outcome that say so."""
        return {"decision": self.effect, "policy": self.policy, "rules": self.rules, "reasons": self.reasons}


def denied(said: Json) -> Outcome:
    """Policy said no: there was no run."""
    refusal = said.get("refusal")
    return Outcome(
        **{**Decided(said).fields(), "decision": "deny"},
        ending="refused",
        exit_code=REFUSED_EXIT_CODE,
        refusal=refusal if isinstance(refusal, dict) else None,
    )


def unapproved(decided: Decided, run: Json) -> Outcome:
    """The run ended before a runner had it: people said no, nobody said yes in time, or it was stopped."""
    cancelled = run["status"] == "cancelled"
    message = run.get("failureMessage", "")
    return Outcome(
        **decided.fields(),
        run_id=run["id"],
        ending="cancelled" if cancelled else "refused",
        exit_code=CANCELLED_EXIT_CODE if cancelled else REFUSED_EXIT_CODE,
        refusal=run.get("refusal"),
        message=message if isinstance(message, str) else "",
    )


def ran(decided: Decided, bundle: Json, output: dict[str, bytes]) -> Outcome:
    """There is a receipt, whatever it says."""
    receipt, contract = bundle["receipt"], bundle["contract"]
    events = [link["event"] for link in bundle["events"]]
    ending, exit_code = _ending(receipt, events)
    return Outcome(
        **decided.fields(),
        run_id=receipt["runId"],
        ending=ending,
        exit_code=exit_code,
        requested_tier=contract.get("isolation") or contract.get("tier"),
        tier=receipt["runner"].get("isolation", "process"),
        stdout=output.get("stdout", b""),
        stderr=output.get("stderr", b""),
        streams=streams_of(receipt),
        refusals=tuple(dict.fromkeys(_refused(event) for event in events if _is_refusal(event))),
        changes=tuple(_change(event) for event in events if event["type"] == "file.changed"),
        enforcement=_verdicts(receipt),
        usage=_usage(receipt),
        receipt=receipt,
        message="" if ending == "exited" else _message(events),
    )


def streams_of(receipt: Json) -> dict[str, StreamRecord]:
    """Read what the receipt says of each stream."""
    try:
        return msgspec.convert(receipt.get("streams", {}), dict[str, StreamRecord])
    except msgspec.ValidationError as error:
        raise InputError(f"the receipt does not say what the run printed: {error}") from error


def _ending(receipt: Json, events: list[Json]) -> tuple[Ending, int]:
    """Read how it ended; another implementation's receipt says only whether."""
    executed = next((event for event in events if event["type"] == "command.executed"), {})
    code = receipt.get("exitCode", executed.get("exitCode"))
    if receipt["status"] == "cancelled":
        return "cancelled", CANCELLED_EXIT_CODE if type(code) is not int else code
    ending = receipt.get("ending") or ("exited" if executed else "setup-failed")
    usual = 0 if receipt["status"] == "completed" else 125
    return cast("Ending", ending), code if type(code) is int else usual


def _verdicts(receipt: Json) -> tuple[Verdict, ...]:
    listed = receipt.get("enforcement", ())
    try:
        said = [{"clause": one["clause"], "strength": one["verdict"], "by": one.get("by", "")} for one in listed]
        return msgspec.convert(said, tuple[Verdict, ...])
    except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise InputError("the receipt does not say what was enforced") from error


def _usage(receipt: Json) -> Usage | None:
    try:
        return msgspec.convert(receipt["usage"], Usage) if receipt.get("usage") else None
    except msgspec.ValidationError as error:
        raise InputError(f"the receipt does not say what the run took: {error}") from error


def _is_refusal(event: Json) -> bool:
    return event["type"] == "network.connected" and event.get("decision") == "blocked"


def _refused(event: Json) -> str:
    place = f"{event.get('host')}:{event['port']}" if "port" in event else str(event.get("host"))
    return f"{place}: {event['reason']}" if event.get("reason") else place


def _change(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "type"}


def _message(events: list[Json]) -> str:
    last = events[-1] if events else {}
    message = last.get("message", "")
    return message if isinstance(message, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    """Take sentences; a reason may also be an object with its rule."""
    spelled = [_sentence(one) for one in value] if isinstance(value, list) else []
    return tuple(one for one in spelled if one)


def _sentence(value: Any) -> str:
    if isinstance(value, dict):
        rule, message = value.get("rule"), value.get("message")
        return f"{rule}: {message}" if isinstance(rule, str) and isinstance(message, str) else ""
    return value if isinstance(value, str) else ""
