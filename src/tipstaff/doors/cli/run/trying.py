"""`tipstaff run --dry-run`: what would run, under which rules, and what would leave this machine; nothing runs.

To a plane elsewhere goes the request alone, without contents: it says what it would decide. What is shown as leaving is
counted here, from what would be sent, and not taken from anybody's word.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.quoting import quoted, spelled
from tipstaff.doors.cli.wording import size

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tipstaff.doors.asking import Asked
    from tipstaff.doors.elsewhere import Errand
    from tipstaff.home import Home
    from tipstaff.local.embedded import Local
    from tipstaff.policy import Policy
    from tipstaff.remote.plane import RemotePlane
    from tipstaff.remote.sending import Item, Parcel

Json = dict[str, Any]
REFUSED: Final = 126
DECIDED: Final = {"allow": "would run", "ask": "would wait until people approve", "deny": "would be denied"}
_MILLISECOND_NANOSECONDS: Final = 1_000_000


def try_here(
    args: argparse.Namespace,
    asked: "Asked",
    request: Json,
    policy: "Policy",
    opening: "AbstractAsyncContextManager[Local]",
) -> int:
    """Say what would run in this home."""
    told = asyncio.run(_judged(asked, request, policy, opening))
    if args.json:
        emit_json({name: item for name, item in told.items() if name != "contract"})
    else:
        for line in _here(told):
            say(line)
    return REFUSED if told["decision"] == "deny" else 0


async def _judged(
    asked: "Asked", request: Json, policy: "Policy", opening: "AbstractAsyncContextManager[Local]"
) -> Json:
    from tipstaff.model.request import parse_request  # noqa: PLC0415 - only who tries needs these
    from tipstaff.plane.contract import Terms, draft  # noqa: PLC0415 - as above
    from tipstaff.policy import decide  # noqa: PLC0415 - as above

    async with opening as local:
        if request["files"].get("captured"):
            from tipstaff.doors.capturing import captured  # noqa: PLC0415 - most runs capture nothing

            captured(local, asked, request)
        facts = await local.facts()
    wanted = parse_request(request)
    decision = decide(wanted, policy, facts)
    now = time.time_ns() // _MILLISECOND_NANOSECONDS
    return {
        "dryRun": True,
        "plane": None,
        "decision": decision.effect,
        "policy": decision.policy,
        "rules": list(decision.rules),
        "reasons": [f"{one.rule}: {one.message}" for one in decision.reasons],
        "requirements": [f"{one.quorum} of {', '.join(one.approvers)} ({one.rule})" for one in decision.requirements],
        "leaves": [],
        "request": request,
        "contract": None if decision.denied else draft(wanted, decision, Terms("run_0", now, now, "")),
    }


def _here(told: Json) -> Iterator[str]:
    from tipstaff.doors.cli.terms import terms  # noqa: PLC0415 - only who tries needs it

    yield f"this {DECIDED[told['decision']]}, on this machine, by the policy `{told['policy']}`; nothing leaves it"
    if told["contract"] is not None:
        yield from (f"  {line}" for line in terms(told["contract"]))
    else:
        yield from (f"  {line}" for line in spelled(told["request"]["execution"]))
    yield from _decided(told)


def _decided(told: Json) -> Iterator[str]:
    for reason in told["reasons"]:
        yield f"  decided by {reason}"
    for requirement in told["requirements"]:
        yield f"  approval:  {requirement}"


def try_elsewhere(args: argparse.Namespace, plane: "RemotePlane", errand: "Errand", home: "Home") -> int:
    """Say what would be sent to a plane elsewhere, and what it would decide; only the request goes there."""
    from tipstaff.remote import sending  # noqa: PLC0415 - only who tries needs it
    from tipstaff.remote.outcomes import Decided  # noqa: PLC0415 - as above

    parcel, missing = None, list["Item"]()
    if errand.folder is not None:
        with sending.opened(home) as sender:
            parcel = sender.packed(errand.folder, errand.wish)
            missing = sender.missing(plane.wire, parcel.items)
        errand.request["workspace"] = parcel.manifest
    report = plane.report(errand.request)
    said = report.get("policyDecision")
    decided = Decided({**report, **(said if isinstance(said, dict) else {})})
    told = {
        "dryRun": True,
        "plane": plane.url,
        "pool": errand.request.get("pool", "default"),
        "decision": decided.effect,
        "policy": decided.policy,
        "rules": list(decided.rules),
        "reasons": list(decided.reasons),
        "leaves": _leaving(parcel, missing),
        "denied": list(parcel.manifest.get("deniedPaths", ())) if parcel is not None else [],
        "notices": list(parcel.notices) if parcel is not None else [],
        "request": {name: item for name, item in errand.request.items() if name != "workspace"},
        "report": report,
    }
    if args.json:
        emit_json(told)
    else:
        for line in _elsewhere(told, str(errand.folder) if errand.folder is not None else None):
            say(line)
    return REFUSED if decided.effect == "deny" else 0


def _leaving(parcel: "Parcel | None", missing: "list[Item]") -> list[Json]:
    """Count what would leave, by what it is."""
    counted: dict[str, Json] = {}
    absent = {item.digest for item in missing}
    for item in parcel.items if parcel is not None else ():
        one = counted.setdefault(item.kind, {"kind": item.kind, "count": 0, "bytes": 0, "new": 0, "newBytes": 0})
        one["count"] += 1
        one["bytes"] += item.size
        if item.digest in absent:
            one["new"] += 1
            one["newBytes"] += item.size
    return list(counted.values())


def _elsewhere(told: Json, folder: str | None) -> Iterator[str]:
    request, report = told["request"], told["report"]
    by = f", by its policy `{told['policy']}`" if told["policy"] else ""
    yield f"this {DECIDED[told['decision']]} at {told['plane']}, in the pool {quoted(told['pool'])}{by}"
    yield from (f"  {line}" for line in spelled(request["execution"]))
    yield from (f"  {line}" for line in _carried(request))
    yield f"  workspace: {'none' if folder is None else 'a copy of ' + quoted(folder)}"
    for one in told["leaves"]:
        already = "" if one["new"] == one["count"] else f"; of these the plane has {one['count'] - one['new']} already"
        yield f"  leaves:    {one['kind']}: {one['count']} ({size(one['bytes'])}){already}"
    if told["denied"]:
        yield f"  stays:     {', '.join(map(quoted, told['denied']))}"
    yield from (f"  note:      {notice}" for notice in told["notices"])
    if isinstance(report.get("disclosure"), str):
        yield f"  comes back: by the disclosure {quoted(report['disclosure'])}"
    for reason in told["reasons"]:
        yield f"  decided by {reason}"
    said = report.get("policyDecision")
    for one in said.get("consentRequirements", ()) if isinstance(said, dict) else ():
        yield f"  approval:  {one}"


def _carried(request: Json) -> Iterator[str]:
    """Say what goes along besides the command: variables, hosts, secrets by their names."""
    for name, value in request["execution"].get("env", {}).get("vars", {}).items():
        yield f"variable:  {quoted(f'{name}={value}')}"
    for rule in request["egress"]["rules"]:
        yield f"host:      {quoted(rule['host'])}"
    for name in request["secretNames"]:
        yield f"secret:    {quoted(name)} (the plane's; no value leaves this machine)"
    if request.get("purpose"):
        yield f"purpose:   {quoted(request['purpose'])}"
