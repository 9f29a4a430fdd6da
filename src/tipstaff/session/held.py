"""The secrets of one run, once they are released: what its command sees of them, and what nobody may see of them.

A secret that is injected never enters the sandbox: a placeholder stands for it. Whatever leaves the session as a record
or as output goes through `redacted` and `stream`. A run without secrets imports none of this machinery.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tipstaff.errors import SecretError
from tipstaff.model.decision import SecretLease

if TYPE_CHECKING:
    from tipstaff.secrets.inject import Injector
    from tipstaff.secrets.redact import Redactor

Json = dict[str, Any]


class Passing(Protocol):
    """A stream on its way out; may hold a tail back until it knows what it is."""

    def feed(self, data: bytes, /) -> bytes:
        """Take the next bytes, and give those that may go on."""

    def end(self) -> bytes:
        """Give what was held back."""


class Held:
    """What one session holds of secrets: nothing, unless its contract names some and the plane released them."""

    def __init__(self, contract: Json, released: Mapping[str, str], random: Callable[[int], bytes]) -> None:
        self.environ: Mapping[str, str] = released
        self._redactors: list[Redactor] = []
        self._injected: dict[str, str] = {}
        self._released = released
        if released:
            self._hold(contract, random)

    def _hold(self, contract: Json, random: Callable[[int], bytes]) -> None:
        from tipstaff.secrets.guard import no_dumps  # noqa: PLC0415 - most runs have no secret
        from tipstaff.secrets.placeholders import placeholders_for  # noqa: PLC0415 - as above
        from tipstaff.secrets.redact import Redactor  # noqa: PLC0415 - as above

        no_dumps()
        self._leases = [_lease(secret) for secret in contract["secrets"]]
        injected = {lease.name for lease in self._leases if lease.way == "inject"}
        self._injected = placeholders_for(
            {name: value for name, value in self._released.items() if name in injected}, random
        )
        self.environ = {**self._released, **self._injected}
        # Of what the command does not have, not even how right a guess is may be seen: that is looked for first.
        unknown = {name: self._released[name] for name in self._injected}
        known = {name: value for name, value in self._released.items() if name not in unknown}
        self._redactors = [Redactor(unknown, known=False)] if unknown else []
        self._redactors += [Redactor(known)] if known else []

    def injector(self, clock: Callable[[], float]) -> "Injector | None":
        """Give what puts secrets into requests, if any is to be put in."""
        if not self._injected:
            return None
        from tipstaff.egress.paths import normal_path  # noqa: PLC0415 - few runs inject
        from tipstaff.secrets.inject import Injector  # noqa: PLC0415 - as above

        try:
            return Injector(self._leases, self._released, self._injected, clock, normal_path)
        except ValueError as error:
            raise SecretError(str(error), hint="give it another value, or way: env") from error

    def stream(self, where: str) -> Passing | None:
        """Give what takes secrets out of a stream; None where there are none."""
        streams = [redactor.stream(where) for redactor in self._redactors]
        return _Both(*streams) if len(streams) > 1 else streams[0] if streams else None

    def mask(self, where: str) -> Callable[[bytes], bytes] | None:
        """Give what takes secrets out of a whole content; None where there are none."""
        if not self._redactors:
            return None

        def masked(content: bytes) -> bytes:
            passing = self.stream(where)
            return content if passing is None else passing.feed(content) + passing.end()

        return masked

    def redacted(self, where: str, value: Any) -> Any:
        """Take secrets out of a value of JSON."""
        for redactor in self._redactors:
            value = redactor.json(where, value)
        return value

    def leaks(self, injector: "Injector | None") -> list[Json] | None:
        """Say which secrets were found where, and how often; None for a run that had none."""
        if not self._redactors:
            return None
        found = [leak for one in (*self._redactors, *((injector,) if injector else ())) for leak in one.leaks()]
        return [msgspec.to_builtins(leak) for leak in sorted(found)]


class _Both:
    """Two passages, one behind the other."""

    def __init__(self, first: Passing, second: Passing) -> None:
        self._first = first
        self._second = second

    def feed(self, data: bytes, /) -> bytes:
        """Take the next bytes, and give those that may go on."""
        return self._second.feed(self._first.feed(data))

    def end(self) -> bytes:
        """Give what was held back."""
        return self._second.feed(self._first.end()) + self._second.end()


def _lease(secret: Json) -> SecretLease:
    """Read a secret's terms; a contract of the protocol's own has none, and means the environment."""
    terms = {"name": secret["name"], "scope": secret["scope"], **secret.get("lease", {})}
    return msgspec.convert(terms, SecretLease)
