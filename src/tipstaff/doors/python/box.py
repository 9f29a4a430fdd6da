"""A home held open for many runs, and the two short ways to have only one.

Everything is asynchronous but `run`, which brings its own event loop; where one is running already, a thread with
another. Stopping whoever waits for a run stops the run, and its receipt is still written.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tipstaff.doors.amounts import Amount
from tipstaff.doors.asking import Asked, request_of
from tipstaff.doors.folders import Surroundings
from tipstaff.doors.person import user_name
from tipstaff.errors import UsageError
from tipstaff.home import Home, locate
from tipstaff.local.embedded import Consent, Local, open_local
from tipstaff.local.policies import choose_policy
from tipstaff.model.outcome import Outcome
from tipstaff.policy import Policy
from tipstaff.session import Outside

Command = Sequence[str] | None
APPROVAL_SECONDS = 600.0


class Wishes(TypedDict, total=False):
    """What a run may be asked to have; sizes as `"64M"` or bytes, durations as `"2m"` or seconds."""

    shell: str  # a script for sh, instead of a command
    python: str  # the source of a Python program, instead of a command; the command is then its arguments
    agent: str  # an agent's kind, instead of a command; `prompt` is what it is asked
    prompt: str
    workspace: str | os.PathLike[str]  # shown at /workspace; nothing in it changes on the host
    capture: str  # how the workspace is captured: auto, git, lean, tree; none (the default but for agents)
    deny: Sequence[str]  # names that are never captured, besides the usual ones
    in_place: bool  # ... unless this is true
    read: Sequence[str | os.PathLike[str]]  # files and folders that it may read
    env: Mapping[str, str | None]  # its variables; None takes the value that this process has
    principal: str  # who asks: NAME, agent:NAME or service:NAME
    tier: str
    timeout: Amount
    memory: Amount
    cpus: Amount
    pids: int
    disk: Amount
    max_output: Amount  # how much of each stream is kept
    kill_output: Amount  # end it when it has printed more
    purpose: str
    allow_hosts: Sequence[str]
    secrets: Sequence[str]
    stdin: bytes
    pool: str  # which runners of a plane elsewhere
    approval_timeout: float  # seconds to wait for people, where policy asks first


class Box:
    """A home at work; made by `open`."""

    def __init__(self, local: Local) -> None:
        self._local = local

    async def run(self, argv: Command = None, /, **wishes: Unpack[Wishes]) -> Outcome:
        """Run one command, script or program to its end; any number may run at once."""
        stdin, seconds = wishes.pop("stdin", None), wishes.pop("approval_timeout", APPROVAL_SECONDS)
        return await self._carried_out(_asked(argv, dict(wishes)), stdin, seconds)

    async def _carried_out(self, asked: Asked, stdin: bytes | None, seconds: float) -> Outcome:
        if asked.pool is not None:
            raise UsageError("there are pools of runners only at a plane elsewhere", hint="name one with plane=…")
        around = Surroundings.of(self._local.home.root, os.environ)
        request = request_of(asked, around, user_name(), door="cli")
        if request["files"].get("captured"):
            from tipstaff.doors.capturing import captured  # noqa: PLC0415 - most runs capture nothing

            await asyncio.to_thread(captured, self._local, asked, request)
        return await self._local.run(
            request,
            outside=Outside(stdin=_fed(stdin) if stdin is not None else None, answer_seconds=seconds),
            consent=Consent(timeout_seconds=seconds),
        )


@asynccontextmanager
async def open(  # noqa: A001 - a public name: `tipstaff.open()` reads well
    *,
    policy: Policy | str | Path | None = None,
    home: str | Path | None = None,
    plane: str | None = None,
    token: str | None = None,
) -> AsyncIterator[Box]:
    """Open a home for many runs; `policy` is one that was loaded, or a file. Or open the plane at an address."""
    place = Home(_absolute(home)) if home is not None else locate(os.environ)
    if plane is not None:
        if policy is not None:
            raise UsageError("a plane elsewhere has its own policy", hint="leave policy out")
        from tipstaff.doors.python.elsewhere import open_elsewhere  # noqa: PLC0415 - only for a plane elsewhere

        async with open_elsewhere(plane, token, place) as elsewhere:
            yield elsewhere
        return
    if token is not None:
        raise UsageError("a token is for a plane elsewhere", hint="name it with plane=…")
    named = str(policy) if isinstance(policy, str | Path) else None
    chosen = policy if isinstance(policy, Policy) else choose_policy(place, named, os.environ)
    async with open_local(place, chosen) as local:
        yield Box(local)


async def arun(
    argv: Command = None,
    /,
    *,
    policy: Policy | str | Path | None = None,
    home: str | Path | None = None,
    plane: str | None = None,
    token: str | None = None,
    **wishes: Unpack[Wishes],
) -> Outcome:
    """Run one command, script or program, from asynchronous code."""
    async with open(policy=policy, home=home, plane=plane, token=token) as box:
        return await box.run(argv, **wishes)


def run(
    argv: Command = None,
    /,
    *,
    policy: Policy | str | Path | None = None,
    home: str | Path | None = None,
    plane: str | None = None,
    token: str | None = None,
    **wishes: Unpack[Wishes],
) -> Outcome:
    """Run one command, script or program and wait for it; works inside a running event loop, which then waits too."""

    async def whole() -> Outcome:
        return await arun(argv, policy=policy, home=home, plane=plane, token=token, **wishes)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(whole())
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where a loop is running already

    with ThreadPoolExecutor(1) as other:
        return other.submit(lambda: asyncio.run(whole())).result()


def _asked(argv: Command, wishes: dict[str, Any]) -> Asked:
    if isinstance(argv, str | bytes):
        raise UsageError("the command is one text, not a list", hint="write ['echo', 'hi'], or shell='echo hi'")
    unknown = sorted(wishes.keys() - Wishes.__annotations__.keys())
    if unknown:
        raise UsageError(f"there is no option '{unknown[0]}'", hint=f"there are {', '.join(Wishes.__annotations__)}")
    for name in ("workspace", "read"):
        if name in wishes:
            wishes[name] = _path(wishes[name]) if name == "workspace" else tuple(map(_path, wishes[name]))
    env: Mapping[str, str | None] = wishes.pop("env", {})
    return Asked(
        argv=tuple(argv or ()),
        env={name: value for name, value in env.items() if value is not None},
        inherit=tuple(name for name, value in env.items() if value is None),
        allow_hosts=tuple(wishes.pop("allow_hosts", ())),
        secrets=tuple(wishes.pop("secrets", ())),
        deny=tuple(wishes.pop("deny", ())),
        **wishes,
    )


def _path(path: str | os.PathLike[str]) -> str:
    return os.fsdecode(path)


def _absolute(home: str | Path) -> Path:
    path = Path(home)
    if not path.is_absolute():
        raise UsageError(f"the home '{path}' is relative", hint="give a path that starts with /")
    return path


def _fed(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader
