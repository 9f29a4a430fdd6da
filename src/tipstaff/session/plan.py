"""From a contract to the plan that a tier runs. Pure: the host's variables are passed in.

Variables, later wins: ours, the released secrets by name, what is inherited, what the request sets, the mapped
secrets; then ours again, which no request can set: programs, home, and the way out. A contract that asks for what this
version cannot do is refused with the protocol's name for that, before anything is built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.isolation.tier import Plan
from tipstaff.model.events import FailureClass
from tipstaff.model.execution import (
    LONGEST_ARGUMENT,
    AgentRun,
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

if TYPE_CHECKING:
    from tipstaff.agents import Adapter

Json = dict[str, Any]
_Started = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]  # the program with its arguments; (where, content)
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
HOME: Final = "/home"
SCRIPT: Final = "/tmp/.tipstaff-script"  # noqa: S108 - inside the sandbox, whose /tmp is its own
_EMPTY: Final = digest([])


class UnfitContractError(Exception):
    """A contract that cannot be carried out here; `failure` is the protocol's name for why."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


def plan_of(
    contract: Json, secrets: Mapping[str, str], host: Mapping[str, str], way: Way, base: Path | None = None
) -> Plan:
    """Say what the contract's command is on this host, with its way out; UnfitContractError when it cannot be had.

    `base` is the captured workspace, unpacked; a contract that has one cannot be planned without it.
    """
    if base is None and is_captured(contract):
        raise UnfitContractError("transfer_failed", "the captured workspace is not there")
    execution = execution_of(contract)
    argv, files = _command(execution)
    granted, restricted = contract.get("files", {}), contract.get("restricted", {})
    workspace = base or (Path(granted["workspace"]) if granted.get("workspace") else None)
    is_in_place = bool(granted.get("inPlace")) and base is None  # a base is many runs', and never written
    return Plan(
        argv=argv,
        files=files + way.files,
        environ={**way.defaults, **environment(execution, secrets, host), **way.environ},
        limits=msgspec.convert(contract["limits"], Limits),
        cwd=getattr(execution, "cwd", "."),
        workspace=workspace,
        mode="in-place" if is_in_place else "copy-on-write",
        keep=workspace is not None and not is_in_place,
        harness=_harness(execution),
        readable=tuple(map(Path, granted.get("readable", ()))),
        masked=tuple(restricted.get("names", ())) if restricted.get("mask") else (),
        kill_output_bytes=execution.log.max_bytes,
        port=way.port,
        on_trust=way.on_trust,
    )


def is_captured(contract: Json) -> bool:
    """Say whether the run works on a workspace that was captured: anything but the empty tree of a run without one.

    A folder of which nothing may be taken is an empty tree as well: what was left out of it must not be seen instead.
    """
    manifest = contract["workspace"]
    if contract.get("files", {}).get("captured") or manifest.get("kind") != "tree" or manifest.get("git"):
        return True
    return bool(manifest.get("treeHash") != _EMPTY)


def execution_of(contract: Json) -> Execution:
    """Read what the contract runs."""
    try:
        spelled = msgspec.convert(contract.get("execution"), Execution | None)
        agent = msgspec.convert(contract["agent"], AgentSpec)
    except msgspec.ValidationError as error:
        raise UnfitContractError("capability_mismatch", f"the execution cannot be read: {error}") from error
    return effective_execution(spelled, agent, contract["task"]["prompt"])


def command_hashes(execution: Execution) -> dict[str, str]:
    """Hash the command as `command.executed` records it, and beside it what was started instead, where that differs."""
    match execution:
        case Argv():
            return {"argvHash": argv_hash(execution.command, execution.args, execution.cwd)}
        case Shell():
            return {"argvHash": shell_hash(execution.script, execution.shell, execution.cwd)}
        case Python():
            return {"argvHash": python_hash(execution.source, execution.args, execution.cwd)}
        case AgentRun():
            line = _adapter(execution).line(execution.prompt)
            said = {"argvHash": argv_hash(line.argv[0], line.argv[1:])}
            return said | ({"spawnedArgvHash": argv_hash(line.spawned[0], line.spawned[1:])} if line.spawned else {})


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


def _command(execution: Execution) -> _Started:
    """Spell what is started, and the files that it needs: a script that is too long for one argument goes by file."""
    match execution:
        case Argv():
            return (execution.command, *execution.args), ()
        case Shell():
            return _interpreted(execution.shell, execution.script, ())
        case Python():
            return _interpreted("python3", execution.source, execution.args)
        case AgentRun():
            line = _adapter(execution).line(execution.prompt)
            return line.started, line.files


def _interpreted(interpreter: str, source: str, args: tuple[str, ...]) -> _Started:
    if len(source.encode(errors="surrogateescape")) <= LONGEST_ARGUMENT:
        return (interpreter, "-c", source, *args), ()
    return (interpreter, SCRIPT, *args), ((SCRIPT, source),)


def _harness(execution: Execution) -> str:
    """Name the agent whose harness only a tier can bring; empty for whatever is a command."""
    return execution.agent.kind if isinstance(execution, AgentRun) and _adapter(execution).harness_only else ""


def _adapter(execution: AgentRun) -> "Adapter":
    from tipstaff.agents import find  # noqa: PLC0415 - most runs are no agent's

    adapter = find(execution.agent.kind)
    if adapter is None:
        raise UnfitContractError(
            "capability_mismatch", f"no harness for the agent {execution.agent.kind!r} is built in"
        )
    return adapter
