"""What would really run: the one thing that policy judges.

A request may carry labels (an agent kind, a tool name) beside its execution; `effective_execution` says what
would be started, by the protocol's rules, whatever the labels say.
"""

from typing import Annotated, Final, Literal

import msgspec

from tipstaff.canonical import digest
from tipstaff.model.noun import Noun

Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Argument = str
LONGEST_ARGUMENT: Final = 128 * 1024 - 1  # MAX_ARG_STRLEN of the kernel, which counts the NUL at the end


class SecretVariable(Noun):
    """A released secret under another name."""

    env: str
    secret_name: str


class Environment(Noun):
    """Variables that the request asks for; policy says which names may be inherited."""

    inherit: tuple[str, ...] = ()
    vars: dict[str, str] = msgspec.field(default_factory=dict)
    secrets: tuple[SecretVariable, ...] = ()
    egress_proxy: bool = True


class Log(Noun):
    """How output is kept."""

    stdout: Literal["capture"] = "capture"
    stderr: Literal["merge", "capture"] = "merge"
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None


class AgentSpec(Noun):
    """A coding agent: its kind, and its version where that matters."""

    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    version: str | None = None


class Shell(Noun, tag_field="kind", tag="shell"):
    """A script for a shell."""

    script: str
    shell: Literal["sh", "bash"] = "sh"
    cwd: str = "."
    timeout_ms: Milliseconds | None = None
    env: Environment = Environment()
    log: Log = Log()


class Argv(Noun, tag_field="kind", tag="argv"):
    """A program and its arguments, without a shell."""

    command: Annotated[str, msgspec.Meta(min_length=1)]
    args: tuple[Argument, ...] = ()
    cwd: str = "."
    timeout_ms: Milliseconds | None = None
    env: Environment = Environment()
    log: Log = Log()


class AgentRun(Noun, tag_field="kind", tag="agent"):
    """A whole session of a coding agent."""

    agent: AgentSpec
    prompt: str
    timeout_ms: Milliseconds | None = None
    env: Environment = Environment()
    log: Log = Log()


class Python(Noun, tag_field="kind", tag="python"):
    """A Python program, given by its source."""

    source: str
    args: tuple[Argument, ...] = ()
    cwd: str = "."
    timeout_ms: Milliseconds | None = None
    env: Environment = Environment()
    log: Log = Log()


Execution = Shell | Argv | AgentRun | Python


def effective_execution(execution: Execution | None, agent: AgentSpec, prompt: str) -> Execution:
    """Say what would run: the execution itself, else what the agent's kind and prompt mean."""
    if execution is not None:
        return execution
    if agent.kind == "command":
        return Shell(script=prompt)
    return AgentRun(agent=agent, prompt=prompt)


def agent_kind(execution: Execution) -> str:
    """Name the agent kind that `execution` amounts to: a command of any sort is `command`."""
    return execution.agent.kind if isinstance(execution, AgentRun) else "command"


def argv_hash(command: str, args: tuple[str, ...], cwd: str = ".") -> str:
    """Hash a command line as `command.executed` records it."""
    return digest({"kind": "argv", "cmd": command, "args": list(args), "cwd": cwd})


def shell_hash(script: str, shell: str = "sh", cwd: str = ".") -> str:
    """Hash a shell script as `command.executed` records it."""
    return digest({"kind": "shell", "shell": shell, "script": script, "cwd": cwd})


def python_hash(source: str, args: tuple[str, ...] = (), cwd: str = ".") -> str:
    """Hash a Python program as `command.executed` records it."""
    return digest({"kind": "python", "source": source, "args": list(args), "cwd": cwd})
