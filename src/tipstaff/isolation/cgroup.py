"""Control groups: memory, processes and cpu of a whole sandbox, bounded and counted by the kernel.

A group is made below the one that we are in ourselves, so that no sandbox escapes a limit that binds us. Whoever starts
bubblewrap joins before and leaves after by writing "0" about itself: nothing ever runs outside, and on version 1
writing to `tasks` spares a wait for every processor (0.1 ms against 15). Version 2 puts groups where the controllers
may be used. What is not writable is not used; the caller is told which controllers there are.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from tipstaff.isolation.kernel import told

CONTROLLERS: Final = ("memory", "pids", "cpu")
PERIOD: Final = 100_000
_PREFIX: Final = "tipstaff-"
_OWN_PROCESSES: Final = 2  # bubblewrap itself and the first process of the sandbox
_PATIENCE_SECONDS: Final = 2.0


class Bounds(NamedTuple):
    """What a group may use."""

    memory_bytes: int
    pids: int
    cpu_millis: int


class Parents(NamedTuple):
    """Where groups can be made: a folder for each controller, and which version that is."""

    version: int
    folders: dict[str, str]
    ours: tuple[str, ...] = ()  # where we are ourselves; empty: in these very folders


class Group:
    """The group of one sandbox: one folder, or one for each controller."""

    def __init__(self, parents: Parents, name: str) -> None:
        self.version = parents.version
        self.folders = {controller: f"{folder}/{_PREFIX}{name}" for controller, folder in parents.folders.items()}
        self._made = list(dict.fromkeys(self.folders.values()))
        self._ours = parents.ours or tuple(dict.fromkeys(parents.folders.values()))
        for folder in self._made:
            os.mkdir(folder)

    def bound(self, bounds: Bounds) -> None:
        """Set the limits. Not before the spawner has left: it would be the one to be killed in a group too small."""
        for controller, file, value in settings(self.version, bounds):
            if controller in self.folders:
                self._write(controller, file, value)

    def _write(self, controller: str, file: str, value: str) -> None:
        path = f"{self.folders[controller]}/{file}"
        if file in _OPTIONAL and not os.path.exists(path):
            return
        _put(path, value)

    def join(self) -> None:
        """Move the calling process, which has one thread, into the group."""
        self._move(self._made)

    def leave(self) -> None:
        """Move the calling process back to where it came from."""
        self._move(self._ours)

    def _move(self, folders: Iterable[str]) -> None:
        for folder in folders:
            _put(f"{folder}/{'tasks' if self.version == 1 else 'cgroup.procs'}", "0")

    def bounds(self) -> dict[str, int]:
        """Read back what the kernel enforces, by controller; a controller that bounds nothing is absent."""
        read = _READ_BACK[self.version]
        found = {name: _number(self._read(name, read[name])) for name in self.folders}
        limits = {name: value for name, value in found.items() if value is not None}
        if "pids" in limits:
            limits["pids"] -= _OWN_PROCESSES
        if self.version == 1 and "cpu" in limits:
            limits["cpu"] = limits["cpu"] * 1000 // PERIOD
        return limits

    def out_of_memory(self) -> bool:
        """Say whether the kernel has killed a process of the group for its memory."""
        text = self._read("memory", "memory.oom_control" if self.version == 1 else "memory.events")
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())

    def peak_bytes(self) -> int:
        """Say how much memory the group had at most, 0 where the kernel does not tell."""
        return _number(self._read("memory", "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak")) or 0

    def holds(self, membership: str) -> bool:
        """Say whether a process whose /proc/PID/cgroup reads like this is in every folder of the group."""
        wanted = {name if self.version == 1 else "" for name in self.folders}
        name = "/" + os.path.basename(self._made[0])
        return wanted <= {controller for controller, place in _places(membership) if place.endswith(name)}

    def remove(self) -> None:
        """Take the group away; its last processes may still be on their way out."""
        remove(self._made)

    def _read(self, controller: str, file: str) -> str:
        return told(f"{self.folders[controller]}/{file}") if controller in self.folders else ""


def settings(version: int, bounds: Bounds) -> list[tuple[str, str, str]]:
    """List what is written: (controller, file, value), in this order."""
    memory, pids = str(bounds.memory_bytes), str(bounds.pids + _OWN_PROCESSES)
    quota = max(1000, bounds.cpu_millis * PERIOD // 1000)  # the kernel takes no less than a millisecond
    if version == 1:
        return [
            ("memory", "memory.limit_in_bytes", memory),
            ("memory", "memory.memsw.limit_in_bytes", memory),
            ("pids", "pids.max", pids),
            ("cpu", "cpu.cfs_period_us", str(PERIOD)),
            ("cpu", "cpu.cfs_quota_us", str(quota)),
        ]
    return [
        ("memory", "memory.max", memory),
        ("memory", "memory.swap.max", "0"),
        ("memory", "memory.oom.group", "1"),
        ("pids", "pids.max", pids),
        ("cpu", "cpu.max", f"{quota} {PERIOD}"),
    ]


_OPTIONAL: Final = {"memory.memsw.limit_in_bytes", "memory.swap.max"}  # absent where swap is not counted
_READ_BACK: Final = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"},
    2: {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max"},
}


def find(mountinfo: str, own: str) -> Parents:
    """Find where groups can be made, from /proc/self/mountinfo and /proc/self/cgroup; no folders when nowhere."""
    mounts = dict(_mounts(mountinfo))
    places = dict(_places(own))
    legacy = {name: _joined(mounts[name], places[name]) for name in CONTROLLERS if name in mounts and name in places}
    folders: dict[str, str] = {name: folder for name, folder in legacy.items() if os.access(folder, os.W_OK | os.X_OK)}
    if folders:
        return Parents(1, folders)
    unified = _joined(mounts[""], places[""]) if "" in mounts and "" in places else ""
    usable = _usable(unified, mounts[""][0]) if unified else ""
    return Parents(2, {name: usable for name in CONTROLLERS if usable}, (unified,) if usable else ())


def _mounts(mountinfo: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Give (controller, (mount point, its root)); version 2 is the controller without a name."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split(" ")[3:5]
        if kind == "cgroup2":
            yield "", (point, root)
        if kind == "cgroup":
            for controller in set(options.replace(" ", ",").split(",")) & {*CONTROLLERS}:
                yield controller, (point, root)


def _places(own: str) -> Iterable[tuple[str, str]]:
    for line in own.splitlines():
        number, controllers, place = line.split(":", 2)
        for controller in controllers.split(",") if number != "0" else [""]:
            yield controller, place


def _joined(mounted: tuple[str, str], place: str) -> str:
    point, root = mounted
    inner = place[len(root) :] if root != "/" and place.startswith(root) else place
    return f"{point}/{inner.strip('/')}".rstrip("/")


def _usable(folder: str, top: str) -> str:
    """Climb from our own group to one below which the controllers work: one with processes of its own cannot."""
    while folder.startswith(top):
        if set(CONTROLLERS) <= set(told(f"{folder}/cgroup.controllers").split()) and os.access(folder, os.W_OK):
            with contextlib.suppress(OSError):
                _put(f"{folder}/cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))
                return folder
        folder = os.path.dirname(folder)
    return ""


def leftovers(parents: Iterable[str], owner: str) -> list[str]:
    """List the groups that `owner` made below `parents`."""
    found = []
    for parent in parents:
        with contextlib.suppress(FileNotFoundError):
            found += [f"{parent}/{name}" for name in os.listdir(parent) if name.startswith(f"{_PREFIX}{owner}-")]
    return found


def members(folder: str) -> set[int]:
    """List the processes of one group."""
    return {int(line) for line in told(f"{folder}/cgroup.procs").split()}


def remove(folders: Iterable[str]) -> None:
    """Take groups away; OSError when a process stays in one."""
    end = time.monotonic() + _PATIENCE_SECONDS
    for folder in folders:
        while os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.001)


def _number(text: str) -> int | None:
    """Read a limit; None for none at all."""
    words = text.split()
    if not words or words[0] in {"max", "-1"}:
        return None
    if len(words) > 1:  # cpu.max: quota and period
        return int(words[0]) * 1000 // int(words[1])
    return int(words[0])


def _put(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
