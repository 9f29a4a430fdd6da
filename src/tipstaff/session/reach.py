"""The way out of one run: where it listens, what the sandbox is told of it, and what is written down about its use.

Every sandbox with a network of its own has a gate, also one that may reach nothing: a refused attempt is evidence, and
says what would allow it. The gate is made when somebody knocks; a run that reaches nothing does not pay for it. Where
the tier has no network of its own, there is a gate only for hosts that were asked for: on the host's loopback, behind a
password, and nothing keeps the command to it.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tipstaff.egress.variables import DEFAULTS, proxy_variables
from tipstaff.session.attempts import Attempts
from tipstaff.session.held import Held

if TYPE_CHECKING:
    from tipstaff.egress.attempt import Attempt
    from tipstaff.egress.gate import Gate
    from tipstaff.egress.inspection import Inspection
    from tipstaff.egress.options import Options
    from tipstaff.egress.upstream import Upstream
    from tipstaff.session.questions import Questions

Json = dict[str, Any]
Told = Callable[[Json], None]
PORT: Final = 3128
STRANGER_SECONDS: Final = 3.0
OPEN_FILES: Final = 8192
PASSWORD_BYTES: Final = 24
OWN_NETWORK: Final = frozenset({"bwrap"})  # tiers


class Way(msgspec.Struct, frozen=True):
    """What a plan has to know."""

    port: int = 0
    on_trust: bool = False
    environ: Mapping[str, str] = {}
    defaults: Mapping[str, str] = {}  # variables that the request may set otherwise
    files: tuple[tuple[str, str], ...] = ()


CLOSED: Final = Way()
USUAL: Final = Way(port=PORT, environ=proxy_variables(PORT), defaults=DEFAULTS)


def usual_way(contract: Json) -> Way | None:
    """Give the way out that every session of this contract would have; None where each has one of its own."""
    if contract["tier"] not in OWN_NETWORK:
        return None if _asks_for_hosts(contract) else CLOSED
    if not (contract.get("execution") or {}).get("env", {}).get("egressProxy", True):
        return CLOSED
    return None if _inspects(contract) else USUAL


class Reach:
    """One session's way out."""

    def __init__(
        self, contract: Json, held: Held, environ: Mapping[str, str], told: Told, questions: "Questions | None" = None
    ) -> None:
        self._contract = contract
        self._held = held
        self._environ = environ
        self._questions = questions
        self._gate: Gate | None = None
        self._listener: socket.socket | None = None
        self._password = ""
        self._inspection: Inspection | None = None
        self.injector = held.injector(time.monotonic)
        self._upstream = _upstream(environ) if _asks_for_hosts(contract) else None
        self._attempts = Attempts(contract, told)
        self.way = usual_way(contract) or self._own_way()

    def _own_way(self) -> Way:
        """Make what only this session has: an authority of its own, or a socket of the host's."""
        if self._contract["tier"] not in OWN_NETWORK:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self._listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
            self._password = f"tipstaff:{os.urandom(PASSWORD_BYTES).hex()}"
            port = self._listener.getsockname()[1]
            way = Way(port, on_trust=True, environ=proxy_variables(port, self._password))
        else:
            way = USUAL
        return self._inspected(way) if _inspects(self._contract) else way

    def _inspected(self, way: Way) -> Way:
        from tipstaff.egress import trust  # noqa: PLC0415 - few runs have TLS terminated
        from tipstaff.egress.authority import Authority  # noqa: PLC0415 - as above
        from tipstaff.egress.inspection import Inspection  # noqa: PLC0415 - as above

        host = trust.host_bundle(self._environ)
        life = self._contract["limits"]["timeMs"] / 1000 + 3600
        authority = Authority([rule["host"] for rule in _inspected(self._contract)], life_seconds=life)
        self._inspection = Inspection(authority, host)
        file = trust.bundle(host, authority.certificate_pem)
        environ = {**way.environ, **trust.trust_variables()}
        return msgspec.structs.replace(way, environ=environ, files=(file,))

    def begin(self) -> None:
        """Listen where the tier does not."""
        if self._listener is not None:
            self.listen(self._listener)

    def listen(self, listener: socket.socket) -> None:
        """Take the socket that listens inside; the gate is made when somebody knocks."""
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._knocked)

    def _knocked(self) -> None:
        if (listener := self._listener) is None:
            return
        asyncio.get_running_loop().remove_reader(listener)
        self._listener = None
        from tipstaff.egress.gate import Gate  # noqa: PLC0415 - only who reaches it pays for it
        from tipstaff.egress.terms import terms_of  # noqa: PLC0415 - as above

        _raise_open_files()
        try:
            self._gate = Gate(terms_of(self._contract), self._ended, options=self._options())
        except BaseException:
            listener.close()  # nobody is let out by a gate that cannot be made
            raise
        self._gate.serve(listener)

    def _options(self) -> "Options":
        from tipstaff.egress.options import Limits, Options  # noqa: PLC0415 - as above

        ask = self._questions.ask if self._questions is not None else None
        options = Options(ask=ask, opened=self._opened, upstream=self._upstream)
        if self._password:  # where others can knock, nobody may keep a place for long without the password
            limits = Limits(head_seconds=STRANGER_SECONDS)
            options = msgspec.structs.replace(options, credentials=self._password, limits=limits)
        if self._inspection is not None:
            options = msgspec.structs.replace(
                options, terminate=self._inspection.terminate, secure=self._inspection.secure
            )
        if (injector := self.injector) is not None:
            options = msgspec.structs.replace(
                options, inject=injector.apply, mask=injector.mask, scan=injector.scanner, knows=injector.reaches
            )
        return options

    def _ended(self, attempt: "Attempt") -> None:
        self._attempts.ended(attempt, self._approved(attempt))

    def _opened(self, attempt: "Attempt") -> None:
        self._attempts.opened(attempt, self._approved(attempt))

    def _approved(self, attempt: "Attempt") -> Json:
        """Give the approval that let a connection through, where it needed one: the chain has to carry it."""
        if self._questions is None or attempt.decision != "allowed":
            return {}
        approval = self._questions.approval(attempt.host, attempt.port, attempt.rule)
        return {"approval": approval} if approval is not None else {}

    async def close(self) -> None:
        """End what is still open, and write it down."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        if self._gate is not None:
            await self._gate.close()
        self._attempts.close()

    @property
    def refusals(self) -> tuple[str, ...]:
        """Say what was refused, and what would allow it."""
        return tuple(self._held.redacted("refusals", list(self._attempts.sentences)))


def _raise_open_files() -> None:
    """Use as many descriptors as we may: a tunnel takes two."""
    import resource  # noqa: PLC0415 - as above

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def asks(contract: Json) -> bool:
    """Say whether people may have to be asked while the run is at work."""
    return any(rule.get("ask") for rule in (contract.get("egress") or {}).get("rules") or ())


def _inspected(contract: Json) -> list[Json]:
    rules = (contract.get("egress") or {}).get("rules") or ()
    return [rule for rule in rules if rule.get("inspect") or rule.get("methods") or rule.get("paths")]


def _inspects(contract: Json) -> bool:
    return bool(_inspected(contract))


def _upstream(environ: Mapping[str, str]) -> "Upstream | None":
    """Find the proxy that this host itself must use; most have none."""
    if not any(name.lower().endswith("_proxy") for name in environ):
        return None
    from tipstaff.egress.upstream import upstream_of  # noqa: PLC0415 - as above

    return upstream_of(environ)


def _asks_for_hosts(contract: Json) -> bool:
    network = contract["network"]
    return bool(network.get("allowHosts")) or not network.get("defaultDeny", True)
