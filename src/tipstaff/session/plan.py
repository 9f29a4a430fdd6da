"""From a contract to the plan that a tier runs. Pure: the host's variables are passed in.

Variables, later wins: ours, the released secrets by name, what is inherited, what the request sets, the mapped
secrets; then ours again, which no request can set: programs, home, and the way out. A contract that asks for what this
version cannot do is refused with the protocol's name for that, before anything is built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.isolation.tier import Plan
from tipstaff.model.events import FailureClass
from tipstaff.model.execution import (
    AgentSpec,
    Argv,
    Execution,
    Python,
    Shell,
    argv_hash,
    effective_execution,
    python_hash,
    shell_hash,
)
from tipstaff.model.limits import Limits
from tipstaff.session.reach import Way

Json = dict[str, Any]
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
HOME: Final = "/home"
ARGUMENT_BYTES: Final = 128 * 1024 - 1  # the kernel takes no longer one, its final NUL included
SCRIPT: Final = "/tmp/.tipstaff-script"  # noqa: S108 - inside the sandbox, whose /tmp is its own
_EMPTY: Final = digest([])


class UnfitContractError(Exception):
    """A contract that cannot be carried out here; `failure` is the protocol's name for why."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


def plan_of(contract: Json, secrets: Mapping[str, str], host: Mapping[str, str], way: Way) -> Plan:
    """Say what the contract's command is on this host, with its way out; UnfitContractError when it cannot be had."""
    _refuse_unbuilt(contract)
    execution = execution_of(contract)
    argv, files = _command(execution)
    granted, restricted = contract.get("files", {}), contract.get("restricted", {})
    return Plan(
        argv=argv,
        files=files + way.files,
        environ={**way.defaults, **environment(execution, secrets, host), **way.environ},
        limits=msgspec.convert(contract["limits"], Limits),
        cwd=getattr(execution, "cwd", "."),
        workspace=Path(granted["workspace"]) if granted.get("workspace") else None,
        mode="in-place" if granted.get("inPlace") else "copy-on-write",
        readable=tuple(map(Path, granted.get("readable", ()))),
        masked=tuple(restricted.get("names", ())) if restricted.get("mask") else (),
        kill_output_bytes=execution.log.max_bytes,
        port=way.port,
        on_trust=way.on_trust,
    )


def execution_of(contract: Json) -> Execution:
    """Read what the contract runs."""
    try:
        spelled = msgspec.convert(contract.get("execution"), Execution | None)
        agent = msgspec.convert(contract["agent"], AgentSpec)
    except msgspec.ValidationError as error:
        raise UnfitContractError("capability_mismatch", f"the execution cannot be read: {error}") from error
    return effective_execution(spelled, agent, contract["task"]["prompt"])


def command_hash(execution: Execution) -> str:
    """Hash the command as `command.executed` records it."""
    match execution:
        case Argv():
            return argv_hash(execution.command, execution.args, execution.cwd)
        case Shell():
            return shell_hash(execution.script, execution.shell, execution.cwd)
        case Python():
            return python_hash(execution.source, execution.args, execution.cwd)
    raise UnfitContractError("capability_mismatch", f"no harness for the agent {execution.agent.kind!r} is built in")


def environment(execution: Execution, secrets: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Put the command's variables together; nothing else is in its environment."""
    asked = execution.env
    ours = {"PATH": PATH, "HOME": HOME}
    return {
        "LANG": "C.UTF-8",
        **secrets,
        **{name: host[name] for name in asked.inherit if name in host},
        **asked.vars,
        **{mapped.env: secrets[mapped.secret_name] for mapped in asked.secrets if mapped.secret_name in secrets},
        **ours,
    }


def _command(execution: Execution) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Spell what is started, and the files that it needs: a script that is too long for one argument goes by file."""
    match execution:
        case Argv():
            return (execution.command, *execution.args), ()
        case Shell():
            return _interpreted(execution.shell, execution.script, ())
        case Python():
            return _interpreted("python3", execution.source, execution.args)
    raise UnfitContractError("capability_mismatch", f"no harness for the agent {execution.agent.kind!r} is built in")


def _interpreted(
    interpreter: str, source: str, args: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    if len(source.encode(errors="surrogateescape")) <= ARGUMENT_BYTES:
        return (interpreter, "-c", source, *args), ()
    return (interpreter, SCRIPT, *args), ((SCRIPT, source),)


def _refuse_unbuilt(contract: Json) -> None:
    """Refuse what would silently be less than the contract says."""
    if contract["workspace"].get("treeHash") != _EMPTY:
        raise UnfitContractError("capability_mismatch", "a captured workspace cannot be unpacked in this version")
