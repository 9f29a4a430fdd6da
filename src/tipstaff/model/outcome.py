"""The Outcome: what a door gives back of one request, whether it ran, was refused, or could not be set up."""

from typing import Any

import msgspec

from tipstaff.model.decision import Effect
from tipstaff.model.noun import Noun
from tipstaff.model.receipt import Ending
from tipstaff.model.tiers import Verdict

Json = dict[str, Any]


class StreamRecord(Noun):
    """One stream of a command: how much passed, its digest as released, and the blob that keeps a copy."""

    bytes: int = 0
    sha256: str = ""
    truncated: bool = False  # the kept copy is shorter, and says so at its end
    kept: str | None = None


class Usage(Noun):
    """What a run took."""

    wall_ms: int = 0
    cpu_ms: int = 0
    peak_memory_bytes: int = 0


class Outcome(Noun):
    """How one request ended. A refusal is an outcome too, never an exception."""

    decision: Effect
    policy: str  # the policy's name
    ending: Ending
    exit_code: int
    run_id: str | None = None  # None where policy denied: then there was no run
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    requested_tier: str | None = None
    tier: str | None = None  # None where nothing was run
    stdout: bytes = b""  # the kept copy, capped
    stderr: bytes = b""
    streams: dict[str, StreamRecord] = msgspec.field(default_factory=dict)
    refusals: tuple[str, ...] = ()  # what was refused while it ran
    changes: tuple[Json, ...] = ()  # what it changed in its workspace, as its `file.changed` events say
    enforcement: tuple[Verdict, ...] = ()
    usage: Usage | None = None
    receipt: Json | None = None  # signed by the runner, countersigned by the plane
    refusal: Json | None = None  # signed by the plane, where nothing ran
    message: str = ""  # a sentence, where the ending needs one

    @property
    def ok(self) -> bool:
        """Say whether the command ran and succeeded."""
        return self.ending == "exited" and self.exit_code == 0
