"""Agents: one file per harness, each of which says what is started for a prompt.

`find` gives the adapter of a kind, or None for one that is not built in. An adapter decides nothing and starts nothing;
it spells a command line, which a session runs in a sandbox like any other.
"""

from typing import Final

from tipstaff.agents.adapter import Adapter, Line
from tipstaff.agents.command import Command
from tipstaff.agents.mock import Mock
from tipstaff.agents.pi import Pi

__all__ = ["ADAPTERS", "Adapter", "Line", "find"]

ADAPTERS: Final[dict[str, Adapter]] = {adapter.kind: adapter for adapter in (Command(), Mock(), Pi())}


def find(kind: str) -> Adapter | None:
    """Give the adapter of an agent kind; None where there is none."""
    return ADAPTERS.get(kind)
