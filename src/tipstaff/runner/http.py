"""A plane elsewhere, over HTTP: the same words as in one process, carried by one client that keeps its connections.

Follows no redirect, asks for no compression, and reads no more of an answer than its kind may have. Trouble on the
way, and a plane that cannot answer now (429, 5xx), is an `UnreachableError`: the same may be asked again, since every
step of the protocol gives the same answer twice. Contents go from and to files, in pieces. Which proxy is the
environment's business; to this machine itself there is none.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import httpx2
import msgspec

from tipstaff.errors import PlaneError, StoreError, UsageError
from tipstaff.runner.address import Address
from tipstaff.runner.client import NO_PLANE, OK, Claim, Speaker, UnreachableError, refused, understood, unreadable
from tipstaff.runner.direct import Direct, OddReplyError

Json = dict[str, Any]
KNOWS: Final = ("release", "renew", "blobs", "log", "checkpoints")
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 15.0
CONNECTIONS: Final = 64
MOST_ANSWER_BYTES: Final = 64 * 1024**2
MOST_BLOB_BYTES: Final = 1024**3
CHUNK: Final = 256 * 1024
FETCHES: Final = 2  # at once
SLOW_DISK: Final = 10 * 1024**2  # bytes that a plane has to write in a second, before we think that it hangs
NO_PLANES: Final = range(201, 400)
TOO_MANY: Final = 429
TROUBLE: Final = 500
FULL: Final = 507  # no trouble that goes away by asking again
LONGEST_RETRY_SECONDS: Final = 60.0


class OverHttp(Speaker):
    """One runner's way to a plane elsewhere."""

    knows = KNOWS

    def __init__(self, address: Address, runner_token: str = "", pool: str = "", *, ca: Path | None = None) -> None:
        super().__init__(runner_token, pool)
        self._address = address
        context = _context(address, ca)
        self._direct = None if _has_proxy(address) else Direct(address.url, context, CONNECT_SECONDS)
        self._fetching = asyncio.Semaphore(FETCHES)
        self._client = httpx2.AsyncClient(
            base_url=address.url,
            verify=context,
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS),
            trust_env=not address.is_loopback,
            headers={"Accept-Encoding": "identity", "User-Agent": "tipstaff-runner"},
        )

    async def close(self) -> None:
        """Let go of the connections."""
        if self._direct is not None:
            self._direct.close()
        await self._client.aclose()

    async def enroll(self, body: Json) -> Json:
        """Make this runner known to the plane."""
        return await self._post("/v1/runners/enroll", body)

    async def tell_drain(self, *, drain: bool) -> Json:
        """Tell the plane that this runner takes no more, or takes runs again."""
        return await self._post("/v1/runners/drain", {"runnerToken": self._runner_token, "drain": drain})

    async def log(self, claim: Claim, said: Json) -> Json:
        """Send some of what a command prints, while it runs."""
        return await self._step(claim, "log", said)

    async def upload(self, token: str, content: bytes | Path, wanted: str) -> None:
        """Bring a content to the plane, and see that it arrived as it is."""
        sent = content if isinstance(content, bytes) else _read(content)
        size = len(content) if isinstance(content, bytes) else _size(content)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        headers["Content-Length"] = str(size)
        status, data = await self._asked("/v1/blobs", sent, headers, wait_seconds=size / SLOW_DISK)
        if understood(status, data).get("hash") != wanted:
            raise unreadable("the digest of a content", "it is another than that of what was sent")

    async def fetch(self, token: str, wanted: str, into: BinaryIO) -> None:
        """Write a content of the plane's into a file, which is emptied first, and check it against its digest."""
        async with self._fetching:
            arriving = _Arriving(into)
            try:
                async with self._client.stream(
                    "GET", f"/v1/blobs/{wanted}", headers={"Authorization": f"Bearer {token}"}
                ) as reply:
                    await self._received(reply, arriving)
            except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
                raise UnreachableError(self._trouble(error), code="unreachable") from error
        if arriving.digest != wanted:
            raise unreadable(f"the content {wanted[:12]}", "its bytes have another digest")

    async def _received(self, reply: httpx2.Response, arriving: "_Arriving") -> None:
        if reply.status_code != OK:
            data = await _bounded(reply, MOST_ANSWER_BYTES)
            status, data = self._usable(reply.status_code, data, reply.headers.get("Retry-After", ""))
            understood(status, data)
        async for part in reply.aiter_raw(CHUNK):
            await asyncio.to_thread(arriving.take, part)  # to hash and write it takes longer than the loop may wait

    async def _post(self, path: str, body: Json) -> Json:
        wait_seconds = body.get("waitMs", 0) / 1000
        encoded, seconds = msgspec.json.encode(body), ANSWER_SECONDS + wait_seconds
        try:
            if self._direct is None:
                headers = {"Content-Type": "application/json"}
                async with asyncio.timeout(seconds):  # also of an answer that comes in drops
                    return understood(*await self._asked(path, encoded, headers, wait_seconds=wait_seconds))
            reply = await self._direct.post(path, encoded, seconds, MOST_ANSWER_BYTES)
        except OddReplyError as error:
            raise unreadable("an answer", str(error)) from error
        except (OSError, TimeoutError) as error:
            raise UnreachableError(self._trouble(error), code="unreachable") from error
        return understood(*self._usable(reply.status, reply.data, reply.headers.get("retry-after", "")))

    async def _asked(
        self,
        path: str,
        content: bytes | AsyncIterator[bytes],
        headers: Mapping[str, str],
        *,
        wait_seconds: float,
    ) -> tuple[int, bytes]:
        """Carry one request there and its answer back."""
        timeout = httpx2.Timeout(ANSWER_SECONDS + wait_seconds, connect=CONNECT_SECONDS)
        try:
            async with self._client.stream("POST", path, content=content, headers=headers, timeout=timeout) as reply:
                data = await _bounded(reply, MOST_ANSWER_BYTES)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise UnreachableError(self._trouble(error), code="unreachable") from error
        return self._usable(reply.status_code, data, reply.headers.get("Retry-After", ""))

    def _usable(self, status: int, data: bytes, after: str) -> tuple[int, bytes]:
        """Give an answer that a plane gives; trouble, and what no plane says, may be asked again."""
        if status in NO_PLANES:
            message = f"something at {self._address.url} answers with status {status}, as no plane does"
            raise UnreachableError(message, status=status, code=NO_PLANE)
        if status == TOO_MANY or (status >= TROUBLE and status != FULL):
            raise _cannot_now(status, data, after)
        return status, data

    def _trouble(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        return f"the plane at {self._address.url} cannot be reached: {why}"


class _Arriving:
    """A content on its way into a file."""

    def __init__(self, into: BinaryIO) -> None:
        into.seek(0)
        into.truncate()
        self._into = into
        self._hash = sha256()
        self._size = 0

    @property
    def digest(self) -> str:
        """The digest of what came."""
        return self._hash.hexdigest()

    def take(self, part: bytes) -> None:
        """Write some more; no more than a content may have."""
        self._size += len(part)
        if self._size > MOST_BLOB_BYTES:
            raise unreadable("a content", f"it is larger than {MOST_BLOB_BYTES} bytes")
        self._hash.update(part)
        try:
            self._into.write(part)
        except OSError as error:
            raise StoreError(f"a content cannot be kept: {error.strerror}", hint="check the disk") from error


async def _bounded(reply: httpx2.Response, most_bytes: int) -> bytes:
    """Read an answer, and no more of it than its kind may have."""
    parts: list[bytes] = []
    size = 0
    async for part in reply.aiter_raw():
        size += len(part)
        if size > most_bytes:
            raise unreadable("an answer", f"it is larger than {most_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


def _cannot_now(status: int, data: bytes, after: str) -> UnreachableError:
    """Say what a plane said that cannot answer now."""
    try:
        understood(status, data)
        said = refused(status, {})
    except PlaneError as error:
        said = error
    seconds = min(float(after), LONGEST_RETRY_SECONDS) if after.isascii() and after.isdecimal() else 0.0
    return UnreachableError(said.message, status=status, code=said.code, retry_seconds=seconds)


def _has_proxy(address: Address) -> bool:
    """Say whether the environment wants a proxy on the way there."""
    parts = urlsplit(address.url)
    if address.is_loopback or proxy_bypass(parts.hostname or ""):
        return False
    proxies = getproxies_environment()
    return parts.scheme in proxies or "all" in proxies


def _size(path: Path) -> int:
    return path.stat().st_size


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _context(address: Address, ca: Path | None) -> ssl.SSLContext:
    """Say whose certificates count: those of the file, else the system's; without TLS nobody's, which is soon said."""
    if not address.url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=str(ca) if ca is not None else None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the certificates in {ca} cannot be read: {error}", hint="give a file of PEM") from error
