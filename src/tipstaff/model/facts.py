"""What the door and the host know about a request and no requester can write: who was proved, what can be enforced.

A door fills these in itself. A fact that is not known is left out, and `decide` then takes the narrower reading.
"""

from typing import Literal

from tipstaff.model.noun import Noun
from tipstaff.model.tiers import TierReport


class Facts(Noun):
    """The circumstances of one decision."""

    authenticated: str | None = None  # the id that the door proved; None where the door takes the requester's word
    authenticated_kind: Literal["human", "service", "agent"] | None = None
    tool_bound: bool = False  # the door itself made the execution, from a tool that the site declared
    tiers: tuple[TierReport, ...] = ()  # what this host can enforce; empty: not known here
    protected: tuple[str, ...] = ()  # paths that no grant may contain or lie in: the home, the policy file
