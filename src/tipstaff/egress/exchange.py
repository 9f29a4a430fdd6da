"""One request and its answer, carried between a client and the other side, with nothing of either kept.

The request's head comes written anew; its body and the answer are read strictly and written anew too. After the
body nothing more may come: a second request on the same connection would go past the judge. An answer's end is
known from its head, so that a server that does not hang up makes nobody wait.
Where something was put into the request, the answer is masked, head and body, in whatever chunks it comes.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from tipstaff.egress.attempt import Meter
from tipstaff.egress.bodies import LAST_CHUNK, body_of, chunk
from tipstaff.egress.duplex import Ahead, Duplex
from tipstaff.egress.heads import (
    CHUNKED,
    UNTIL_CLOSE,
    Answer,
    Headers,
    body_length,
    end_to_end,
    parse_answer,
    spell,
    values,
)
from tipstaff.egress.options import Mask, Scan
from tipstaff.egress.reading import CHUNK_BYTES, read_head
from tipstaff.egress.refusal import RefusalError, UpstreamError, malformed

MAX_ANSWER_HEAD: Final = 256 << 10
MAX_INTERIM: Final = 16
_SWITCHING: Final = 101
_FINAL: Final = 200
PARTIAL: Final = 206
_BODILESS: Final = frozenset((204, 304))


class Errand(NamedTuple):
    """A request that was allowed, as it goes out."""

    head: bytes
    method: str
    minor: int  # of the client's HTTP/1
    length: int  # of the body
    mask: Callable[[], Mask] | None = None
    scan: Scan | None = None


class Exchange:
    """One errand; `answered` once the client has got the first byte of an answer."""

    def __init__(self, client: Ahead, far: Duplex, errand: Errand, meter: Meter) -> None:
        self.answered = False
        self._client = client
        self._far = far
        self._errand = errand
        self._meter = meter

    async def run(self, idle_seconds: float) -> None:
        """Carry everything; RefusalError for the client's fault, UpstreamError for the other side's."""
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            await self._both(sending, receiving, idle_seconds)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _both(self, sending: "asyncio.Task[None]", receiving: "asyncio.Task[None]", idle_seconds: float) -> None:
        waiting = {sending, receiving}
        while not receiving.done():
            seen = self._meter.moved
            done, _ = await asyncio.wait(waiting, timeout=idle_seconds, return_when=asyncio.FIRST_COMPLETED)
            if sending in done and not receiving.done():
                sending.result()
                waiting = {receiving}
            elif not done and self._meter.moved == seen:
                raise UpstreamError(f"nothing came for {idle_seconds:g} seconds", status=504)
        receiving.result()
        if sending.done() and isinstance(sending.exception(), RefusalError):
            sending.result()  # an answer that came before the request was whole does not make it right

    async def _send(self) -> None:
        """Send the request, then watch the client: it may go, but not ask again."""
        if await self._send_all() and await self._client.read(1):
            raise malformed("one request per connection: bytes came after the request")

    async def _send_all(self) -> bool:
        """Send head and body; False when the other side takes no more, whose answer then says why."""
        errand, body = self._errand, body_of(self._errand.length)
        try:
            await self._put(errand.head)
            while not body.done:
                data = await self._client_read()
                content = body.feed(data)
                if body.rest:
                    raise malformed("one request per connection: bytes came after the request's body")
                self._scan(content)
                if content:
                    await self._put(chunk(content) if errand.length == CHUNKED else content)
            if errand.length == CHUNKED:
                await self._put(LAST_CHUNK)
        except _FarError:
            return False
        return True

    async def _client_read(self) -> bytes:
        data = await self._client.read(CHUNK_BYTES)
        if not data:
            raise malformed("the request ends in its body")
        return data

    async def _put(self, data: bytes) -> None:
        self._meter.out(len(data))
        try:
            await self._far.write(data)
        except OSError as fault:
            raise _FarError from fault

    def _scan(self, content: bytes) -> None:
        if self._errand.scan is not None and (reason := self._errand.scan.feed(content)):
            raise RefusalError(reason)

    async def _receive(self) -> None:
        source = Ahead(self._far)
        try:
            answer = await self._final(source)
            length = _length(answer, self._errand)
            headers = end_to_end(answer.headers)
        except RefusalError as fault:
            raise UpstreamError(f"the answer cannot be understood: {fault.message}") from fault
        rechunk = length == CHUNKED and self._errand.minor == 1
        more: Headers = ((b"Transfer-Encoding", b"chunked"),) if rechunk else ()
        self.answered = True
        await self._client.write(_spell(answer, (*headers, *more, (b"Connection", b"close"))))
        await self._receive_body(source, length, rechunk=rechunk)

    async def _final(self, source: Ahead) -> Answer:
        """Read heads up to the one that counts, and pass on those before it."""
        for _ in range(MAX_INTERIM):
            answer = parse_answer(self._masked(await self._far_head(source)))
            if answer.status == _SWITCHING:
                raise malformed("nobody asked for another protocol")
            if answer.status >= _FINAL:
                return answer
            if self._errand.minor:
                self.answered = True
                await self._client.write(_spell(answer, end_to_end(answer.headers)))
        raise malformed("it never gets to the point")

    async def _far_head(self, source: Ahead) -> bytes:
        try:
            head = await read_head(source, MAX_ANSWER_HEAD)
        except EOFError:
            raise UpstreamError("the connection was closed without an answer") from None
        except OSError as fault:
            raise UpstreamError(f"the connection broke before an answer: {fault.strerror or fault}") from fault
        self._meter.came(len(head))
        return head

    def _masked(self, head: bytes) -> bytes:
        if self._errand.mask is None:
            return head
        mask = self._errand.mask()
        return mask.feed(head) + mask.end()

    async def _receive_body(self, source: Ahead, length: int, *, rechunk: bool) -> None:
        mask = self._errand.mask() if self._errand.mask is not None else None
        body = body_of(length)
        while not body.done:
            try:
                data = await source.read(CHUNK_BYTES)
            except OSError:  # what came so far is the client's all the same, as it would be without a mask
                await self._give(mask.end() if mask is not None else b"", rechunk=rechunk)
                raise
            if not data:
                if not body.close():
                    raise ConnectionResetError("the answer ends before its end")
                break
            self._meter.came(len(data))
            content = body.feed(data)
            await self._give(mask.feed(content) if mask is not None else content, rechunk=rechunk)
        await self._give(mask.end() if mask is not None else b"", rechunk=rechunk)
        if rechunk:
            await self._client.write(LAST_CHUNK)

    async def _give(self, content: bytes, *, rechunk: bool) -> None:
        if content:
            await self._client.write(chunk(content) if rechunk else content)


class _FarError(Exception):
    """The other side takes no more bytes."""


def _spell(answer: Answer, headers: Headers) -> bytes:
    return spell(f"HTTP/1.1 {answer.status} {answer.phrase}", headers)


def _length(answer: Answer, errand: Errand) -> int:
    """Say how long an answer's body is."""
    if errand.mask is not None and any(
        coding.lower() != b"identity" for coding in values(answer.headers, b"content-encoding")
    ):
        raise malformed("it is compressed, although that was not allowed")
    if errand.mask is not None and (answer.status == PARTIAL or values(answer.headers, b"content-range")):
        raise malformed("it is a part of an answer, although that was not allowed")
    if errand.method == "HEAD" or answer.status in _BODILESS:
        return 0
    length = body_length(answer.headers, answer.minor)
    return UNTIL_CLOSE if length is None else length
