"""What a plane does not take from a runner, whoever it is: too much, too far from now, or what is not its to say.

Bounds on a single event hold everywhere. Those on how many there are, on times and on who stopped a run hold at a plane
that serves several: there a runner is somebody else's machine. A refusal changes nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.model.events import AUTHORS, ENDINGS, KINDS
from tipstaff.model.times import LAST, milliseconds, timestamp
from tipstaff.store import Run

Json = dict[str, Any]
MOST_EVENT_BYTES: Final = 1024 * 1024
MOST_IN_MESSAGE: Final = 10_000  # events
MOST_IN_CHAIN: Final = 100_000  # events
MOST_RECEIPT_BYTES: Final = 1024 * 1024
FAR_MS: Final = 26 * 3600 * 1000  # the widest that two clocks of one moment are apart when each takes its zone for UTC


def refuse_flood(links: Sequence[Json]) -> None:
    """Refuse more events than one message may have."""
    if len(links) > MOST_IN_MESSAGE:
        message = f"a message has at most {MOST_IN_MESSAGE} events, this one has {len(links)}: send them in parts"
        raise PlaneError(message, status=413, code="events_too_many")


def refuse_long(run: Run, fresh: Sequence[Json]) -> None:
    """Refuse more events than one run may have; how it ended can always be said."""
    added = sum(not is_ending(link) for link in fresh)
    if added and run.told[0] + added > MOST_IN_CHAIN:
        message = f"a run has at most {MOST_IN_CHAIN} events, and with these it would have {run.told[0] + added}"
        raise PlaneError(message, status=413, code="chain_too_long")


def refuse_foreign(link: Json) -> None:
    """Refuse what a runner may not author: a plane's event, and the plane's word that the runner was lost."""
    if (size := size_of(link)) is None or size > MOST_EVENT_BYTES:
        what = "is not JSON" if size is None else f"is larger than {MOST_EVENT_BYTES} bytes"
        status, code = (400, "chain_broken") if size is None else (413, "event_too_large")
        raise PlaneError(f"an event {what}", status=status, code=code)
    event = link.get("event")
    name = event.get("type") if type(event) is dict else None
    kind = KINDS.get(name) if type(name) is str else None
    if kind is None or AUTHORS[kind] == "plane" or (type(event) is dict and event.get("failure") == "runner_lost"):
        raise PlaneError(f"a runner may not author {str(name)[:64]!r}", status=403, code="event_not_yours")


def refuse_far(links: Sequence[Json], claimed_at: str, now: int) -> None:
    """Refuse events that are dated long before their run was claimed, or long after now."""
    for link in links:
        if fault := fault_of_time(link.get("ts"), claimed_at, now):
            message = f"an event is dated {fault}: set the runner's clock"
            raise PlaneError(message, status=400, code="time_far", reasons=(f"event {str(link.get('seq'))[:20]}",))


def fault_of_time(ts: Any, claimed_at: str, now: int) -> str:
    """Say what is wrong with a runner's time beside the plane's own, or nothing; its form is looked at elsewhere."""
    if type(ts) is not str:
        return ""
    if ts < timestamp(max(0, milliseconds(claimed_at) - FAR_MS)):
        return f"{ts[:32]!r}, long before its run was claimed at {claimed_at}"
    return f"{ts[:32]!r}, long after now" if ts > timestamp(min(LAST, now + FAR_MS)) else ""


def refuse_forged_cancel(run: Run, links: Sequence[Json]) -> None:
    """Refuse to have it said that somebody stopped a run who did not: it is who asked the plane, or the runner."""
    known = (run.cancel_actor, {"kind": "service", "id": run.runner_id})
    for link in links:
        if link["event"]["type"] == "run.cancelled" and link["event"].get("actor") not in known:
            raise PlaneError("nobody of that name stopped this run", status=403, code="event_not_yours")


def is_ending(link: Json) -> bool:
    """Say whether an event says how its run ended."""
    return KINDS.get(link["event"]["type"]) in ENDINGS


def size_of(document: Json) -> int | None:
    """Say how long a document is, near enough and much faster than by its canonical form; None where it is no JSON."""
    try:
        return len(msgspec.json.encode(document))
    except (ValueError, TypeError, RecursionError):
        return None
