"""One sandbox in the spawner: started and waiting, then released, then gone.

Bubblewrap (outer) is our child; the first process of the sandbox is its child; the command is that one's child.
Killing the first process makes the kernel end everything in the sandbox, whatever it called setsid for. A sandbox has
ended only when both are gone.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from tipstaff.isolation import kernel, readback, stub, trees, watch
from tipstaff.isolation.order import Kind

if TYPE_CHECKING:
    from tipstaff.isolation.cgroup import Group
    from tipstaff.isolation.quota import Quota
    from tipstaff.isolation.stage import Staged
    from tipstaff.isolation.uids import Lease

_COMPLAINT_BYTES: Final = 4096
_STATUS_BYTES: Final = 65536
DISK_STEP_SECONDS: Final = 0.004


class Holdings:
    """What a sandbox has of the host's, to be given back when it is gone."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.group: Group | None = None
        self.staged: Staged | None = None


class Sandbox:
    """One sandbox. `outer` is bubblewrap's pidfd; the spawner waits on `outer`, `status` and `gate`."""

    def __init__(
        self, number: int, kind: Kind, process: int, ends: tuple[int, socket.socket, int], holdings: Holdings
    ) -> None:
        self.number = number
        self.kind = kind
        self.process = process
        self.outer = os.pidfd_open(process)
        self.status, self.gate, self._complaints = ends
        self.holdings = holdings
        self.memory_limit = 0  # set when nobody but us counts
        self.disk_limit = 0
        self.ports: list[int] = []  # where sockets of ours are to listen inside
        self.measure: trees.Measure | None = None
        self.kept: dict[str, str] = {}  # where what it wrote lies, when that is to be looked at before it is removed
        self.quota: Quota | None = None  # set when the file system bounds what it writes
        self.own_view = True  # its temporary folders are its own, and counted
        self.first = 0
        self.cause = ""
        self.problem = ""  # why it must not be let go, although it stands
        self.ready = self.going = self.announced = False
        self.first_fd = self._command_fd = -1
        self._told: dict[str, Any] = {}
        self._unread = b""
        self._released_at = 0
        self._peak = 0
        self._spent = 0.0

    def read_status(self) -> bool:
        """Take what is said of the first process, a JSON object in each line; False when nothing more will be."""
        try:
            data = os.read(self.status, _STATUS_BYTES)
        except BlockingIOError:
            return True
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._told.update(json.loads(line))
        if not self.first and "child-pid" in self._told:
            self._know_first(int(self._told["child-pid"]))
        return bool(data)

    def _know_first(self, process: int) -> None:
        """Keep hold of the first process; one that is gone, or is not the sandbox's, stays unknown."""
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(process)
            try:
                # Bubblewrap has not been waited for, so a child of its own is the one that it spoke of. When bubblewrap
                # is dead that child is ours, and keeps its number until we have waited for it.
                if _parent(process) in {self.process, os.getpid()}:
                    self.first, self.first_fd = process, os.dup(descriptor)
            finally:
                os.close(descriptor)

    def read_gate(self) -> bytes:
        """Take what the stub says: ready, going, or nothing any more."""
        try:
            said = self.gate.recv(16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b" "
        except ConnectionResetError:
            said = b""
        self.going = self.going or stub.GOING in said
        self.ready = self.ready or stub.READY in said
        return said

    def facts(self) -> dict[str, Any]:
        """Read back what holds for the command that waits, and keep hold of it to learn how it ends."""
        waiting = [self.first] if self.kind == "process" else watch.children(self.first)
        if not waiting:
            raise ProcessLookupError("the sandbox has no process to become the command")
        self._command_fd = os.pidfd_open(waiting[0])
        held = self.quota.read(self._project).limit._asdict() if self.quota is not None else {}
        return {**readback.facts(waiting[0], self.holdings.group), "told": self._told, "quota": held}

    @property
    def _project(self) -> int:
        return self.holdings.staged.project if self.holdings.staged is not None else 0

    def network(self) -> int:
        """Open the sandbox's network namespace; ProcessLookupError when the sandbox is gone."""
        descriptor = os.open(f"/proc/{self.first}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        if self.first_fd < 0 or select.select([self.first_fd], [], [], 0)[0]:  # the number may be another's by now
            os.close(descriptor)
            raise ProcessLookupError("the sandbox is gone")
        return descriptor

    def release(self) -> None:
        """Let the command run."""
        self._released_at = time.monotonic_ns()
        with contextlib.suppress(BrokenPipeError):
            self.gate.send(stub.RELEASE, socket.MSG_NOSIGNAL)

    @property
    def released(self) -> bool:
        """Say whether the command was let go."""
        return self._released_at > 0

    def end(self, cause: str) -> None:
        """Kill everything in the sandbox; the first cause is the one that counts."""
        self.cause = self.cause or cause
        self.read_status()
        if self.first:  # the kernel drops what killed processes have spent
            self._spent = watch.cpu_seconds(self._top)
        target = self.first_fd if self.first_fd >= 0 else self.outer
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(target, signal.SIGKILL)

    @property
    def _top(self) -> int:
        """The process below which everything in the sandbox is."""
        return self.process if self.kind == "process" else self.first

    def end_outer(self) -> None:
        """Kill bubblewrap itself, which should have gone with its child."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.outer, signal.SIGKILL)

    @property
    def _temporary(self) -> list[str]:
        return [f"/proc/{self.first}/root/{folder}" for folder in watch.TEMPORARY] if self.own_view else []

    def look(self) -> None:
        """Count what nobody else counts, and end the sandbox when it is too much."""
        group = self.holdings.group
        if self.memory_limit:
            taken = watch.memory_bytes(self._top, self.memory_limit, self._temporary)
            self._peak = max(self._peak, taken)
            if taken > self.memory_limit:
                self.end("out-of-memory")
        elif group is not None and group.out_of_memory():
            self.end("out-of-memory")
        if self.measure is not None:
            self.measure.step(DISK_STEP_SECONDS)
            nameless = watch.nameless_bytes(self._top, watch.devices(self._temporary), DISK_STEP_SECONDS)
            if self.measure.total + nameless > self.disk_limit:
                self.end("disk-limit")

    def gone(self) -> bool:
        """Say whether the first process is gone too; kill it when only bubblewrap is."""
        if self.first_fd < 0:
            return True
        if select.select([self.first_fd], [], [], 0)[0]:
            return True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first_fd, signal.SIGKILL)
        return False

    def outcome(self) -> dict[str, Any]:
        """Wait for bubblewrap, which has ended, and say how everything went."""
        ended_at = time.monotonic_ns()
        _, status, usage = os.wait4(self.process, 0)
        spent = usage.ru_utime + usage.ru_stime + self._spent_inside()
        group = self.holdings.group
        killed = group.out_of_memory() if group is not None else False
        peak = group.peak_bytes() if group is not None else 0
        code = os.waitstatus_to_exitcode(status)
        filled = code != 0 and self.quota is not None and self.quota.full(self._project)
        return {
            "code": code,
            "status": kernel.exit_status(self._command_fd) if self._command_fd >= 0 else None,
            "released": self.released,
            "going": self.going,
            "cause": self.cause or ("out-of-memory" if killed else "disk-limit" if filled else ""),
            "wallNs": ended_at - self._released_at if self.released else 0,
            "cpuNs": round(max(spent, self._spent) * 1e9),
            "peakBytes": max(peak, self._peak),
            "complaint": self.problem or self._complaint(),
            "kept": self.kept if self.released else {},
        }

    def _spent_inside(self) -> float:
        """Wait for the first process, which bubblewrap leaves to us; it has waited for all the others."""
        if not self.first:
            return 0.0
        try:
            # By its descriptor first: its number may be another child's by now, and waiting for that would take long.
            os.waitid(os.P_PIDFD, self.first_fd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            usage = os.wait4(self.first, 0)[2]
        except ChildProcessError:  # its parent had time to wait for it, and has counted it
            return 0.0
        return usage.ru_utime + usage.ru_stime

    def _complaint(self) -> str:
        try:
            return os.read(self._complaints, _COMPLAINT_BYTES).decode(errors="replace").strip()
        except BlockingIOError:
            return ""

    def close(self) -> None:
        """Let go of every descriptor."""
        self.gate.close()
        for descriptor in (self.outer, self.status, self._complaints, self.first_fd, self._command_fd):
            if descriptor >= 0:
                os.close(descriptor)


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
