"""TLS over any `Duplex`: as the server towards a client inside, and as the client towards the real one outside.

OpenSSL works in memory and sees no socket; every byte passes through here, and at most a few records wait on either
side. The real server is verified as any client of the host would verify it, and nothing turns that off.
Whatever goes wrong is one error with one sentence. Does not judge names, and does not read what is inside.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from tipstaff.egress.duplex import Duplex

PROTOCOL: Final = "http/1.1"  # the only one that the gate reads
CHUNK_BYTES: Final = 64 << 10
MAX_WAITING_BYTES: Final = 256 << 10  # of answers to a side that asks much and reads nothing
HANDSHAKE_SECONDS: Final = 10.0
_DISTRUST: Final = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")

T = TypeVar("T")


class TlsError(OSError):
    """A connection that TLS cannot protect, or no longer; the message is a sentence for the user."""

    def __init__(self, message: str, *, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated  # the other side went without a word: what came may be only a part


async def terminate(client: Duplex, context: ssl.SSLContext, *, seconds: float = HANDSHAKE_SECONDS) -> "Secured":
    """Be the server that `client` wants to speak to; `context` is an `Authority`'s for that host."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context.wrap_bio(incoming, outgoing, server_side=True)
    return await _agreed(Secured(client, engine, incoming, outgoing), seconds, _client_fault)


async def secure(
    upstream: Duplex, host: str, context: ssl.SSLContext, *, seconds: float = HANDSHAKE_SECONDS
) -> "Secured":
    """Be a client of the name or address `host`, whose certificate must be its own, and trusted by `context`."""
    if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
        raise ValueError("a context that verifies nothing protects nothing")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context.wrap_bio(incoming, outgoing, server_hostname=host)
    return await _agreed(Secured(upstream, engine, incoming, outgoing), seconds, lambda fault: _fault_of(host, fault))


@lru_cache(maxsize=4)
def client_context(bundle: str) -> ssl.SSLContext:
    """Give what verifies real servers by the certificates in `bundle` (see `trust.host_bundle`).

    Made once per bundle. Reading the authorities of a whole host takes OpenSSL some 30 ms: in a loop, a thread's work.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the kind that verifies certificates and names by default
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # some versions of Python take a cut connection for an ended one
    context.set_alpn_protocols([PROTOCOL])
    context.load_verify_locations(cadata=bundle)
    return context


class Secured:
    """A `Duplex` whose bytes are protected below it. One reader and one writer at a time; they may be two tasks."""

    def __init__(self, below: Duplex, engine: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self.below = below
        self._engine = engine
        self._incoming = incoming
        self._outgoing = outgoing
        self._sending = asyncio.Lock()
        self._early = bytearray()  # decrypted while nobody was reading
        self._ended = False

    async def agree(self) -> None:
        """Shake hands: agree on keys, and on who the other side is."""
        try:
            await self._until(self._engine.do_handshake)
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                await self._flush()  # the alert that tells the other side why
            raise
        await self._flush()
        if self._engine.selected_alpn_protocol() not in {None, PROTOCOL}:
            raise TlsError(f"the other side chose a protocol that is not {PROTOCOL}")

    async def read(self, max_bytes: int, /) -> bytes:
        """Give the next bytes, at least one; none at the other side's end, which has to be announced."""
        if self._early:
            given = bytes(self._early[:max_bytes])
            del self._early[:max_bytes]
            return given
        try:
            return await self._until(lambda: self._engine.read(max_bytes))
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLError as fault:
            # Older versions of Python have no error of its own for this.
            if isinstance(fault, ssl.SSLEOFError) or fault.reason == "UNEXPECTED_EOF_WHILE_READING":
                sentence = "the connection ended without TLS being closed: a part may be missing"
                raise TlsError(sentence, truncated=True) from None
            raise TlsError(f"TLS broke off: {_reason(fault)}") from None

    async def write(self, data: bytes, /) -> None:
        """Send everything; waits for room."""
        left = memoryview(data)
        while left:
            try:
                left = left[self._engine.write(left[:CHUNK_BYTES]) :]
            except ssl.SSLError as fault:
                raise TlsError(f"TLS broke off: {_reason(fault)}") from None
            await self._flush()

    async def end(self) -> None:
        """Say that nothing more is sent; reading goes on."""
        if not self._ended:
            self._ended = True
            self._keep_early()
            with contextlib.suppress(ssl.SSLError):  # it announces our end, then wants to see the other side's
                self._engine.unwrap()
            await self._flush()
            await self.below.end()

    def abort(self) -> None:
        """Close at once; the end is not announced, so nobody takes a part for the whole."""
        self.below.abort()

    async def _until(self, step: Callable[[], T]) -> T:
        """Take a step of OpenSSL's as soon as enough has come in for it."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._take_in()

    async def _take_in(self) -> None:
        # Whoever is sending already sends this too; to wait for it here could mean that both sides wait for ever.
        if self._outgoing.pending and not self._sending.locked():
            await self._flush()
        if self._outgoing.pending > MAX_WAITING_BYTES:
            raise TlsError("the other side asks for answers and does not read them")
        if data := await self.below.read(CHUNK_BYTES):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        """Send what OpenSSL has for the other side, in its order."""
        async with self._sending:
            while data := self._outgoing.read():
                await self.below.write(data)

    def _keep_early(self) -> None:
        """Decrypt what has come: OpenSSL drops data that it meets while it looks for the other side's end."""
        with contextlib.suppress(ssl.SSLError):  # for want of more, or for a fault that the next `read` meets again
            while data := self._engine.read(CHUNK_BYTES):
                self._early += data


async def _agreed(secured: Secured, seconds: float, sentence: Callable[[OSError], str]) -> Secured:
    try:
        async with asyncio.timeout(seconds):
            await secured.agree()
    except TlsError:
        raise
    except OSError as fault:  # a timeout is one too
        raise TlsError(sentence(fault)) from None
    return secured


def _client_fault(fault: OSError) -> str:
    match fault:
        case ssl.SSLError(reason=str(reason)) if any(word in reason for word in _DISTRUST):
            return (
                f"the client does not trust the session's own certificate authority ({_reason(fault)}): it reads none "
                "of the variables that name it, or knows its server's certificate by heart"
            )
        case ssl.SSLEOFError():
            return "the client went away while TLS was being agreed on; it may not trust the session's own authority"
        case ssl.SSLError():
            return f"the client's TLS cannot be accepted: {_reason(fault)}"
        case TimeoutError():
            return "the client did not finish its TLS handshake in time"
    return f"the client was lost while TLS was being agreed on: {fault.strerror or fault}"


def _fault_of(host: str, fault: OSError) -> str:
    match fault:
        case ssl.SSLCertVerificationError(verify_message=str(message)):
            return f"the certificate of {host} is not accepted: {message.rstrip('.')}"
        case ssl.SSLEOFError():
            return f"{host} closed the connection before TLS was agreed on"
        case ssl.SSLError():
            return f"no TLS could be agreed on with {host}: {_reason(fault)}"
        case TimeoutError():
            return f"{host} did not finish its TLS handshake in time"
    return f"{host} was lost while TLS was being agreed on: {fault.strerror or fault}"


def _reason(fault: ssl.SSLError) -> str:
    return (fault.reason or "unknown").replace("_", " ").lower()
