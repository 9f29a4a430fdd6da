"""How a gate is set up: its limits, whom it asks, what it adds, how it reaches the world. Values and promises only.

What is absent is refused and never passed by: without `terminate` and `secure` no inspected connection, without `ask`
nothing that must be asked for.
"""

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from tipstaff.egress.attempt import Attempt
from tipstaff.egress.duplex import Duplex
from tipstaff.egress.upstream import Upstream
from tipstaff.model.network import EgressRule
from tipstaff.model.outgoing import Outgoing

Resolve = Callable[[str, int], Awaitable[list[str]]]
Dial = Callable[[str, int], Awaitable[socket.socket]]
Ask = Callable[[str, int, EgressRule], Awaitable[bool]]
Inject = Callable[[Outgoing], Outgoing | str]
Protect = Callable[[Duplex, str], Awaitable[Duplex]]


class Mask(Protocol):
    """Hides bytes of an answer without changing its length; may hold some back until it knows."""

    def feed(self, data: bytes, /) -> bytes:
        """Take the next bytes, and give those that are settled."""

    def end(self) -> bytes:
        """Give what was held back."""


class Scan(Protocol):
    """Looks for what must not leave in the body of a request."""

    def feed(self, data: bytes, /) -> str:
        """Take the next bytes, and say why they must not go on, or nothing."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one gate bears."""

    head_bytes: int = 32 << 10
    head_seconds: float = 10.0  # for a request's head, and for a ClientHello
    connect_seconds: float = 10.0  # for a name and an address together
    idle_seconds: float = 300.0
    total_seconds: float = 86_400.0  # the run's own time ends before
    connections: int = 600


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a gate but its terms."""

    resolve: Resolve | None = None  # None: the host's own resolver
    dial: Dial | None = None  # None: TCP
    ask: Ask | None = None
    opened: Callable[[Attempt], None] | None = None  # told when a place was reached, before anything goes there
    inject: Inject | None = None  # a str is the reason of a refusal
    mask: Callable[[], Mask] | None = None  # for answers to requests that something was put into
    knows: Callable[[str], bool] | None = None  # hosts that may know a secret, and give it back at any time
    scan: Callable[[], Scan] | None = None  # for bodies of requests
    terminate: Protect | None = None  # TLS towards the client, as the host of that name
    secure: Protect | None = None  # TLS towards the host of that name
    upstream: Upstream | None = None
    credentials: str | None = None  # user:password, where others than the sandbox could reach the gate
    limits: Limits = Limits()
