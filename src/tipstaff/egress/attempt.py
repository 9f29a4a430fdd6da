"""What is told about one attempt to get out, and what is counted while it lasts.

An `Attempt` is a value, told once, at its end. An `Account` is kept over the whole run for each rule, and for the grant
that rules come from: what is open, and how many bytes went through. A `Meter` counts for one connection and asks the
account for room.
"""

from typing import Literal

import msgspec

from tipstaff.egress.refusal import RefusalError
from tipstaff.policy.bounds import least

Depth = Literal["name", "sni", "http", "inspected", "opaque", ""]


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, from its first byte to its end."""

    host: str = ""
    port: int = 0
    decision: Literal["allowed", "blocked"] = "blocked"
    rule: str = ""  # the policy rule that allowed it
    depth: Depth = ""  # how deep the gate could look
    reason: str = ""
    advice: str = ""
    address: str = ""  # what was dialled
    bytes_out: int = 0
    bytes_in: int = 0
    method: str = ""
    failed: bool = False  # it was refused or came to nothing, at its beginning or later


class Account:
    """What was used of one bound: of a rule's own, within that of the grant that several rules may come from."""

    def __init__(self, max_bytes: int | None, max_connections: int | None, within: "Account | None" = None) -> None:
        self._max_bytes = max_bytes
        self._max_connections = max_connections
        self._within = within
        self._open = 0
        self._bytes = 0

    def enter(self) -> None:
        """Count one more connection, or refuse it."""
        self._check_room()
        if self._within is not None:
            self._within.enter()
        self._open += 1

    def _check_room(self) -> None:
        if self._max_connections is not None and self._open >= self._max_connections:
            raise RefusalError(f"its rule allows {self._max_connections} connections at once", status=429)
        if self.room() == 0:
            raise RefusalError(f"its rule allows {self._max_bytes} bytes in all, and they are used up")

    def leave(self) -> None:
        """Count one connection less."""
        self._open -= 1
        if self._within is not None:
            self._within.leave()

    def room(self) -> int | None:
        """Say how many bytes may still pass; None for any number."""
        own = None if self._max_bytes is None else max(0, self._max_bytes - self._bytes)
        return least(own, self._within.room() if self._within is not None else None)

    def spend(self, count: int) -> None:
        """Count bytes that pass now."""
        self._bytes += count
        if self._within is not None:
            self._within.spend(count)


class Meter:
    """Counts the bytes of one connection, and of its rule."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.bytes_out = 0
        self.bytes_in = 0

    @property
    def moved(self) -> int:
        """Count everything that passed."""
        return self.bytes_out + self.bytes_in

    def room(self) -> int | None:
        """Say how many bytes may still pass; None for any number."""
        return self._account.room()

    def out(self, count: int) -> None:
        """Count bytes that leave; refuses what is too much."""
        self._check(count)
        self.bytes_out += count

    def came(self, count: int) -> None:
        """Count bytes that come back; refuses what is too much."""
        self._check(count)
        self.bytes_in += count

    def _check(self, count: int) -> None:
        room = self._account.room()
        if room is not None and count > room:
            self._account.spend(room)
            raise used_up()
        self._account.spend(count)


def used_up() -> RefusalError:
    """Say that a connection was ended because its rule has no bytes left."""
    return RefusalError("the bytes that its rule allows in all are used up", midway=True)
