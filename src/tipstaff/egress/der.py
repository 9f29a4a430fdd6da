"""Certificates, spelled in DER by hand: X.509 v3 with P-256 keys and the few extensions that TLS servers need.

Only writes, and only what we chose ourselves; whatever others wrote is read by OpenSSL. By hand because the builder in
`cryptography` takes a tenth of a second to import, and an inspected run waits for its authority before its command may
start. A test has every certificate read by `cryptography` and by `openssl verify -x509_strict`.
"""

import base64
import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tipstaff.policy.hosts import is_address

SEQUENCE: Final = 0x30
SET: Final = 0x31
INTEGER: Final = 0x02
BITS: Final = 0x03
OCTETS: Final = 0x04
TEXT: Final = 0x0C
UTC_TIME: Final = 0x17
LATER_TIME: Final = 0x18
YES: Final = bytes.fromhex("0101ff")

# Object identifiers, as they stand in a certificate.
ORGANIZATION: Final = bytes.fromhex("060355040a")  # a common name would be taken for a host, and judged as one (GnuTLS)
EC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
P256: Final = bytes.fromhex("06082a8648ce3d030107")
ECDSA_SHA256: Final = bytes.fromhex("300a06082a8648ce3d040302")
SUBJECT_KEY: Final = bytes.fromhex("0603551d0e")
KEY_USAGE: Final = bytes.fromhex("0603551d0f")
OTHER_NAMES: Final = bytes.fromhex("0603551d11")
CONSTRAINTS: Final = bytes.fromhex("0603551d13")
NAME_CONSTRAINTS: Final = bytes.fromhex("0603551d1e")
AUTHORITY_KEY: Final = bytes.fromhex("0603551d23")
PURPOSES: Final = bytes.fromhex("0603551d25")
SERVER: Final = bytes.fromhex("06082b06010505070301")

SIGNS_CERTIFICATES: Final = bytes.fromhex("03020106")  # keyCertSign and cRLSign
SIGNS: Final = bytes.fromhex("03020780")  # digitalSignature: all that a P-256 key does in TLS 1.2 and 1.3
DNS: Final = 0x82
ADDRESS: Final = 0x87
CENTURY_TURN: Final = 2050  # RFC 5280, 4.1.2.5: from then on, years have four digits
LONG_LENGTH: Final = 0x80


class Body(NamedTuple):
    """What a certificate says."""

    serial: int
    issuer: str
    subject: str
    not_before: float  # seconds since 1970
    not_after: float
    point: bytes  # the public key, uncompressed
    extensions: tuple[bytes, ...]


def element(tag: int, *parts: bytes) -> bytes:
    """Spell one element: its tag, its length, its content."""
    content = b"".join(parts)
    if len(content) < LONG_LENGTH:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, LONG_LENGTH | len(length))) + length + content


ALL_ADDRESSES: Final = (element(ADDRESS, bytes(8)), element(ADDRESS, bytes(32)))  # 0.0.0.0/0 and ::/0
ALL_NAMES: Final = (element(DNS),)


def to_be_signed(body: Body) -> bytes:
    """Spell the part of a certificate that its issuer signs."""
    return element(
        SEQUENCE,
        element(0xA0, _number(2)),  # version 3
        _number(body.serial),
        ECDSA_SHA256,
        _name(body.issuer),
        element(SEQUENCE, _time(body.not_before), _time(body.not_after)),
        _name(body.subject),
        element(SEQUENCE, element(SEQUENCE, EC_KEY, P256), element(BITS, b"\0", body.point)),
        element(0xA3, element(SEQUENCE, *body.extensions)),
    )


def certificate(signed: bytes, signature: bytes) -> bytes:
    """Spell a certificate from what was signed and its ECDSA signature."""
    return element(SEQUENCE, signed, ECDSA_SHA256, element(BITS, b"\0", signature))


def private_key(secret: int, point: bytes) -> bytes:
    """Spell a P-256 private key as RFC 5915 does."""
    number = element(OCTETS, secret.to_bytes(32, "big"))
    return element(SEQUENCE, _number(1), number, element(0xA0, P256), element(0xA1, element(BITS, b"\0", point)))


def pem(label: str, content: bytes) -> str:
    """Spell DER as PEM."""
    text = base64.b64encode(content).decode()
    lines = (text[start : start + 64] for start in range(0, len(text), 64))
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def of_authority(key_id: bytes, names: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Spell the extensions of an authority that signs servers' certificates and no further authority's."""
    return (
        _extension(CONSTRAINTS, element(SEQUENCE, YES, _number(0)), critical=True),
        _extension(KEY_USAGE, SIGNS_CERTIFICATES, critical=True),
        _extension(SUBJECT_KEY, element(OCTETS, key_id)),
        *names,
    )


def of_server(host: str, key_id: bytes, authority_key_id: bytes) -> tuple[bytes, ...]:
    """Spell the extensions of the server `host`, which is normal."""
    return (
        _extension(CONSTRAINTS, element(SEQUENCE), critical=True),
        _extension(KEY_USAGE, SIGNS, critical=True),
        _extension(PURPOSES, element(SEQUENCE, SERVER)),
        _extension(SUBJECT_KEY, element(OCTETS, key_id)),
        _extension(AUTHORITY_KEY, element(SEQUENCE, element(0x80, authority_key_id))),
        _extension(OTHER_NAMES, element(SEQUENCE, _general(host))),
    )


def only_for(hosts: Iterable[str]) -> bytes:
    """Spell that an authority may sign for `hosts` and names below them alone. They are normal, without wildcards."""
    given = sorted(set(hosts))
    kinds = {is_address(host) for host in given}
    # A kind of name that no subtree speaks of is not constrained at all, so an absent kind is excluded whole.
    excluded = (() if True in kinds else ALL_ADDRESSES) + (() if False in kinds else ALL_NAMES)
    lists = ((0xA0, tuple(_subtree(host) for host in given)), (0xA1, excluded))
    spelled = (element(tag, *(element(SEQUENCE, base) for base in bases)) for tag, bases in lists if bases)
    return _extension(NAME_CONSTRAINTS, element(SEQUENCE, *spelled), critical=True)


def _subtree(host: str) -> bytes:
    if not is_address(host):
        return element(DNS, host.encode())
    packed = ipaddress.ip_address(host).packed
    return element(ADDRESS, packed, b"\xff" * len(packed))


def _general(host: str) -> bytes:
    return element(ADDRESS, ipaddress.ip_address(host).packed) if is_address(host) else element(DNS, host.encode())


def _extension(identifier: bytes, value: bytes, *, critical: bool = False) -> bytes:
    return element(SEQUENCE, identifier, YES if critical else b"", element(OCTETS, value))


def _number(value: int) -> bytes:
    return element(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _name(text: str) -> bytes:
    return element(SEQUENCE, element(SET, element(SEQUENCE, ORGANIZATION, element(TEXT, text.encode()))))


def _time(seconds: float) -> bytes:
    moment = datetime.fromtimestamp(int(seconds), UTC)
    if moment.year < CENTURY_TURN:
        return element(UTC_TIME, moment.strftime("%y%m%d%H%M%SZ").encode())
    return element(LATER_TIME, moment.strftime("%Y%m%d%H%M%SZ").encode())
