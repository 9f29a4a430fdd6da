"""What every harness answers to: a prompt goes in, a command line comes out. Pure."""

from typing import NamedTuple, Protocol


class Line(NamedTuple):
    """What is started for a prompt."""

    argv: tuple[str, ...]  # the protocol's command line, which the receipt hashes
    spawned: tuple[str, ...] = ()  # what is really started, where that is something else
    files: tuple[tuple[str, str], ...] = ()  # (where inside /tmp, content): there before it starts

    @property
    def started(self) -> tuple[str, ...]:
        """Give what is really started."""
        return self.spawned or self.argv


class Adapter(Protocol):
    """One kind of agent."""

    kind: str
    harness_only: bool  # it is never spawned: only a tier that brings this very harness may take it

    def line(self, prompt: str) -> Line:
        """Say what is started for `prompt`."""
        ...
