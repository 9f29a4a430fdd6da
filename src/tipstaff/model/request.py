"""The Request: who wants what run, as a door writes it down.

Everything in it is a wish. What holds is the Decision; `principal` is what the door proved or was told, and the
facts given to `decide` say which.
"""

from typing import Annotated, Any, Literal

import msgspec

from tipstaff.errors import InputError
from tipstaff.model.execution import AgentSpec, Execution, effective_execution
from tipstaff.model.limits import Budget, Limits
from tipstaff.model.network import Egress, Network
from tipstaff.model.noun import Actor, Disclosure, Noun

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Files(Noun):
    """Folders of the host that the run would see; all absolute."""

    workspace: str | None = None
    in_place: bool = False
    captured: bool = False  # it was captured: the run sees what the manifest says, not the folder
    readable: tuple[str, ...] = ()


class Continuation(Noun):
    """Carried and verified, not acted on."""

    envelope_hash: str
    checkpoint_id: str
    tier: str


class Request(Noun):
    """What one door asks for."""

    requested_by: Actor
    door: Name = "cli"
    tool: str = ""  # the tool's name, at doors that have tools
    tool_effect: Literal["read", "write", "execute"] = "execute"  # declared by the site, never by the caller
    agent_kind: Name = "command"
    agent_version: str | None = None
    prompt: str = ""
    purpose: str = ""
    pool: Name = "default"
    secret_names: tuple[Name, ...] = ()
    workspace: dict[str, Any] | None = None  # the whole manifest, as it arrived
    files: Files = Files()
    network: Network = Network()
    egress: Egress = Egress()
    budget: Budget = Budget()
    limits: Limits = Limits()
    disclosure: Disclosure = "minimal-context"
    execution: Execution | None = None
    isolation: str | None = None
    continuation: Continuation | None = None

    @property
    def effective(self) -> Execution:
        """What would really run."""
        return effective_execution(
            self.execution, AgentSpec(kind=self.agent_kind, version=self.agent_version), self.prompt
        )


def parse_request(value: Any) -> Request:
    """Read a request as the wire has it: unknown fields and wrong types are an error that names the place."""
    try:
        return msgspec.convert(value, Request)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"the request is malformed: {error}", hint="see docs/policy.md for its fields") from error
