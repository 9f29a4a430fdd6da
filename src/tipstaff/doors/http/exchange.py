"""One request and its answer: who asks, what is asked, and what the log will say of it.

The bearer's token is read strictly: one header, one scheme, visible ASCII. A wrong token counts against the address
that it came from; a right one of the wrong role does not. Bodies are JSON objects without duplicate keys.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from litestar import Request
from litestar.exceptions import HTTPException

from tipstaff.doors.http.front import LONG_BYTES, Front
from tipstaff.doors.http.replies import DoorError, Json
from tipstaff.errors import InputError
from tipstaff.evidence.reading import read_body
from tipstaff.plane.callers import Caller

Answer = TypeVar("Answer")
SOON: Final = {"retry-after": "1"}
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/=-]{1,4096})\Z", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]{1,15}\Z")


class Record(msgspec.Struct):
    """What the log says of one request."""

    request_id: str
    address: str
    path: str = "-"  # the template, so that no id and no secret stands in it
    who: str = ""
    run: str = ""


class Exchange:
    """One request at one route."""

    def __init__(self, front: Front, request: Request[Any, Any, Any], record: Record, needs: str = "") -> None:
        self.front = front
        self.plane = front.plane
        self.request = request
        self.record = record
        self._held_bytes = 0
        self._holder = ""
        self._needs = needs  # the capability that the caller's role must have

    async def ask(self, step: Callable[[], Answer], *, long: bool = False) -> Answer:
        """Have the plane take a step; what a long body asks for takes long."""
        return await self.front.ask(step, long=long or self._held_bytes > LONG_BYTES)

    async def body(self, before_long: Callable[[bytes], None] | None = None) -> bytes:
        """Read the whole body; `before_long` sees how it begins, and may refuse, before a long one is read.

        All bodies together may hold only so much memory, and one peer's only a share of it.
        """
        parts: list[bytes] = []
        try:
            async for part in self.request.stream():
                parts.append(part)
                self._hold(len(part))
                if before_long is not None and self._held_bytes > LONG_BYTES:
                    before_long(b"".join(parts))
                    before_long = None
        except HTTPException as error:
            raise unread(error) from error
        return b"".join(parts)

    def done(self) -> None:
        """Let go of what was held."""
        if self._held_bytes:
            self.front.held.leave(self._holder, self._held_bytes)
            self._held_bytes = 0

    def _hold(self, size: int) -> None:
        """Hold some more of a body: for whoever is known to send it, else for the address."""
        holder = self.record.who or self.record.address
        if holder != self._holder:
            size += self._held_bytes
            self.done()
            self._holder = holder
        self._held_bytes += size
        if not self.front.held.take(holder, size):
            raise DoorError("too much comes in at once; try again", status=503, code="busy", headers=SOON)

    async def fields(self, *, optional: bool = False) -> Json:
        """Read the body as a JSON object; where it is `optional`, none means an empty one."""
        body = await self.body()
        if not body and optional:
            return {}
        if len(body) > LONG_BYTES:
            return await self.front.on_thread(lambda: read_body(body))
        return read_body(body)

    def bearer(self) -> str | None:
        """Give the token that came with the request."""
        found = [value for name, value in self.request.scope["headers"] if name == b"authorization"]
        if len(found) > 1:
            raise DoorError("there is more than one Authorization header", status=400, code="authorization")
        if not found:
            return None
        token = _BEARER.match(found[0])
        if token is None:
            raise unauthorized("the Authorization header is not `Bearer TOKEN`")
        return token[1].decode()

    async def caller(self) -> Caller:
        """Say who asks, or refuse."""
        token = self.bearer()
        caller = await self.ask(lambda: self.plane.caller(token)) if token is not None else None
        if caller is None:
            raise self.failed(unauthorized("no such token" if token else "this needs a token: Authorization: Bearer …"))
        self.known(caller)
        return caller

    def known(self, caller: Caller) -> None:
        """Note who asks, and refuse one who asks too much, or may not ask this at all: before a body is read."""
        self.record.who = caller.principal.name
        wait = self.front.principals.wait_seconds(caller.principal.principal_id)
        if wait:
            raise too_many("this token has asked too often", wait)
        if self._needs:
            caller.require(self._needs)

    def failed(self, error: DoorError) -> DoorError:
        """Count a failed proof of identity; gives what to say: to wait, where there were too many."""
        wait = self.front.failures.wait_seconds(self.record.address)
        if wait:
            return too_many("too many wrong tokens came from this address", wait)
        if self.bearer() is not None:
            self.front.failures.count(self.record.address)
        return error

    def part(self, name: str) -> str:
        """Give a part of the path."""
        value: str = self.request.path_params[name]
        return value

    def query(self, name: str) -> str | None:
        """Give a value of the query, if it is there; twice is a mistake."""
        values = self.request.query_params.getall(name, [])
        if len(values) > 1:
            raise InputError(f"`{name}` stands in the query more than once")
        return values[0] if values else None

    def number(self, name: str, default: int, most: int, least: int = 0) -> int:
        """Give a whole number of the query."""
        text = self.query(name)
        if text is None:
            return default
        if not _NUMBER.match(text) or not least <= int(text) <= most:
            raise InputError(f"`{name}` must be a whole number from {least} to {most}, and is {text[:32]!r}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        """Give a yes or no of the query."""
        text = self.query(name)
        if text not in (None, "true", "false", "1", "0"):
            raise InputError(f"`{name}` must be `true` or `false`, and is {text[:32]!r}")
        return default if text is None else text in ("true", "1")


def unauthorized(message: str) -> DoorError:
    """Say that nobody is known by what was shown."""
    return DoorError(message, status=401, code="unauthorized", headers={"www-authenticate": "Bearer"})


def too_many(message: str, wait_seconds: float) -> DoorError:
    """Say when to come back."""
    seconds = int(wait_seconds) + 1
    headers = {"retry-after": str(seconds)}
    return DoorError(f"{message}; try again in {seconds} s", status=429, code="rate", headers=headers)


def unread(error: HTTPException) -> DoorError:
    """Say why a body could not be read."""
    if error.status_code == 413:  # noqa: PLR2004 - HTTP's word for it
        return DoorError("the body is too large", status=413, code="too_large")
    return DoorError("the client left before its request was whole", status=400, code="gone")  # nobody hears it
