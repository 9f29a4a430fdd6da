"""What happens while a run is at work: its output, as it comes, and what is new since somebody last looked."""

from base64 import b64decode
from binascii import Error
from itertools import islice
from typing import Any, Final

from tipstaff.errors import InputError, PlaneError
from tipstaff.plane.authority import Authority
from tipstaff.plane.leases import cancel_of
from tipstaff.store import Run
from tipstaff.store.live import AT_ONCE

Json = dict[str, Any]
STREAMS: Final = ("stdout", "stderr")
MOST_CHUNK_BYTES: Final = 256 * 1024
CLOSED: Final = ("none", "metadata-only")  # under these disclosures no output leaves a runner
LOG: Final = "session-log"
BEYOND: Final = 2**53  # no stream has so many bytes
MOST_EVENTS: Final = 500  # in one answer


def take(authority: Authority, run: Run, body: Json) -> Json:
    """Take some output of a run, for whoever watches; inside a transaction."""
    stream, start, text = body.get("stream"), body.get("offset"), body.get("data")
    if stream not in STREAMS or type(start) is not int or not 0 <= start < 2**53 or not isinstance(text, str):
        raise InputError("output needs `stream` (stdout or stderr), `offset` and `data`")
    if run.contract["disclosure"] in CLOSED or LOG in run.contract.get("withheldClasses", ()):
        raise PlaneError("the contract lets no output leave the runner", status=403, code="not_disclosed")
    if len(text) > MOST_CHUNK_BYTES * 4 // 3 + 4:
        raise PlaneError(f"output comes in parts of at most {MOST_CHUNK_BYTES} bytes", status=413)
    try:
        data = b64decode(text, validate=True)
    except (Error, ValueError) as error:
        raise InputError(f"`data` is not base64: {error}") from error
    if data:
        authority.store.live.add(run.run_id, str(stream), start, data)
    return {"ok": True, **cancel_of(run)}


def since(authority: Authority, run_id: str, after: int, stdout: int, stderr: int) -> Json:
    """Tell what is new: events from number `after` on, and output from these bytes on."""
    run = authority.store.runs.get(run_id)
    starts = zip(STREAMS, (stdout, stderr), strict=True)
    output = [
        {"stream": stream, "offset": at, "data": data}
        for stream, start in starts
        for at, data in authority.store.live.since(run_id, stream, start)
    ]
    events = list(islice(authority.store.runs.events(run_id, after), MOST_EVENTS + 1))
    more = len(events) > MOST_EVENTS or len(output) >= AT_ONCE
    told: Json = {
        "events": events[:MOST_EVENTS],
        "output": output,
        "status": run.state,
        "ended": not run.open and not more,
        **({"more": True} if more else {}),  # there is more to be asked for at once
    }
    return {**told, "position": authority.store.runs.position(run)} if run.state == "created" else told
