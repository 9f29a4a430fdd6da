"""The agent `command`: the prompt is a script for sh. For whoever has a command and speaks to a door for agents."""

from typing import Final

from tipstaff.agents.adapter import Line
from tipstaff.model.execution import LONGEST_ARGUMENT

_SCRIPT: Final = "/tmp/.tipstaff-script"  # noqa: S108 - inside the sandbox, whose /tmp is its own


class Command:
    """A shell command as an agent."""

    kind = "command"
    harness_only = False

    def line(self, prompt: str) -> Line:
        """Run the prompt with sh."""
        argv = ("sh", "-c", prompt)
        if len(prompt.encode(errors="surrogateescape")) <= LONGEST_ARGUMENT:
            return Line(argv)
        return Line(argv, ("sh", _SCRIPT), ((_SCRIPT, prompt),))
