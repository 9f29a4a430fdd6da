"""Following a run: its events and its output as they come, as server-sent events (HTML Living Standard, 9.2).

`link` is an event of the chain, `output` a part of a stream, `status` a new state, `end` the last word. The id of each
is what would be wanted next, `SEQ.STDOUT.STDERR`: a client that was cut off says the last one it saw, and misses
nothing. A comment every few seconds keeps proxies from giving up.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import msgspec

from tipstaff.doors.http.exchange import Exchange, too_many, unauthorized
from tipstaff.doors.http.logbook import LOGGER
from tipstaff.doors.http.replies import Json, Reply, StreamReply
from tipstaff.doors.http.waking import heard
from tipstaff.errors import InputError, TipstaffError
from tipstaff.plane.callers import Caller

LOOK_SECONDS: Final = 5.0  # should a ring ever be lost
COMMENT_SECONDS: Final = 10.0
MOST: Final = 2**31
_ID: Final = re.compile(r"([0-9]{1,10})\.([0-9]{1,15})\.([0-9]{1,15})\Z")


class Place(NamedTuple):
    """What is wanted next."""

    seq: int
    stdout: int
    stderr: int

    @property
    def id(self) -> str:
        """Spell it as an event's id."""
        return f"{self.seq}.{self.stdout}.{self.stderr}"


async def follow(exchange: Exchange) -> Reply:
    """Follow a run until it ends."""
    caller = await exchange.caller()
    run_id = exchange.part("runId")
    exchange.record.run = run_id[:64]
    place = _place(exchange)
    following = _Following(exchange, run_id, place)
    stream = following.events(await exchange.ask(lambda: following.told(caller), long=True))
    seats, peer = exchange.front.seats, f"principal:{caller.principal.principal_id}"
    if not seats.take(peer):
        raise too_many("this token follows too many runs at once", COMMENT_SECONDS)
    return StreamReply(stream, "text/event-stream", close=lambda: seats.leave(peer))


class _Following:
    """One client that follows one run."""

    def __init__(self, exchange: Exchange, run_id: str, place: Place) -> None:
        self._exchange = exchange
        self._run_id = run_id
        self._place = place
        self._said: Json = {}
        self._ended = False

    async def events(self, told: bytes) -> AsyncIterator[bytes]:
        bell = self._exchange.front.bell
        spoken = asyncio.get_running_loop().time()
        with bell.listening(f"run:{self._run_id}") as event:
            while True:
                now = asyncio.get_running_loop().time()
                if told or now - spoken >= COMMENT_SECONDS:
                    spoken = now
                    yield told or b": still here\n\n"
                if self._ended or bell.closed:
                    return
                await heard(event, LOOK_SECONDS)
                try:
                    told = await self._exchange.ask(self._look, long=True)
                except TipstaffError as error:
                    request_id = self._exchange.record.request_id
                    LOGGER.warning({"event": "follow", "requestId": request_id, "message": str(error)})
                    return

    def _look(self) -> bytes:
        """See what is new, as whoever the token is now: one that was revoked sees nothing more."""
        caller = self._exchange.plane.caller(self._exchange.bearer())
        if caller is None:
            raise unauthorized("no such token any more")
        return self.told(caller)

    def told(self, caller: Caller) -> bytes:
        """Spell what is new; on a thread, since it may be much."""
        news = caller.since(self._run_id, *self._place)
        self._ended = news["ended"]
        return b"".join(self._spelled(news))

    def _spelled(self, news: Json) -> list[bytes]:
        parts = [self._link(link) for link in news["events"]]
        parts += [self._output(part) for part in news["output"]]
        status = {name: news[name] for name in ("status", "position") if news.get(name) is not None}
        if status != self._said:
            self._said = status
            parts.append(self._part("status", status))
        if news["ended"]:
            parts.append(self._part("end", {"status": news["status"]}))
        return parts

    def _link(self, link: Json) -> bytes:
        self._place = self._place._replace(seq=link["seq"] + 1)
        return self._part("link", link)

    def _output(self, part: Json) -> bytes:
        stream, data = part["stream"], part["data"]
        self._place = self._place._replace(**{stream: part["offset"] + len(data)})
        return self._part("output", {"stream": stream, "offset": part["offset"], "data": b64encode(data).decode()})

    def _part(self, event: str, data: Any) -> bytes:
        return f"event: {event}\nid: {self._place.id}\ndata: {msgspec.json.encode(data).decode()}\n\n".encode()


def _place(exchange: Exchange) -> Place:
    last = exchange.request.headers.get("last-event-id")
    if last is not None:
        found = _ID.match(last)
        if found is None:
            raise InputError("Last-Event-ID is not one that this plane gave")
        return Place(*map(int, found.groups()))
    return Place(*(exchange.number(name, 0, MOST) for name in ("after", "stdout", "stderr")))
