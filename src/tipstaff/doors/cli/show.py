"""`tipstaff show`: everything about one run, on one screen.

What ran and what it could reach, who decided and approved, behind which wall and how well each clause held, what it
took and printed, how it ended, and whose signatures stand under it. `--json` leaves nothing out. Of a plane elsewhere
the proof is checked first, with the key that was pinned for it.

Example:
  tipstaff show last
  tipstaff show run_1a2b3c4d --json
"""

import argparse
from collections.abc import Iterator
from typing import Any, Final

from tipstaff.doors.cli.desk import add_run, find, is_refused_request, opened
from tipstaff.doors.cli.history import ended
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.planes import legible, program
from tipstaff.doors.cli.quoting import shown_name
from tipstaff.doors.cli.terms import terms
from tipstaff.doors.cli.wording import command_of, duration, moment, size

Json = dict[str, Any]
DECIDED: Final = {"allow": "allowed", "ask": "allowed once people approve"}

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)


def run(args: argparse.Namespace) -> int:
    """Show it."""
    with opened(args) as plane:
        name = find(plane, args.run)
        told = plane.why(name) if is_refused_request(name) else plane.run(name)
    if args.json:
        emit_json(told)
        return 0
    with legible(args):
        lines = list((refused_lines if is_refused_request(name) else run_lines)(told, program(args)))
    for line in lines:
        say(line)
    return 0


def refused_lines(told: Json, program: str = "tipstaff") -> Iterator[str]:
    """Write out a request that never became a run."""
    yield f"{told['id']} denied, by the policy `{told['policy']}`; nothing was run"
    yield f"  {command_of(told.get('execution'))}"
    yield f"  asked by:  {told['principal']} at {moment(told['createdAt'])} UTC, by the door {told['door']}"
    yield from (f"  {reason}" for reason in told["reasons"])
    yield f"  proof:     a refusal signed by the plane: {program} bundle {told['id']}"


def run_lines(told: Json, program: str = "tipstaff") -> Iterator[str]:
    """Write out a run."""
    receipt = told.get("receipt") or {}
    events = [link["event"] for link in told["events"]]
    yield f"{told['id']} {ended(told)}"
    yield from (f"  {line}" for line in terms(told["contract"]))
    yield from (f"  {line}" for line in _decision(told, events))
    yield from (f"  {line}" for line in _times(told, receipt))
    yield from (f"  {line}" for line in _boundary(told, receipt))
    yield from (f"  {line}" for line in _result(told, receipt, events))
    yield from (f"  {line}" for line in _proof(told, receipt, program))


def _decision(told: Json, events: list[Json]) -> Iterator[str]:
    for event in events:
        match event["type"]:
            case "policy.evaluated":
                yield f"decision:  {DECIDED[event['decision']]}, by the policy `{told['policy']}`: {event['reason']}"
            case "consent.requested":
                yield f"asked for: {event['requirement']}"
            case "consent.granted":
                yield f"approved:  {_approval(event)}"


def _approval(event: Json) -> str:
    approval = event.get("approval") or {}
    who = f"by {event['actor']['id']}"
    return f"{who}, assurance {approval['assurance']}, signed by {approval['keyId']}" if approval else who


def _times(told: Json, receipt: Json) -> Iterator[str]:
    yield f"taken in:  {moment(told['createdAt'])} UTC, by the door {told['door']}"
    if receipt:
        yield f"ended:     {moment(receipt['endedAt'])} UTC"


def _boundary(told: Json, receipt: Json) -> Iterator[str]:
    contract = told["contract"]
    if receipt:
        asked = contract.get("isolation") or "the policy's choice"
        yield f"ran in:    {receipt['runner'].get('isolation', 'process')} (asked for: {asked})"
    for verdict in receipt.get("enforcement", ()):
        yield f"  {verdict['clause']:<11} {verdict['verdict']:<14} {verdict['by']}".rstrip()


def _result(told: Json, receipt: Json, events: list[Json]) -> Iterator[str]:
    usage = receipt.get("usage")
    if usage:
        yield (
            f"took:      {duration(usage['wallMs'])}, {duration(usage['cpuMs'])} of processor time,"
            f" {size(usage['peakMemoryBytes'])} of memory at most"
        )
    for name, stream in receipt.get("streams", {}).items():
        cut = ", of which a part is kept" if stream.get("truncated") else ""
        yield f"{name}:    {stream['bytes']} bytes{cut}, sha256 {stream['sha256']}"
    for event in events:
        if event["type"] == "network.connected":
            yield f"network:   {event['host']} {event['decision']}"
    yield from _changes(receipt, [event for event in events if event["type"] == "file.changed"])
    if told.get("failureMessage"):
        yield f"because:   {told['failureMessage']}"


def _changes(receipt: Json, changes: list[Json]) -> Iterator[str]:
    """Say what happened to each name, and to what is never brought back."""
    for change in changes:
        if change.get("withheld"):
            word, said = "withheld", f"{_status(change)} {_name(change)}: {change['withheld']}"
        elif change.get("ignored"):
            word, said = "ignored", f"{_status(change)} {_name(change)}"
        else:
            word, said = _status(change), _name(change)
        yield f"{word + ':':<10} {said}{' (a secret was in it)' if change.get('redacted') else ''}"
    summary = receipt.get("changes") or {}
    if summary.get("problem"):
        yield f"changes:   {summary['problem']}; nothing of it can be applied"
    elif receipt.get("ending") == "lost":
        yield "changes:   not known, because its runner was lost"


def _status(change: Json) -> str:
    if "from" in change:
        return "renamed"
    status = str(change.get("status", "changed"))  # another writer's events do not say
    return "rights" if status == "mode" else status


def _name(change: Json) -> str:
    name = shown_name(change["path"])
    if "from" in change:
        return f"{shown_name(change['from'])} => {name}"
    if change.get("status") == "mode":
        return f"{name}, {change['baseMode'][-3:]} => {change['mode'][-3:]}"
    return name


def _proof(told: Json, receipt: Json, program: str) -> Iterator[str]:
    document = receipt or told.get("refusal")
    if document is None:
        word = ", and all of this is the plane's word" if told.get("proved") is False else ""
        yield f"proof:     none yet: it has not ended{word}"
        return
    kind = "a receipt" if receipt else "a refusal"
    signers = ", ".join(f"{one['signer']} {one['keyId']}" for one in document.get("signatures", ()))
    yield f"proof:     {kind} over {len(told['events'])} events, signed by {signers}"
    yield f"check it:  {program} bundle {told['id']} | tipstaff verify -"
