"""The agent `mock`: a small script that acts like an agent, so that a governed run can be shown without a vendor.

It adds its task to MOCK_AGENT.md and says whether it saw MOCK_SECRET (never its value). The words "network" and "fail"
in a task make it ask for a host through the gate, and fail. What it prints and writes is the same everywhere.
"""

from pathlib import Path
from typing import Final

from tipstaff.agents.adapter import Line
from tipstaff.model.execution import LONGEST_ARGUMENT

NAME: Final = "mock-agent"
_PROMPT: Final = "/tmp/.tipstaff-prompt"  # noqa: S108 - inside the sandbox, whose /tmp is its own
_SCRIPT: Final = Path(__file__).parent / "inside" / "mock.sh"


class Mock:
    """An agent for demonstrations and tests."""

    kind = "mock"
    harness_only = False

    def line(self, prompt: str) -> Line:
        """Run our script with the prompt as its argument; a long one is read from a file."""
        script = _SCRIPT.read_text()
        argv = ("bash", "-c", script, NAME, prompt)
        if len(prompt.encode(errors="surrogateescape")) <= LONGEST_ARGUMENT:
            return Line(argv)
        # The file ends with a mark, because a shell takes line feeds off the end of what it reads.
        return Line(argv, ("bash", "-c", script, NAME), ((_PROMPT, f"{prompt}."),))
