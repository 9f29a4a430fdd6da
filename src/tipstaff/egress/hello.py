"""The first message of TLS, read without taking part: whom does the client want to speak to? Pure.

A ClientHello may come in many segments and records; it is put together within bounds. Whatever is said twice, or is
longer or shorter than it says, is refused: two readers would see two names. What the client asks for inside the tunnel
later (Host, a second ClientHello after a retry) is not seen here: only inspection sees that. Browsers send a decoy of
an encrypted ClientHello that nobody can tell from a real one: they need a rule that is opaque, or inspected.
"""

from typing import Final, Literal, NamedTuple

from tipstaff.egress.refusal import RefusalError
from tipstaff.policy.hosts import is_address, normal_host

MAX_HELLO: Final = 1 << 16
MAX_RECORD: Final = 1 << 14
UNRECOGNIZED_NAME: Final = 112
INTERNAL_ERROR: Final = 80

RECORD_HEAD: Final = 5
MESSAGE_HEAD: Final = 4
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_ENCRYPTED: Final = frozenset((0xFE0D, 0xFFCE))  # Encrypted ClientHello, and the draft before it


class Hello(NamedTuple):
    """What a client says of whom it wants; `name` is empty where it does not say."""

    name: str
    encrypted: bool


class HelloReader:
    """Puts a ClientHello together as it comes; each byte is looked at once, however small the pieces are."""

    def __init__(self) -> None:
        self._raw = bytearray()  # of the record that is not whole yet
        self._joined = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> Hello | None:
        """Take the next bytes; None when more is needed, RefusalError when it is no ClientHello."""
        self._raw += data
        self._seen += len(data)
        while (content := self._record()) is not None:
            self._joined += content
            if _is_whole(self._joined):
                return _hello(_Reader(bytes(self._joined[4:])))
        if self._seen > MAX_HELLO:
            raise RefusalError("the TLS ClientHello is longer than 64 KiB")
        return None

    def _record(self) -> bytes | None:
        """Take a whole record off the front; what cannot be one is refused at its first byte."""
        raw = self._raw
        if not b"\x16\x03".startswith(raw[:2]):
            raise _not_tls()
        length = int.from_bytes(raw[3:RECORD_HEAD])
        if len(raw) >= RECORD_HEAD and not 0 < length <= MAX_RECORD:
            raise _not_tls()
        if len(raw) < RECORD_HEAD or len(raw) < RECORD_HEAD + length:
            return None
        content = bytes(raw[RECORD_HEAD : RECORD_HEAD + length])
        del raw[: RECORD_HEAD + length]
        return content


def depth_of(hello: Hello, host: str, *, ended_here: bool = False) -> Literal["name", "sni"]:
    """Say how deep a ClientHello lets us look; RefusalError when it wants another host, or hides whom it wants."""
    if hello.encrypted and not ended_here:  # to us, who have no key for it, its outer name is the only one
        raise RefusalError("the TLS ClientHello is encrypted (ECH): whom the client wants cannot be seen")
    if not hello.name:
        if is_address(host):
            return "name"  # TLS names no addresses
        raise RefusalError("the TLS ClientHello names no host", alert=UNRECOGNIZED_NAME)
    try:
        name = normal_host(hello.name)
    except ValueError:
        name = ""
    if name != host:
        raise RefusalError(f"the TLS ClientHello names another host than {host}", alert=UNRECOGNIZED_NAME)
    return "sni"


def alert(number: int) -> bytes:
    """Spell a fatal alert."""
    return bytes((21, 3, 3, 0, 2, 2, number))


def _is_whole(joined: bytearray) -> bool:
    """Say whether the message is complete; something after it in the same record is refused."""
    if joined[0] != _CLIENT_HELLO:
        raise _not_tls()
    length = int.from_bytes(joined[1:MESSAGE_HEAD])
    if len(joined) >= MESSAGE_HEAD and length > MAX_HELLO:
        raise RefusalError("the TLS ClientHello is longer than 64 KiB")
    if len(joined) > MESSAGE_HEAD + length and len(joined) >= MESSAGE_HEAD:
        raise _not_tls()
    return len(joined) >= MESSAGE_HEAD and len(joined) == MESSAGE_HEAD + length


def _hello(reader: "_Reader") -> Hello:
    if reader.number(2) >> 8 != 3:  # noqa: PLR2004 - TLS is 3.x
        raise _not_tls()
    reader.take(32)
    for size in (1, 2, 1):  # session, ciphers, compression
        reader.vector(size)
    found: dict[int, bytes] = {}
    extensions = _Reader(reader.vector(2)) if reader.left else reader
    if reader.left:
        raise _not_tls()
    while extensions.left:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind in found:
            raise RefusalError("the TLS ClientHello says the same thing twice")
        found[kind] = content
    return Hello(_name(found[_SERVER_NAME]) if _SERVER_NAME in found else "", bool(_ENCRYPTED & found.keys()))


def _name(content: bytes) -> str:
    outer = _Reader(content)
    names = _Reader(outer.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind or names.left or outer.left or not name:
        raise RefusalError("the TLS ClientHello does not name exactly one host", alert=UNRECOGNIZED_NAME)
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise RefusalError("the TLS ClientHello names a host that is not ASCII", alert=UNRECOGNIZED_NAME) from None


class _Reader:
    """Bytes, taken from the front; too few of them are no ClientHello."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise _not_tls()
        self._place += count
        return self._data[self._place - count : self._place]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))


def _not_tls() -> RefusalError:
    return RefusalError("what the client sends is not TLS")
