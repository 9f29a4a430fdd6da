"""The certificate authority of one session, so that the gate can look into TLS where a rule says `inspect`.

It lives in memory, signs only for the hosts that those rules name (its certificate says so: RFC 5280 name
constraints), and lives about as long as its session. No key is ever written to a disk: OpenSSL takes keys from files
only, so it is shown a file in memory that is gone at once.
Nothing is made before it is needed. Does not decide which connections are inspected.
"""

import hashlib
import os
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tipstaff.egress import der
from tipstaff.egress.tls import PROTOCOL
from tipstaff.policy.hosts import ANY, covers, normal_host, normal_pattern

LIFE_SECONDS: Final = 24 * 3600
BEFORE_SECONDS: Final = 300  # the clock inside is the host's own, but it may be set back a little meanwhile
CONTEXTS: Final = 128  # kept at once: a client may ask for any number of names below a wildcard
SERIAL_BITS: Final = 126  # RFC 5280 takes at most 20 bytes


class _Key(NamedTuple):
    private: ec.EllipticCurvePrivateKey
    point: bytes
    key_id: bytes


class _Made(NamedTuple):
    """What is made when it is first needed."""

    key: _Key
    server: _Key  # one for all servers: they are all this process
    name: str
    not_before: float
    not_after: float
    pem: str


class Authority:
    """Signs for `hosts`, which are patterns; it must outlive the session by its `life_seconds`."""

    def __init__(
        self,
        hosts: Iterable[str] = (ANY,),
        *,
        life_seconds: float = LIFE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hosts = tuple(sorted({normal_pattern(host) for host in hosts}))
        self._life_seconds = life_seconds
        self._now = now
        self._made: _Made | None = None
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    @property
    def certificate_pem(self) -> str:
        """The authority's own certificate: what clients inside have to trust."""
        return self._ready().pem

    def server_context(self, host: str) -> ssl.SSLContext:
        """Give what a server under the name or address `host` needs; ValueError for one that is not ours to sign."""
        host = normal_host(host)
        if not any(covers(pattern, host) for pattern in self._hosts):
            raise ValueError(f"no rule has connections to {host} inspected")
        if (context := self._contexts.pop(host, None)) is None:
            context = self._context(host)
        self._contexts[host] = context
        if len(self._contexts) > CONTEXTS:
            self._contexts.popitem(last=False)
        return context

    def _context(self, host: str) -> ssl.SSLContext:
        made = self._ready()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # as in `tls`
        context.num_tickets = 0  # a session that is resumed would skip nothing that costs here
        context.set_alpn_protocols([PROTOCOL])
        secret = made.server.private.private_numbers().private_value
        key = der.pem("EC PRIVATE KEY", der.private_key(secret, made.server.point))
        _load(context, self._leaf(made, host) + key)
        return context

    def _leaf(self, made: _Made, host: str) -> str:
        return _signed(
            made.key,
            der.Body(
                serial=_serial(),
                issuer=made.name,
                subject="Tipstaff egress gate",
                not_before=made.not_before,
                not_after=made.not_after,
                point=made.server.point,
                extensions=der.of_server(host, made.server.key_id, made.key.key_id),
            ),
        )

    def _ready(self) -> _Made:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> _Made:
        key, now = _new_key(), self._now()
        name = f"Tipstaff session {key.key_id.hex()[:16]}"
        first, last = now - BEFORE_SECONDS, now + self._life_seconds
        names = () if ANY in self._hosts else (der.only_for(host.removeprefix("*.") for host in self._hosts),)
        extensions = der.of_authority(key.key_id, names)
        body = der.Body(_serial(), name, name, first, last, key.point, extensions)
        return _Made(key, _new_key(), name, first, last, _signed(key, body))


def _new_key() -> _Key:
    private = ec.generate_private_key(ec.SECP256R1())
    numbers = private.public_key().public_numbers()
    point = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    return _Key(private, point, hashlib.sha256(point).digest()[:20])


def _signed(key: _Key, body: der.Body) -> str:
    signed = der.to_be_signed(body)
    return der.pem("CERTIFICATE", der.certificate(signed, key.private.sign(signed, ec.ECDSA(hashes.SHA256()))))


def _serial() -> int:
    return secrets.randbits(SERIAL_BITS) | 1


def _load(context: ssl.SSLContext, chain: str) -> None:
    """Hand a certificate and its key over, by a file that has no name and is gone afterwards."""
    descriptor = os.memfd_create("chain", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", encoding="ascii", closefd=False) as file:
            file.write(chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
