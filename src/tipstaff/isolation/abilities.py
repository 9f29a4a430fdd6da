"""What this host lets us do, probed one by one: each is tried for real, and what fails has its cause and its remedy.

A tier says whether it works as a whole; this says which of its legs is missing. Nothing is left behind, and no setting
is changed.
"""

import asyncio
import os
from typing import Final, NamedTuple

from tipstaff.isolation import landlock, places, probe, running
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.client import Link, SpawnerError
from tipstaff.isolation.streams import Streams

_PATIENCE_SECONDS: Final = 20.0
_PORT: Final = 3128
_TRY_BUBBLEWRAP: Final = (
    *(places.BUBBLEWRAP, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--clearenv"),
    *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/usr/bin/true"),
)
_WITH_SYSTEMD: Final = "systemd-run --user --scope -p Delegate=yes -- tipstaff …"
_AS_ROOT: Final = "sudo tipstaff …"


class Ability(NamedTuple):
    """One thing that a host can do, or why it cannot, and the command that mends it."""

    name: str
    works: bool
    cause: str = ""
    remedy: str = ""


async def abilities() -> tuple[Ability, ...]:
    """Try everything."""
    return (await _bubblewrap(), *await _spawned(), _landlock())


async def _bubblewrap() -> Ability:
    """Run bubblewrap itself as whoever we are; the spawner gives it another uid when we are root."""
    name = "bubblewrap"
    if not os.access(places.BUBBLEWRAP, os.X_OK):
        return _refused(name, "")
    process = await asyncio.create_subprocess_exec(
        *_TRY_BUBBLEWRAP, env={}, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        said = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return Ability(name, works=False, cause=f"bubblewrap did not end within {_PATIENCE_SECONDS:g} s")
    if process.returncode == 0:
        return Ability(name, works=True)
    return _refused(name, said[1].decode(errors="replace").strip())


async def _spawned() -> tuple[Ability, ...]:
    """Start a spawner, and see how it settles and what its sandboxes can have."""
    async with Bubblewrap() as tier:
        try:
            link = await tier.workshop.link()
        except SpawnerError as error:
            why = str(error)
            return tuple(_refused(name, why) for name in ("namespaces and overlays", "listener", "control groups"))
        settled = await link.settled
        return _mounts(settled["mode"]), await _listener(link), _groups(settled["groups"])


def _mounts(mode: str) -> Ability:
    name = "namespaces and overlays"
    if mode != "plain":
        return Ability(name, works=True)
    return _refused(name, "an ordinary user can make no user namespace with an overlay in it; workspaces are copied")


async def _listener(link: Link) -> Ability:
    """Make a socket in the network of a sandbox whose command never runs."""
    streams = Streams(None)
    box = link.build(running.order(running.PROBE, "bwrap"), streams.theirs)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            if not await box.ready:
                return _refused("listener", str((await box.ended).get("complaint", "the sandbox ended at its start")))
            (await box.listen(_PORT)).close()
    except (SpawnerError, TimeoutError) as error:
        return _refused("listener", str(error) or "no sandbox stood in time")
    finally:
        box.end("cancelled")
        await box.ended
        streams.close()
    return Ability("listener", works=True)


def _groups(groups: dict[str, object]) -> Ability:
    controllers = groups["controllers"]
    assert isinstance(controllers, list)  # noqa: S101 - the spawner's own word
    name = f"control groups, version {groups['version']}" if controllers else "control groups"
    missing = sorted({"memory", "pids", "cpu"} - set(controllers))
    if not missing:
        return Ability(name, works=True)
    why = f"no group of ours can be made with {', '.join(missing)}: nothing is delegated to uid {os.geteuid()}"
    remedy = _WITH_SYSTEMD if os.path.isdir("/run/systemd/system") else _AS_ROOT
    return Ability(name, works=False, cause=why, remedy=remedy)


def _landlock() -> Ability:
    version = landlock.version()
    if version:
        return Ability(f"Landlock, version {version}", works=True)
    listed = probe.read("/sys/kernel/security/lsm")
    if "landlock" in listed or not listed:
        return Ability("Landlock", works=False, cause="this kernel has no Landlock", remedy="use Linux 5.13 or newer")
    remedy = f"boot with the kernel parameter lsm=landlock,{listed}"
    return Ability("Landlock", works=False, cause="Landlock is not among the kernel's security modules", remedy=remedy)


def _refused(name: str, reason: str) -> Ability:
    cause, remedy = probe.cause(reason)
    return Ability(name, works=False, cause=cause, remedy=remedy)
