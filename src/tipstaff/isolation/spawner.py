"""The spawner: the one process that touches the kernel. Single-threaded, standard library, no asyncio.

It is reached by one socket, takes five verbs, `start` (a sandbox whose command waits), `listen` (a socket inside its
network), `release` (the command), `end` and `remove` (what was kept of one that has ended), and says `ready`, `failed`,
`listening` and `ended`. Where its socket ends, or its parent dies, it kills and cleans everything and goes. It lives in
a mount namespace of its own; what a killed spawner left is swept when the next one starts.
Decides nothing: an order comes decided, and goes through no shell on this side.
"""

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import time
from collections import deque
from typing import Any, Final

from tipstaff.isolation import cgroup, kernel, landlock, listen, order, owners, packets, uids, watch
from tipstaff.isolation.builder import Builder
from tipstaff.isolation.sandbox import Holdings, Sandbox
from tipstaff.isolation.stage import Stage, UnfitError, enter

DESCRIPTORS: Final = 4  # the order, and the command's three streams
SAMPLE_SECONDS: Final = 0.025  # without a control group
LOOK_SECONDS: Final = 0.25
_STUBBORN_SECONDS: Final = 1.0


class Spawner:
    """The loop, and the sandboxes that live."""

    def __init__(self, link: socket.socket, builder: Builder) -> None:
        self._link = link
        self._builder = builder
        self._sandboxes: dict[int, Sandbox] = {}
        self._ending: dict[int, float] = {}
        self._kept: dict[int, Holdings] = {}
        self._removing: dict[int, tuple[int, Holdings]] = {}
        self._outgoing: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._selector = selectors.DefaultSelector()
        self._lingering: list[Sandbox] = []
        self._open = True
        self._next_look = 0.0

    def serve(self, parent: int) -> None:
        """Serve until the socket or the parent ends, then leave nothing behind."""
        self._selector.register(self._link, selectors.EVENT_READ, self._receive)
        self._selector.register(parent, selectors.EVENT_READ, self._orphaned)
        signal.signal(signal.SIGTERM, lambda *_: self._orphaned())
        while self._open or self._sandboxes or self._removing:
            for key, events in self._selector.select(self._pause()):
                if events & selectors.EVENT_WRITE:
                    self._flush()
                if events & selectors.EVENT_READ and key.fd in self._selector.get_map():
                    key.data()
            self._look()

    def _orphaned(self) -> None:
        """End everything: nobody is there to be told."""
        if self._open:
            self._open = False
            for descriptor in [key.fd for key in self._selector.get_map().values() if key.data in self._doors()]:
                self._selector.unregister(descriptor)
            for sandbox in self._sandboxes.values():
                self._end(sandbox, "cancelled")
            for number in list(self._kept):
                self._clean(self._kept.pop(number))

    def _doors(self) -> tuple[Any, Any]:
        return self._receive, self._orphaned

    # --- what is asked ------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            message, descriptors = packets.receive(self._link, packets.MESSAGE_BYTES, DESCRIPTORS)
        except (ConnectionResetError, BlockingIOError):
            message, descriptors = b"", []
        if not message:
            self._orphaned()
            return
        try:
            self._obey(json.loads(message), descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _obey(self, asked: dict[str, Any], descriptors: list[int]) -> None:
        number = asked["number"]
        if asked["verb"] == "start":
            self._start(number, descriptors, asked["ports"])
        elif number in self._sandboxes and asked["verb"] == "listen":
            sandbox = self._sandboxes[number]
            sandbox.ports.append(asked["port"])
            if sandbox.announced:
                self._listen(sandbox)
        elif number in self._sandboxes and asked["verb"] == "release":
            self._sandboxes[number].release()
        elif number in self._sandboxes and asked["verb"] == "end":
            self._end(self._sandboxes[number], asked["cause"])
        elif number in self._kept and asked["verb"] == "remove":  # another word than `end`, which may come too late
            self._clean(self._kept.pop(number))

    def _start(self, number: int, descriptors: list[int], ports: list[int]) -> None:
        body, *streams = descriptors
        try:
            with open(body, "rb", closefd=False) as file:
                asked = order.decode(file.read())
            sandbox = self._builder.build(number, asked, streams)
        except (OSError, ValueError, TypeError, KeyError, UnfitError) as error:
            self._say({"event": "failed", "number": number, "why": str(error)})
            return
        sandbox.ports = ports
        self._sandboxes[number] = sandbox
        # Its status is read when one of these has something to say: bubblewrap writes it in many small pieces.
        for descriptor, heard in ((sandbox.gate.fileno(), self._gate), (sandbox.outer, self._exit)):
            # Bound to this very sandbox: descriptors are used again.
            self._selector.register(descriptor, selectors.EVENT_READ, _Heard(heard, sandbox))
        if sandbox.problem:
            self._end(sandbox, "setup-failed")

    def _listen(self, sandbox: Sandbox) -> None:
        """Make the sockets that were asked for, in a sandbox that has a network by now."""
        while sandbox.ports:
            port = sandbox.ports.pop()
            told = {"event": "listening", "number": sandbox.number, "port": port}
            try:
                made = self._listener(sandbox, port)
            except OSError as error:
                self._say({**told, "why": str(error)})
            else:
                self._say(told, made)

    def _listener(self, sandbox: Sandbox, port: int) -> int:
        network = sandbox.network()
        try:
            return listen.listener(network, port, masters=self._builder.stage.mode != "plain")
        finally:
            os.close(network)

    def _end(self, sandbox: Sandbox, cause: str) -> None:
        self._ending.setdefault(sandbox.number, time.monotonic() + _STUBBORN_SECONDS)
        sandbox.end(cause)

    # --- what sandboxes say -------------------------------------------------------------------------------------------

    def _status(self, sandbox: Sandbox) -> None:
        if not sandbox.read_status():
            self._selector.unregister(sandbox.status)
        self._announce(sandbox)

    def _gate(self, sandbox: Sandbox) -> None:
        if not sandbox.read_gate():
            self._selector.unregister(sandbox.gate)
        sandbox.read_status()
        if sandbox.ready and not sandbox.first:  # it spoke before its parent did
            self._selector.register(sandbox.status, selectors.EVENT_READ, _Heard(self._status, sandbox))
        self._announce(sandbox)

    def _announce(self, sandbox: Sandbox) -> None:
        """Say once that a command waits: bubblewrap has named its child, and the stub has spoken."""
        if sandbox.first and sandbox.ready and not sandbox.announced:
            sandbox.announced = True
            try:
                facts = sandbox.facts()
            except OSError:  # it died while we looked
                self._end(sandbox, "setup-failed")
                return
            self._listen(sandbox)
            facts["mode"] = self._builder.stage.mode
            self._say({"event": "ready", "number": sandbox.number, "facts": facts})

    def _exit(self, sandbox: Sandbox) -> None:
        if not sandbox.gone():
            if sandbox.outer in self._selector.get_map():  # the first process is on its way; its own end is heard too
                self._selector.unregister(sandbox.outer)
                self._selector.register(sandbox.first_fd, selectors.EVENT_READ, _Heard(self._exit, sandbox))
            return
        if self._strays(sandbox):
            if sandbox not in self._lingering:  # looked at again from time to time, not at once and for ever
                self._forget(sandbox)
                self._lingering.append(sandbox)
                self._next_look = 0.0
            return
        if sandbox in self._lingering:
            self._lingering.remove(sandbox)
        sandbox.read_gate()  # its last word may still be there
        outcome = {"event": "ended", "number": sandbox.number, **sandbox.outcome()}
        self._forget(sandbox)
        sandbox.close()
        self._sandboxes.pop(sandbox.number)
        self._ending.pop(sandbox.number, None)
        # Every process is gone, which is what was waited for; folders and groups go while the receipt is written.
        # What is kept stays as it is, and its uid leased, until it was looked at.
        if self._open and outcome["kept"]:
            self._kept[sandbox.number] = sandbox.holdings
        self._say(outcome)
        if sandbox.number not in self._kept:
            self._clean(sandbox.holdings)

    def _forget(self, sandbox: Sandbox) -> None:
        for descriptor in (sandbox.status, sandbox.gate.fileno(), sandbox.outer, sandbox.first_fd):
            if descriptor >= 0 and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def _strays(self, sandbox: Sandbox) -> bool:
        """Kill what a supervisor, or a bubblewrap, that was killed has left to us, and say whether there was any."""
        if sandbox.kind == "bwrap" and sandbox.first:  # its end is the end of everything in the sandbox
            return False
        known = {process for one in self._sandboxes.values() for process in (one.process, one.first)}
        known |= {remover for remover, _ in self._removing.values()}
        found = set(watch.children(os.getpid()))
        if sandbox.holdings.lease is not None:
            found |= set(uids.processes(sandbox.holdings.lease.number))
        found -= known  # these are waited for where their end is told
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        return bool(found)

    def _clean(self, holdings: Holdings) -> None:
        with contextlib.suppress(OSError):  # what cannot be removed now is still our owner's, for the next sweep
            if remover := self._builder.give_back(holdings):
                watched = os.pidfd_open(remover)
                self._removing[watched] = remover, holdings
                self._selector.register(watched, selectors.EVENT_READ, lambda: self._removed(watched))

    def _removed(self, watched: int) -> None:
        self._selector.unregister(watched)
        os.close(watched)
        remover, holdings = self._removing.pop(watched)
        os.waitpid(remover, 0)
        self._builder.free(holdings)

    # --- what we say, and when we look --------------------------------------------------------------------------------

    def _say(self, told: dict[str, Any], *given: int) -> None:
        """Tell our side of it, and hand over descriptors, which are closed here."""
        self._outgoing.append((json.dumps(told).encode(), given))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._open and self._outgoing:
                message, given = self._outgoing[0]
                socket.send_fds(self._link, [message], given, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                self._outgoing.popleft()
                for descriptor in given:
                    os.close(descriptor)
        except BlockingIOError:
            self._selector.modify(self._link, selectors.EVENT_READ | selectors.EVENT_WRITE, self._receive)
        except (BrokenPipeError, ConnectionResetError):
            self._orphaned()
        else:
            if self._open:
                self._selector.modify(self._link, selectors.EVENT_READ, self._receive)

    def _pause(self) -> float | None:
        if not self._sandboxes:
            return None
        if self._lingering:
            return SAMPLE_SECONDS
        sampled = any(sandbox.memory_limit for sandbox in self._sandboxes.values())
        return SAMPLE_SECONDS if sampled else LOOK_SECONDS

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        for sandbox in list(self._lingering):
            self._exit(sandbox)
        self._next_look = now + (self._pause() or 0.0)
        for sandbox in self._sandboxes.values():
            if sandbox.released and sandbox.number not in self._ending:
                sandbox.look()
            if now > self._ending.get(sandbox.number, now):
                sandbox.end_outer()


class _Heard:
    """A callback that knows its sandbox."""

    def __init__(self, heard: Any, sandbox: Sandbox) -> None:
        self._heard = heard
        self._sandbox = sandbox

    def __call__(self) -> None:
        self._heard(self._sandbox)


def main(descriptor: int, state: str, scratch: str, *, parent: int, mounts: bool = True) -> None:
    """Be a spawner on the socket `descriptor`, keeping locks below `state` and what commands write below `scratch`."""
    watched = os.pidfd_open(os.getppid())
    if os.getppid() != parent:  # it died while we started
        return
    with contextlib.suppress(PermissionError):
        os.setsid()  # a terminal's Ctrl-C is for whoever asked, who then ends us in good order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(fileno=descriptor)
    try:
        _keep_to_ourselves()
        _dump_nothing()
        owner, builder = _settle(state, scratch, mounts=mounts)
    except (OSError, UnfitError) as error:
        link.send(json.dumps({"event": "unfit", "why": str(error)}).encode(), socket.MSG_NOSIGNAL)
        return
    groups = {"version": builder.groups.version, "controllers": sorted(builder.groups.folders)}
    with contextlib.suppress(BrokenPipeError):
        told = {"event": "settled", "mode": builder.stage.mode, "groups": groups, "landlock": landlock.version()}
        told["quota"] = builder.stage.quota.offered
        link.send(json.dumps(told).encode(), socket.MSG_NOSIGNAL)
        Spawner(link, builder).serve(watched)
    builder.close()
    owner.close()


def _settle(state: str, scratch: str, *, mounts: bool) -> tuple[owners.Owner, Builder]:
    for folder, rights in ((state, 0o755), (f"{state}/stage", 0o711), (f"{state}/uids", 0o700), (scratch, 0o711)):
        owners.own_folder(folder, rights)
    owners.sweep(state)
    kernel.adopt_orphans()
    _raise_open_files()
    with open("/proc/self/mountinfo") as mounted, open("/proc/self/cgroup") as own:
        groups = cgroup.find(mounted.read(), own.read())
    mode = enter(f"{state}/stage", mounts=mounts)
    owner = owners.Owner(state, scratch, groups)
    return owner, Builder(owner, state, Stage(f"{state}/stage", owner.scratch, mode), groups)


def _keep_to_ourselves() -> None:
    """See to it that a program that we start has nothing of ours but what it is given."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder that is being listed
            os.set_inheritable(int(name), False)  # noqa: FBT003 - the name of the function says it
    os.umask(0o022)
    if os.geteuid() == 0:
        os.setgroups([])


def _dump_nothing() -> None:
    """Have no memory of ours, or of what we start, written down when it crashes: it may hold secrets.

    A limit of 0 does not hold back a program that the kernel pipes dumps to; one of 1 byte means that none is wanted.
    """
    with contextlib.suppress(ValueError):  # it is lower already, and only root can raise it
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def _raise_open_files() -> None:
    """Use as many descriptors as we may: each sandbox takes seven."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
