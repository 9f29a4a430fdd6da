"""Builds one sandbox from an order: uid, group, folders, descriptors, then bubblewrap with the stub waiting inside.

What was taken before a step that fails is given back. Returns a sandbox whose command has not run.
"""

import contextlib
import errno
import itertools
import os
import socket
import stat
from typing import Final

from tipstaff.isolation import bubblewrap, cgroup, narrow, owners, root, seccomp, stub, trees, uids, watch
from tipstaff.isolation.launch import Start, launch
from tipstaff.isolation.order import Order
from tipstaff.isolation.sandbox import Holdings, Sandbox
from tipstaff.isolation.stage import Stage, UnfitError
from tipstaff.isolation.supervise import supervised

SHELLS: Final = ("/usr/bin/dash", "/usr/bin/bash", "/usr/bin/sh")
_PASSWD: Final = f"sandbox:x:{bubblewrap.INSIDE_ID}:{bubblewrap.INSIDE_ID}::{bubblewrap.HOME}:/bin/sh\n"
_GROUP: Final = f"sandbox:x:{bubblewrap.INSIDE_ID}:\n"
_OTHERS: Final = "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
_WRITTEN: Final = {
    "/etc/passwd": (_PASSWD + _OTHERS).encode(),
    "/etc/group": (_GROUP + "nogroup:x:65534:\n").encode(),
    "/etc/hosts": b"127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
_OWN: Final = {"/etc/tipstaff-fetch.cjs": f"{os.path.dirname(__file__)}/inside/fetch.cjs"}  # by its place inside
_COPIED: Final = ("/etc/ld.so.cache", "/etc/localtime")
_FOLDERS: Final = ("/usr", "/etc/alternatives", "/etc/ssl/certs")
_TOP: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_MASKED: Final = ("/proc/cmdline", "/proc/config.gz", "/proc/kallsyms", "/proc/key-users", "/proc/keys")
_SMALLEST_SCRATCH: Final = 1 << 20
_LARGEST_SHARED: Final = 1 << 26


class Builder:
    """Everything that sandboxes of one spawner share."""

    def __init__(self, owner: owners.Owner, state: str, stage: Stage, groups: cgroup.Parents) -> None:
        self._name = owner.name
        self._state = state
        self.stage = stage
        self.groups = groups
        self._lock = owner.lock
        self._shell = next(shell for shell in SHELLS if os.path.exists(shell))
        self.system, contents = system()
        self._files = [memory_file(content) for content in contents]
        self._root = "" if stage.mode == "plain" else root.prepare(stage.root, self.system, contents)
        usual = seccomp.Circumstances(counted="memory" in groups.folders)
        narrow_one = usual._replace(namespaces=False, mounts=stage.mode != "plain")
        self._filter = memory_file(seccomp.program(os.uname().machine, usual))
        self._narrow = {tcp: seccomp.program(os.uname().machine, narrow_one._replace(tcp=tcp)) for tcp in (False, True)}
        self._nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._free: list[uids.Lease] = []
        self._serial = itertools.count()

    def build(self, number: int, order: Order, streams: list[int]) -> Sandbox:
        """Start a sandbox for `order`; UnfitError or OSError when this host cannot."""
        if os.path.basename(self._shell) in order.masked:
            raise UnfitError(f"'{os.path.basename(self._shell)}' cannot be masked: the sandbox is started by it")
        holdings = Holdings()
        try:
            self._take(holdings, order, streams)
            return self._started(number, order, streams, holdings)
        except BaseException:
            if remover := self.give_back(holdings):
                os.waitpid(remover, 0)
                self.free(holdings)
            raise

    def _take(self, holdings: Holdings, order: Order, streams: list[int]) -> None:
        serial = next(self._serial)
        if self.stage.mode == "root":
            holdings.lease = self._free.pop() if self._free else uids.lease(f"{self._state}/uids")
            for stream in streams:
                if stat.S_ISFIFO(os.fstat(stream).st_mode):  # so that /dev/stdout can be opened inside
                    os.fchown(stream, holdings.lease.number, holdings.lease.number)
        uid = holdings.lease.number if holdings.lease else None
        holdings.staged = self.stage.prepare(str(serial), order, uid)
        if self.groups.folders:
            holdings.group = cgroup.Group(self.groups, f"{self._name}-{serial}")

    def _started(self, number: int, order: Order, streams: list[int], holdings: Holdings) -> Sandbox:
        # Ours to the end of this, and ours unless there is a sandbox: a stub whose gate is closed runs nothing.
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as ours:
            status_read, status_write = _pipe(kept, ours)
            complaints_read, complaints_write = _pipe(kept, ours)
            gate, theirs = socket.socketpair()
            kept.callback(gate.close)
            ours.callback(theirs.close)
            opened = {stub.JOB: memory_file(self._job(order))}
            if order.kind == "bwrap":
                opened |= self._for_bubblewrap(self._room(order, holdings), holdings)
            for descriptor in opened.values():
                ours.callback(os.close, descriptor)
            descriptors = {
                0: self._nothing,
                1: self._nothing,
                2: complaints_write,
                **dict(zip(stub.STREAMS, streams, strict=True)),
                **opened,
                stub.GATE: theirs.fileno(),
                bubblewrap.STATUS: status_write,
            }
            process = self._launched(order, descriptors, holdings)
            os.set_blocking(complaints_read, False)
            os.set_blocking(status_read, False)
            sandbox = Sandbox(number, order.kind, process, (status_read, gate, complaints_read), holdings)
            kept.pop_all()
        self._bound(sandbox, order)
        return self._watched(sandbox, order)

    def _for_bubblewrap(self, room: bubblewrap.Room, holdings: Holdings) -> dict[int, int]:
        """Open what bubblewrap reads: its arguments, the filter, small files of the system, and folders it is given."""
        words = bubblewrap.arguments(room, self.system)
        files = () if room.root else self._files
        held = holdings.staged.held if holdings.staged is not None else ()
        first = bubblewrap.FIRST_FILE + len(self._files)
        return {
            **{first + place: os.dup(descriptor) for place, (_, descriptor) in enumerate(held)},
            **{bubblewrap.FIRST_FILE + place: _reopened(file) for place, file in enumerate(files)},
            bubblewrap.FILTER: _reopened(self._filter),
            bubblewrap.ARGUMENTS: memory_file(bubblewrap.encoded(words)),
        }

    def _launched(self, order: Order, descriptors: dict[int, int], holdings: Holdings) -> int:
        uid = holdings.lease.number if holdings.lease else None
        if order.kind == "bwrap":
            command = bubblewrap.command(stub.stub(order.pids, order.disk_bytes, self._shell), self._shell, self._name)
            return launch(Start(command, descriptors, uid, holdings.group))
        # Its first process is the command itself; without a uid of its own it is counted with all that we run.
        count = order.pids - 1 + (0 if uid is not None else watch.threads_of(os.geteuid()))
        command = [self._shell, "-c", stub.stub(count, order.disk_bytes, self._shell)]
        locks = (self._lock, *((holdings.lease.descriptor,) if holdings.lease else ()))
        return supervised(Start(command, descriptors, uid, holdings.group), self._narrowing(order, holdings), locks)

    def _narrowing(self, order: Order, holdings: Holdings) -> narrow.Narrowing:
        room = self._room(order, holdings)
        stage = "" if self.stage.mode == "plain" else self.stage.folder
        uid = holdings.lease.number if holdings.lease else os.geteuid()
        held = holdings.staged.held if holdings.staged is not None else ()
        files = {path: os.fstat(descriptor) for path, descriptor in held}
        meant = {path: (file.st_dev, file.st_ino) for path, file in files.items()}
        return narrow.Narrowing(
            workspace=room.workspace,
            readable=room.readable,
            replaced=room.replaced,
            scratch_bytes=room.scratch_bytes,
            filter=self._narrow[order.port > 0],
            stage=stage,
            uid=uid,
            port=order.port,
            meant=meant,
        )

    def _bound(self, sandbox: Sandbox, order: Order) -> None:
        """Set the group's limits while bubblewrap builds; the command does not run before they can be read back."""
        try:
            if sandbox.holdings.group is not None:
                sandbox.holdings.group.bound(cgroup.Bounds(order.memory_bytes, order.pids, order.cpu_millis))
        except OSError as error:
            small = error.errno == errno.EBUSY  # the kernel's word for a limit below what is in use already
            why = "the limit on memory is too small to start a sandbox in"
            sandbox.problem = why if small else f"the limits cannot be set: {error.strerror}"

    def _job(self, order: Order) -> bytes:
        return stub.documents(order.files) + stub.job(order.argv, order.environ, order.cwd, self._shell)

    def _room(self, order: Order, holdings: Holdings) -> bubblewrap.Room:
        staged = holdings.staged
        assert staged is not None  # noqa: S101 - taken before anything is started
        scratch = max(_SMALLEST_SCRATCH, min(order.disk_bytes, order.memory_bytes))
        shared = max(_SMALLEST_SCRATCH, min(_LARGEST_SHARED, order.memory_bytes))
        ready = "" if order.kind != "bwrap" or staged.readable or staged.replaced else self._root
        terminals = self.stage.terminals(staged) if ready else ""
        held = tuple(path for path, _ in staged.held)
        return bubblewrap.Room(
            staged.workspace, staged.readable, staged.replaced, scratch, shared, ready, terminals, held
        )

    def _watched(self, sandbox: Sandbox, order: Order) -> Sandbox:
        staged = sandbox.holdings.staged
        sandbox.own_view = order.kind == "bwrap" or self.stage.mode != "plain"
        if "memory" not in self.groups.folders:
            sandbox.memory_limit = order.memory_bytes
        if staged is not None and staged.watched:
            sandbox.disk_limit = order.disk_bytes
            sandbox.measure = trees.Measure(staged.watched)
            sandbox.quota = self.stage.quota if staged.project else None
            sandbox.kept = self.stage.kept(staged) if order.keep else {}
        return sandbox

    def give_back(self, holdings: Holdings) -> int:
        """Give back what a sandbox had; returns a process that still removes its folders (`free` is next), or 0."""
        if holdings.group is not None:
            holdings.group.remove()
        remover = self.stage.release(holdings.staged) if holdings.staged is not None else 0
        if not remover:
            self.free(holdings)
        return remover

    def free(self, holdings: Holdings) -> None:
        """Let the next sandbox have the uid of one whose files are gone."""
        if holdings.staged is not None and holdings.staged.project:
            with contextlib.suppress(OSError):  # the next one sets its own limits
                self.stage.quota.clear(holdings.staged.project)
        if holdings.lease is not None:
            self._free.append(holdings.lease)

    def close(self) -> None:
        """Give back the uids."""
        while self._free:
            self._free.pop().close()


def system() -> tuple[bubblewrap.System, list[bytes]]:
    """Find what every sandbox of this host is made of."""
    links = tuple((os.readlink(name), name) for name in _TOP if os.path.islink(name))
    folders = [name for name in (*_FOLDERS, *_TOP) if os.path.isdir(name) and not os.path.islink(name)]
    contents = dict(_WRITTEN)
    for name, source in (*zip(_COPIED, _COPIED, strict=True), *_OWN.items()):
        with contextlib.suppress(OSError), open(source, "rb") as file:
            contents[name] = file.read()
    masked = tuple(name for name in _MASKED if os.path.exists(name))
    return bubblewrap.System(tuple(folders), links, tuple(contents), masked), list(contents.values())


def memory_file(content: bytes) -> int:
    """Keep bytes in a nameless file, to be read from its start."""
    descriptor = os.memfd_create("tipstaff", os.MFD_CLOEXEC)
    written = 0
    while written < len(content):
        written += os.write(descriptor, content[written:])
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _reopened(descriptor: int) -> int:
    """Open a file anew, to be read from its start by somebody else."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def _pipe(kept: contextlib.ExitStack, ours: contextlib.ExitStack) -> tuple[int, int]:
    """Make a pipe whose reading end is closed with `kept`, and the writing one with `ours`."""
    reading, writing = os.pipe()
    kept.callback(os.close, reading)
    ours.callback(os.close, writing)
    return reading, writing
