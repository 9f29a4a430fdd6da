"""A run as it goes on: its events, its output, where it stands; without a gap across cuts of the connection.

The plane numbers what it tells, and is asked for what follows the last that arrived. What arrives twice is told once. A
plane that cannot be reached is asked again for some minutes, at growing distances: the run goes on without us.
"""

import base64
import binascii
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tipstaff.errors import InputError, PlaneError
from tipstaff.evidence.reading import read_object
from tipstaff.remote.answers import BusyPlaneError, UnreachableError
from tipstaff.remote.wire import Wire

Json = dict[str, Any]
STREAMS: Final = ("stdout", "stderr")
PATIENCE_SECONDS: Final = 300.0
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
BAD_GATEWAYS: Final = (502, 504)  # what stands before a plane that is being started anew says so
_PLACE: Final = re.compile(r"[0-9]{1,16}(?:\.[0-9]{1,16}){2}\Z")  # the next event, and the next byte of each stream


class Link(NamedTuple):
    """One more event of the run's chain."""

    link: Json


class Output(NamedTuple):
    """A piece of what the run printed, and where it begins; a piece may be missing before it."""

    stream: str
    offset: int
    data: bytes


class Standing(NamedTuple):
    """Where the run stands now; `position` says how many come before it, where it waits for a runner."""

    status: str
    position: int | None


class Cut(NamedTuple):
    """The connection was lost, and is being made again."""

    why: str


class Ended(NamedTuple):
    """The run is over: nothing more comes."""

    status: str


Happening = Link | Output | Standing | Cut | Ended


def follow(
    wire: Wire, run_id: str, *, patience_seconds: float = PATIENCE_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Happening]:
    """Tell what happens to a run, to its end."""
    last = ""
    pause, silent_since = FIRST_PAUSE_SECONDS, time.monotonic()
    while True:
        why = "the connection broke off"
        try:
            with wire.listening(f"/v1/runs/{run_id}/follow", last) as events:
                for event in events:
                    pause, silent_since = FIRST_PAUSE_SECONDS, time.monotonic()
                    happening = read(event.event, event.data)
                    if happening is not None:
                        yield happening
                    if isinstance(happening, Ended):
                        return
                    last = place(event.id) or last
        except PlaneError as error:
            if not _passes(error):
                raise
            why, pause = error.message, max(pause, getattr(error, "wait_seconds", 0.0))
        if time.monotonic() - silent_since > patience_seconds:
            raise PlaneError(
                f"{run_id} cannot be followed any longer: {why}",
                status=503,
                code="unreachable",
                reasons=(f"it goes on without us; see: tipstaff --plane {wire.url} log -f {run_id}",),
            )
        yield Cut(why)
        sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def place(number: str) -> str:
    """Read where an event stands, if it says so; it goes back to the plane in a header."""
    if number and not _PLACE.match(number):
        raise InputError(f"the plane numbers what it tells by {number[:64]!r}, which is no place in a run")
    return number


def read(kind: str, data: str) -> Happening | None:
    """Read one event of the stream; None for a kind that is not known here."""
    if kind not in _READERS:
        return None
    try:
        return _READERS[kind](read_object(data.encode(), {}))
    except (InputError, KeyError, TypeError, ValueError) as error:  # ValueError: no base64, or a lone surrogate
        raise InputError(f"the plane tells something that cannot be read: {kind}: {type(error).__name__}") from None


def _passes(error: PlaneError) -> bool:
    """Say whether trying again may help."""
    return isinstance(error, UnreachableError | BusyPlaneError) or error.status in BAD_GATEWAYS


def _link(said: Json) -> Link:
    if not isinstance(said["event"]["type"], str):
        raise TypeError("type")
    return Link(said)


def _output(said: Json) -> Output:
    stream, offset = said["stream"], said["offset"]
    if stream not in STREAMS or type(offset) is not int or offset < 0:
        raise ValueError("output")
    try:
        return Output(stream, offset, base64.b64decode(said["data"], validate=True))
    except binascii.Error as error:
        raise ValueError("base64") from error


def _standing(said: Json) -> Standing:
    position = said.get("position")
    if not isinstance(said["status"], str) or not isinstance(position, int | None):
        raise TypeError("status")
    return Standing(said["status"], position)


def _ended(said: Json) -> Ended:
    if not isinstance(said["status"], str):
        raise TypeError("status")
    return Ended(said["status"])


_READERS: Final[dict[str, Callable[[Json], Happening]]] = {
    "link": _link,
    "output": _output,
    "status": _standing,
    "end": _ended,
}
