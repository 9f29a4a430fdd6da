"""What somebody asks for at the command line or in Python → the Request, as a JSON value.

Every value is checked here so that a mistake is told in the words of who made it: a size, a path, an argument that no
program can be given. Whether it may run is for policy alone. Looks at the paths it is given, and changes nothing.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tipstaff.doors.amounts import Amount, count, cpu_millis, duration_ms, size_bytes
from tipstaff.doors.folders import Surroundings, granted_folder, granted_path
from tipstaff.errors import UsageError
from tipstaff.model.execution import LONGEST_ARGUMENT

Json = dict[str, Any]
LONGEST_SOURCE: Final = 8 * 1024 * 1024
KINDS: Final = ("human", "agent", "service")
COMMAND: Final = "command"  # the agent whose prompt is a script
FORMS: Final = ("auto", "git", "lean", "tree", "none")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One wish; one of `argv`, `shell`, `python` and `agent` says what to run (`python` may have `argv` behind it)."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    python: str | None = None
    agent: str | None = None  # its kind; `prompt` is what it is asked
    prompt: str | None = None
    workspace: str | None = None
    capture: str | None = None  # how; None: as it is for an agent, and not at all for anything else
    deny: tuple[str, ...] = ()  # more patterns of names that are never captured
    in_place: bool = False
    read: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    principal: str | None = None
    tier: str | None = None
    timeout: Amount | None = None
    memory: Amount | None = None
    cpus: Amount | None = None
    pids: Amount | None = None
    disk: Amount | None = None
    max_output: Amount | None = None
    kill_output: Amount | None = None
    purpose: str = ""
    allow_hosts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    pool: str | None = None  # which runners of a plane elsewhere


def request_of(asked: Asked, around: Surroundings, user: str, door: str = "cli") -> Json:
    """Spell the Request; `user` asks where no principal is named."""
    return {
        "requestedBy": actor_of(user if asked.principal is None else asked.principal),
        "door": door,
        **({"agentKind": _text(asked.agent, "--agent"), "prompt": _prompt(asked)} if asked.agent is not None else {}),
        "purpose": _text(asked.purpose, "--purpose"),
        "secretNames": [_secret(name) for name in asked.secrets],
        "files": _files(asked, around),
        "egress": {"rules": [_way_out(text) for text in asked.allow_hosts]},
        "limits": _limits(asked),
        "execution": _execution(asked),
        **({"isolation": _text(asked.tier, "--tier")} if asked.tier else {}),
        **({"pool": _text(asked.pool, "--pool")} if asked.pool is not None else {}),
    }


def actor_of(who: str) -> Json:
    """Read `NAME`, or `agent:NAME` and `service:NAME`; a name without a kind is a person's."""
    if not who.strip():
        raise UsageError("--as names nobody", hint="for example: --as agent:coder")
    kind, colon, name = _text(who, "--as").partition(":")
    return {"kind": kind, "id": name} if colon and name and kind in KINDS else {"kind": "human", "id": who}


def _secret(name: str) -> str:
    if not name.strip():
        raise UsageError("--secret names nothing", hint="see: tipstaff secrets list")
    return _text(name, "--secret")


def _execution(asked: Asked) -> Json:
    given = [name for name in ("shell", "python", "agent") if getattr(asked, name) is not None]
    if len(given) > 1 or (asked.argv and given in (["shell"], ["agent"])):
        raise UsageError(
            "more than one thing to run was given", hint="give a command, or --shell, or --python, or --agent"
        )
    rest = {
        "env": {"inherit": [_text(name, "--env") for name in asked.inherit], "vars": _variables(asked.env)},
        "log": _log(asked),
    }
    if asked.agent is not None:
        return _agent(asked, rest)
    if asked.shell is not None:
        return {"kind": "shell", "script": _source(asked.shell, "--shell"), **rest}
    if asked.python is not None:
        arguments = [_argument(one, number) for number, one in enumerate(asked.argv, 1)]
        return {"kind": "python", "source": _source(asked.python, "--python"), "args": arguments, **rest}
    if not asked.argv or not asked.argv[0]:
        raise UsageError("there is no command to run", hint="for example: tipstaff run -- echo hello")
    command, *arguments = [_argument(one, number) for number, one in enumerate(asked.argv)]
    return {"kind": "argv", "command": command, "args": arguments, **rest}


def _agent(asked: Asked, rest: Json) -> Json:
    """Spell an agent's run; the agent `command` is a script, by the protocol's rules."""
    if asked.agent == COMMAND:
        return {"kind": "shell", "script": _prompt(asked), **rest}
    return {"kind": "agent", "agent": {"kind": asked.agent}, "prompt": _prompt(asked), **rest}


def _prompt(asked: Asked) -> str:
    if asked.agent not in agent_kinds():
        raise UsageError(f"there is no agent '{asked.agent}'", hint=f"there are {', '.join(agent_kinds())}")
    if not (asked.prompt or "").strip():
        raise UsageError(f"the agent {asked.agent} is asked nothing", hint='write what it is to do: "fix the tests"')
    return _source(asked.prompt or "", "the prompt")


def agent_kinds() -> list[str]:
    """List the agents that are built in."""
    from tipstaff.agents import ADAPTERS  # noqa: PLC0415 - only where an agent is asked for

    return list(ADAPTERS)


def capture_form(asked: Asked) -> str | None:
    """Say how the workspace is captured; None where it is shown as it is, or there is none."""
    wanted = asked.capture or ("auto" if asked.agent is not None else "none")
    if wanted not in FORMS:
        raise UsageError(f"--capture: there is no form '{wanted}'", hint=f"there are {', '.join(FORMS)}")
    if wanted == "none":
        return None
    if asked.in_place:
        if asked.capture:
            raise UsageError("--capture works on a copy, --in-place on the folder itself", hint="give one of them")
        return None
    return wanted


def _log(asked: Asked) -> Json:
    kept = {"stderr": "capture"}
    return kept if asked.kill_output is None else {**kept, "maxBytes": size_bytes(asked.kill_output, "--kill-output")}


def _files(asked: Asked, around: Surroundings) -> Json:
    if asked.in_place and asked.workspace is None:
        raise UsageError("--in-place needs a workspace", hint="add --workspace DIR")
    form = capture_form(asked)
    folder = asked.workspace or ("." if form is not None or asked.agent is not None else None)
    return {
        "workspace": folder and granted_folder(folder, "--workspace", around),
        "inPlace": asked.in_place,
        **({"captured": True} if form is not None else {}),
        "readable": [granted_path(path, "--read", around) for path in asked.read],
    }


def _limits(asked: Asked) -> Json:
    readers = (
        ("timeMs", duration_ms, asked.timeout, "--timeout"),
        ("memoryBytes", size_bytes, asked.memory, "--memory"),
        ("cpuMillis", cpu_millis, asked.cpus, "--cpus"),
        ("pids", count, asked.pids, "--pids"),
        ("diskBytes", size_bytes, asked.disk, "--disk"),
        ("outputBytes", size_bytes, asked.max_output, "--max-output"),
    )
    return {name: read(value, option) for name, read, value, option in readers if value is not None}


def _way_out(text: str) -> Json:
    """Read `HOST[:PORT]`, then `,opaque`, `,inspect` or `,address=ADDRESS` for what must be said besides."""
    place, *more = _text(text, "--allow-host").split(",")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]") or (":" in host and not host.endswith("]")):
        host, port = place, ""  # an IPv6 address has colons of its own
    elif not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:  # noqa: PLR2004 - ports are 16 bits
        raise UsageError(f"--allow-host: '{text}' has no port between 1 and 65535", hint="write example.com:443")
    if not host:
        raise UsageError(f"--allow-host: '{text}' names no host", hint="write example.com:443")
    way: Json = {"host": host, "ports": [int(port)] if port else []}
    for word in more:
        name, equals, address = word.partition("=")
        if word in {"opaque", "inspect"}:
            way[word] = True
        elif name == "address" and equals and address:
            way.setdefault("addresses", []).append(address)
        else:
            raise UsageError(
                f"--allow-host: '{word}' is not known", hint="after the host: opaque, inspect or address=ADDRESS"
            )
    return way


def _variables(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        _text(name, "--env")
        if len(os.fsencode(f"{name}={value}")) > LONGEST_ARGUMENT:
            raise UsageError(f"--env: the value of {name} is larger than 128 KiB", hint="pass it as a file or by stdin")
    return {name: _text(value, f"--env {name}") for name, value in env.items()}


def _argument(text: str, number: int) -> str:
    what = f"argument {number}" if number else "the command"
    _text(text, what)
    if len(text.encode()) > LONGEST_ARGUMENT:
        raise UsageError(
            f"{what} is larger than 128 KiB, which no program can be given", hint="pass it by file or stdin"
        )
    return text


def _source(text: str, option: str) -> str:
    _text(text, option)
    if len(text.encode()) > LONGEST_SOURCE:
        raise UsageError(f"{option}: the source is larger than 8 MiB", hint="put it into a workspace")
    return text


def _text(text: str, what: str) -> str:
    """Give text that a receipt can hold and a program can be given."""
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL, which no program can be given", hint="pass it by file or stdin")
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(text)[:40]
        raise UsageError(f"{what} is not UTF-8: {shown!r}", hint="pass such bytes by file or stdin") from None
    return text
