"""Puts secrets into requests on their way out: a placeholder in, the value out. The gate asks, for each request.

1. A placeholder counts only in the header that its lease names: alone, behind a scheme (`Bearer …`), or as the user or
   the password of `Basic`. Anywhere else, in any spelling that `forms` lists, it has the request refused.
2. Each one that counts must be leased for the host, the method and the path, over TLS, in time, with uses left. One
   that is not has the request refused; a use is counted only when all are put in.
3. A request without a placeholder is not touched.

Reasons name a secret and never its value. Does nothing for requests that are signed with a secret (AWS SigV4, HMAC),
for values that belong into a body, a URL or a cookie, for client certificates and for WebSockets.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from tipstaff.model.decision import SecretLease
from tipstaff.model.outgoing import Outgoing
from tipstaff.policy.hosts import covers, normal_pattern
from tipstaff.policy.patterns import any_of
from tipstaff.secrets.forms import forms
from tipstaff.secrets.passing import Stream
from tipstaff.secrets.redact import Leak, Redactor

HEADER: Final = "Authorization"
WHERE: Final = "egress"  # how a leak names the answers that came through the gate
_SCHEME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_CARRIED: Final = re.compile(r"[!-~]+( +[!-~]+)*\Z")
_PAIR: Final = 2  # a user and a password

NormalPath = Callable[[str], str]  # spells a target's path in its one way, or raises ValueError


def fault_of_injected(value: str) -> str | None:
    """Say why no header can carry `value`, or None; to be asked before it is released."""
    if not _CARRIED.match(value):
        return "a header takes visible ASCII characters, with blanks between them, and no line ends"
    return None


class Injector:
    """The injected secrets of one run. Leases of another way, and secrets that were not released, are left out."""

    def __init__(
        self,
        leases: Iterable[SecretLease],
        values: Mapping[str, str],
        placeholders: Mapping[str, str],
        clock: Callable[[], float],  # seconds, never going back; leases run from now on
        normal_path: NormalPath,
    ) -> None:
        held = [lease for lease in leases if lease.way == "inject" and lease.name in values]
        for lease in held:
            if fault := fault_of_injected(values[lease.name]):
                raise ValueError(f"the secret {lease.name} cannot be injected: {fault}")
        now = clock()
        self._slots = tuple(_Slot(lease, values[lease.name], placeholders[lease.name], now) for lease in held)
        self._clock = clock
        self._normal_path = normal_path
        self._spotter = _Spotter({lease.name: placeholders[lease.name] for lease in held})
        # Made before anything is sent: a value that could not be found in an answer must not go out.
        self._answers = Redactor({lease.name: values[lease.name] for lease in held})

    def apply(self, outgoing: Outgoing) -> Outgoing | str:
        """Put in what may be: the very same request when there is nothing to do, a reason when it must not go out."""
        put = [self._put(name.lower(), value) for name, value in outgoing.headers]
        if reason := self._astray(outgoing, put):
            return reason
        used = list(dict.fromkeys(slot for one in put for slot in one.used))
        for slot in used:
            if reason := slot.refusal(outgoing, self._clock(), self._normal_path):
                return f"the secret {slot.lease.name} {reason}"
        for slot in used:
            slot.left = None if slot.left is None else slot.left - 1
        named = zip(outgoing.headers, put, strict=True)
        headers = tuple((name, one.value) for (name, _), one in named)
        return msgspec.structs.replace(outgoing, headers=headers) if used else outgoing

    def reaches(self, host: str) -> bool:
        """Say whether a secret may be sent to `host`: any answer of its may then hold one."""
        return any(covers(pattern, host) for slot in self._slots for pattern in slot.hosts)

    def scanner(self) -> "Scanner":
        """Look through the body of one request."""
        return Scanner(self._spotter)

    def mask(self) -> Stream:
        """Hide the values in one answer, byte for byte."""
        return self._answers.masking(WHERE)

    def leaks(self) -> tuple[Leak, ...]:
        """Say which secrets came back in answers, and how often."""
        return self._answers.leaks()

    def _put(self, header: bytes, value: bytes) -> "_Put":
        credential = _read(value)
        slots = [self._slot(header, credential, place) for place in range(len(credential.parts))]
        used = tuple(slot for slot in slots if slot is not None)
        if not used:
            return _Put(value, (), b"\n".join((value, *credential.parts)))
        pairs = list(zip(credential.parts, slots, strict=True))
        parts = tuple(part if slot is None else slot.value for part, slot in pairs)
        rest = b"\n".join((credential.before, *(part for part, slot in pairs if slot is None)))
        return _Put(_spelled(credential.before, parts), used, rest)

    def _slot(self, header: bytes, credential: "_Credential", place: int) -> "_Slot | None":
        for slot in self._slots:
            if slot.header == header and slot.placeholder == credential.parts[place]:
                # The first colon ends a user's name, so that a value with one would become another.
                ends_early = len(credential.parts) == _PAIR and place == 0 and b":" in slot.value
                return None if ends_early else slot
        return None

    def _astray(self, outgoing: Outgoing, put: "list[_Put]") -> str:
        """Say which placeholder stands where it does not count, or nothing."""
        places = list(_places(outgoing, put))
        name = self._spotter.spot(b"\n".join(text for _, text in places))
        if not name:
            return ""
        where = next((where for where, text in places if self._spotter.spot(text)), "the request's head")
        header = next(slot.lease.header or HEADER for slot in self._slots if slot.lease.name == name)
        return f"a placeholder of the secret {name} stands in {where}; it counts only as a credential in {header}"


class Scanner:
    """Finds placeholders in the body of one request, however it is cut."""

    def __init__(self, spotter: "_Spotter") -> None:
        self._spotter = spotter
        self._tail = b""

    def feed(self, data: bytes) -> str:
        """Take the next bytes, and say why they must not go on, or nothing."""
        text = self._tail + data
        self._tail = text[-self._spotter.keep :]
        name = self._spotter.spot(text)
        return (
            f"a placeholder of the secret {name} stands in the request's body; values go into headers only"
            if name
            else ""
        )


class _Slot:
    """One secret that is leased for injection."""

    def __init__(self, lease: SecretLease, value: str, placeholder: str, now: float) -> None:
        self.lease = lease
        self.value = value.encode()
        self.placeholder = placeholder.encode()
        self.header = (lease.header or HEADER).lower().encode()
        self.hosts = tuple(normal_pattern(host) for host in lease.hosts)
        self.left = lease.uses
        self._path_fits = any_of(lease.paths)
        self._until = None if lease.ttl_seconds is None else now + lease.ttl_seconds

    def refusal(self, outgoing: Outgoing, now: float, normal_path: NormalPath) -> str:
        """Say why the secret does not go out with this request, or nothing."""
        checks = (
            ("goes out over TLS only", outgoing.secured),
            (f"may not be sent to {outgoing.host}", any(covers(pattern, outgoing.host) for pattern in self.hosts)),
            (
                f"may not be sent with {outgoing.method}",
                not self.lease.methods or outgoing.method in self.lease.methods,
            ),
            ("may not be sent to this path", self._fits(outgoing.path, normal_path)),
            ("needs its header once, and not several times", self._stands_once(outgoing)),
            (
                f"was leased for {self.lease.ttl_seconds} seconds, which are over",
                self._until is None or now < self._until,
            ),
            (f"was leased for {self.lease.uses} uses, which are used up", self.left is None or self.left > 0),
        )
        return next((reason for reason, holds in checks if not holds), "")

    def _fits(self, target: str, normal_path: NormalPath) -> bool:
        if not self.lease.paths:
            return True
        try:
            return self._path_fits(normal_path(target))
        except ValueError:
            return False

    def _stands_once(self, outgoing: Outgoing) -> bool:
        return sum(name.lower() == self.header for name, _ in outgoing.headers) == 1


class _Spotter:
    """Finds placeholders in bytes; `keep` is how many of a stream's last bytes may be the beginning of one."""

    def __init__(self, placeholders: Mapping[str, str]) -> None:
        self._redactor = Redactor(placeholders)
        spellings = (form for placeholder in placeholders.values() for form in forms(placeholder.encode()))
        self.keep = max(map(len, spellings), default=2) - 1

    def spot(self, data: bytes) -> str:
        """Name a secret whose placeholder is in `data`, or nothing."""
        before = self._redactor.leaks()
        if self._redactor.data(WHERE, data) == data:
            return ""
        return next(leak.secret for leak in self._redactor.leaks() if leak not in before)


class _Credential(NamedTuple):
    """A header's value, taken apart: two parts are a user and a password, which travel in base64."""

    before: bytes
    parts: tuple[bytes, ...]


class _Put(NamedTuple):
    """A header's value with secrets put in, whose they are, and what else stands there."""

    value: bytes
    used: tuple[_Slot, ...]
    rest: bytes


def _read(value: bytes) -> _Credential:
    scheme, blank, text = value.rpartition(b" ")
    if blank and not _SCHEME.match(scheme):
        return _Credential(b"", (value,))
    pair = _pair(text) if scheme.lower() == b"basic" else ()
    return _Credential(scheme + blank, pair or (text,))


def _pair(text: bytes) -> tuple[bytes, ...]:
    try:
        user, colon, password = base64.b64decode(text, validate=True).partition(b":")
    except binascii.Error:
        return ()
    return (user, password) if colon else ()


def _spelled(before: bytes, parts: tuple[bytes, ...]) -> bytes:
    return before + (base64.b64encode(b":".join(parts)) if len(parts) == _PAIR else parts[0])


def _places(outgoing: Outgoing, put: list[_Put]) -> Iterator[tuple[str, bytes]]:
    """List what must hold no placeholder: everything but the credentials that are put in."""
    target = outgoing.path.encode(errors="surrogateescape")
    plain = unquote_to_bytes(target)
    yield "the method", outgoing.method.encode(errors="surrogateescape")
    yield "the path", b"\n".join((target, plain, unquote_to_bytes(plain)))
    yield "the name of a header", b"\n".join(name for name, _ in outgoing.headers)
    for (name, _), one in zip(outgoing.headers, put, strict=True):
        yield f"the header {name.decode(errors='replace')}", one.rest
