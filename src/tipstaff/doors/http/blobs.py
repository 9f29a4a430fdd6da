"""Blobs, in and out: bytes named by their sha-256, streamed in pieces.

Whoever brings or fetches one shows a principal's token or a runner's claim token; a runner has what its run is made of
and what it brought, nobody learns by a digest alone whether a blob exists. Only where the settings open them to old
peers, which show no token, are the blobs of runs that a runner holds now given without one.
"""

import re
from collections.abc import AsyncIterator
from functools import partial
from os import SEEK_END
from typing import BinaryIO, Final, Protocol

from litestar.exceptions import HTTPException

from tipstaff.doors.http import schemas
from tipstaff.doors.http.downloads import Download, Downloads, Opened, Still
from tipstaff.doors.http.exchange import Exchange, unauthorized, unread
from tipstaff.doors.http.front import LONG_BYTES
from tipstaff.doors.http.replies import BYTES, DoorError, Reply, StreamReply, json_reply, raw_reply
from tipstaff.doors.http.routes import Route
from tipstaff.errors import NotFoundError, PlaneError
from tipstaff.plane.callers import Caller

PIECE_BYTES: Final = 1024 * 1024
WHO: Final = 401
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")


class Writer(Protocol):
    """A blob being written."""

    def write(self, chunk: bytes) -> None:
        """Take some more bytes."""

    def finish(self) -> str:
        """Keep it."""

    def discard(self) -> None:
        """Forget it."""


async def bring(exchange: Exchange) -> Reply:
    """Keep what comes."""
    writer = await _writer(exchange)
    try:
        digest = await _written(exchange, writer)
    except BaseException:
        await exchange.front.on_thread(writer.discard)
        raise
    return json_reply({"hash": digest})


async def fetch(exchange: Exchange) -> Reply:
    """Give a blob."""
    return await _given(exchange, *await _wanted(exchange))


async def look(exchange: Exchange) -> Reply:
    """Say whether the caller may have a blob."""
    digest, token = _digest(exchange), exchange.bearer()
    caller = await _known(exchange, token)
    if caller is None:
        (await _opened(exchange, f"claim:{token}", partial(_of_claim, exchange, token, digest))).close()
    elif not await exchange.ask(lambda: caller.has_blob(digest)):
        raise NotFoundError(f"there is no blob {digest} of yours")
    return Reply(is_head_response=True, media_type=BYTES)


async def fetch_of_run(exchange: Exchange) -> Reply:
    """Give a blob that a run names."""
    caller, digest, run_id = await exchange.caller(), _digest(exchange), exchange.part("runId")
    exchange.record.run = run_id[:64]
    return await _given(exchange, _peer(caller), partial(caller.run_blob, run_id, digest))


async def _wanted(exchange: Exchange) -> tuple[str, Opened]:
    """Say who wants a blob, and how it is opened for them."""
    digest, token = _digest(exchange), exchange.bearer()
    if token is None and exchange.front.settings.open_blobs:
        return f"address:{exchange.record.address}", partial(exchange.plane.blob_for_old_peer, digest)
    caller = await _known(exchange, token)
    if caller is not None:
        return _peer(caller), partial(caller.blob, digest)
    return f"claim:{token}", partial(_of_claim, exchange, token, digest)


def _peer(caller: Caller) -> str:
    return f"principal:{caller.principal.principal_id}"


async def _writer(exchange: Exchange) -> Writer:
    token = exchange.bearer()
    caller = await _known(exchange, token)
    if caller is not None:
        return await exchange.ask(caller.blob_writer)
    try:
        writer: Writer = await exchange.ask(lambda: exchange.plane.claim_writer(token))
    except PlaneError as error:
        raise _counted(exchange, error) from error
    return writer


def _of_claim(exchange: Exchange, token: str | None, digest: str, still: Still) -> BinaryIO:
    try:
        return exchange.plane.blob_for_claim(token, digest, still)
    except PlaneError as error:
        raise _counted(exchange, error) from error


async def _known(exchange: Exchange, token: str | None) -> Caller | None:
    """Say which principal asks; None where the token may still be a claim's."""
    if token is None:
        raise exchange.failed(unauthorized("this needs a token: Authorization: Bearer …"))
    caller = await exchange.ask(lambda: exchange.plane.caller(token))
    if caller is not None:
        exchange.known(caller)
    else:
        exchange.record.who = "claim"
    return caller


def _counted(exchange: Exchange, error: PlaneError) -> PlaneError:
    return exchange.failed(unauthorized("no such token")) if error.status == WHO else error


async def _written(exchange: Exchange, writer: Writer) -> str:
    """Write what comes, in pieces; a small blob needs no thread."""
    piece, total = bytearray(), 0
    try:
        async for chunk in exchange.request.stream():
            total += len(chunk)
            if total > exchange.front.settings.most_blob_bytes:
                most = exchange.front.settings.most_blob_bytes
                raise DoorError(f"a blob is at most {most} bytes here", status=413, code="too_large")
            piece += chunk
            if len(piece) >= PIECE_BYTES:
                full = bytes(piece)
                piece.clear()
                await exchange.front.on_thread(lambda full=full: writer.write(full))  # type: ignore[misc]  # a default
    except HTTPException as error:
        raise unread(error) from error
    writing = _Ending(writer, bytes(piece))
    return await exchange.ask(writing.finish, long=total > LONG_BYTES // 2)


class _Ending:
    """The last piece and the end of a blob; asked again where the store was busy, the piece is not written twice."""

    def __init__(self, writer: Writer, last: bytes) -> None:
        self._writer = writer
        self._last = last

    def finish(self) -> str:
        last, self._last = self._last, b""
        if last:
            self._writer.write(last)
        return self._writer.finish()


async def _opened(exchange: Exchange, peer: str, opened: Opened) -> Download:
    return await exchange.front.downloads.open(peer, exchange.request.receive, opened)


async def _given(exchange: Exchange, peer: str, opened: Opened) -> Reply:
    """Give what is opened, in pieces where it is long."""
    downloads, download = exchange.front.downloads, await _opened(exchange, peer, opened)
    file = download.file
    try:
        size = file.seek(0, SEEK_END)
        file.seek(0)
        if size <= PIECE_BYTES:
            content = await downloads.on_thread(file.read)
            download.close()
            return raw_reply(content, media_type=BYTES)
    except BaseException:
        download.close()
        raise
    return StreamReply(_pieces(downloads, file), BYTES, size, download.close)


async def _pieces(downloads: Downloads, file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await downloads.on_thread(lambda: file.read(PIECE_BYTES)):
        yield piece


def _digest(exchange: Exchange) -> str:
    digest = exchange.part("hash")
    if not _DIGEST.match(digest):
        raise DoorError("a blob is named by the 64 hexadecimal digits of its sha-256", status=404, code="not_found")
    return digest


ROUTES: Final = (
    Route(
        method="POST", path="/v1/blobs", name="bringBlob", summary="Keep bytes", needs="blobs:write", act=bring,
        body=BYTES, body_example="hello", reply=schemas.Blob, refusals=(409, 413), most_body_bytes=None,
    ),
    Route(method="GET", path="/v1/blobs/{hash}", name="fetchBlob", summary="Give a blob", act=fetch, reply=BYTES,
          refusals=(404, 409)),
    Route(method="HEAD", path="/v1/blobs/{hash}", name="lookForBlob", summary="Say whether a blob may be had", act=look,
          refusals=(404, 409)),
    Route(method="GET", path="/v1/runs/{runId}/blobs/{hash}", name="fetchBlobOfRun", summary="Give a blob of a run",
          needs="runs:read", act=fetch_of_run, reply=BYTES, refusals=(404,)),
)  # fmt: skip
