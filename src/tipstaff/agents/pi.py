"""The agent `pi`: its harness is no program that could be spawned; only a tier that brings it may take its run."""

from tipstaff.agents.adapter import Line


class Pi:
    """A placeholder, which is hashed and never started."""

    kind = "pi"
    harness_only = True

    def line(self, prompt: str) -> Line:  # noqa: ARG002 - the harness takes the prompt from the contract
        """Give the placeholder."""
        return Line(("pi", "--harness-only"))
