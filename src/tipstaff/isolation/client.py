"""Our side of the spawner's socket, on the event loop: start it once, ask it for sandboxes, hear how they end."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.isolation import order, packets

_PACKAGES: Final = str(Path(__file__).resolve().parent.parent.parent)
# -I and -S: no site, no variables, nothing from the current folder; only the standard library and this package.
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tipstaff.isolation.spawner import main; "
    "main(int(sys.argv[2]), sys.argv[3], sys.argv[4], parent=int(sys.argv[5]), mounts=sys.argv[6] == 'mounts')"
)
_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 30.0


class SpawnerError(Exception):
    """No sandbox could be had; the message says why."""


class Box:
    """One sandbox, seen from here."""

    def __init__(self, link: "Link", number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self.number = number
        self.ready: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.ended: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.released = False
        self._let_go = False
        self.listeners: dict[int, asyncio.Future[socket.socket]] = {}

    def expect(self, port: int) -> "asyncio.Future[socket.socket]":
        """Say what a socket that was asked for comes as."""
        made: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self.listeners[port] = made
        return made

    def listen(self, port: int) -> "asyncio.Future[socket.socket]":
        """Ask for a socket that listens on 127.0.0.1:`port` inside the sandbox; SpawnerError when there is none."""
        made = self.expect(port)
        self._link.ask({"verb": "listen", "number": self.number, "port": port})
        if self.ended.done():
            self.gone(self.ended.result())
        return made

    def gone(self, told: dict[str, Any]) -> None:
        """Take the last that is heard of it."""
        for made in self.listeners.values():
            _refuse(made, SpawnerError("the sandbox ended before a socket could listen in it"))
        _answer(self.ready, {})
        _answer(self.ended, told)
        self._remove_kept()

    def release(self) -> None:
        """Let the command run."""
        self.released = True
        self._link.ask({"verb": "release", "number": self.number})

    def end(self, cause: str) -> None:
        """Have everything in the sandbox killed, once, for the first cause that is named."""
        self._link.ask({"verb": "end", "number": self.number, "cause": cause})

    def let_go(self) -> None:
        """Have what was kept of it removed, now or when it has ended: nobody will look at it any more."""
        self._let_go = True
        self._remove_kept()

    def _remove_kept(self) -> None:
        if self._let_go and self.ended.done() and self.ended.result().get("kept"):
            self._link.ask({"verb": "remove", "number": self.number})


class Link:
    """A running spawner."""

    def __init__(self, near: socket.socket, process: int, wait: Callable[[], object]) -> None:
        near.setblocking(False)  # noqa: FBT003 - the name of the method says it
        self._socket = near
        self.process = process
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._boxes: dict[int, Box] = {}
        self._numbers = count(1)
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self.alive = True
        self._closed = False
        self.settled: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._loop.add_reader(near, self._hear)

    @classmethod
    def adopt(cls, near: socket.socket, process: int) -> "Link":
        """Take over a spawner that was forked early: a child of ours that nobody has waited for."""
        return cls(near, process, lambda: os.waitpid(process, 0))

    @classmethod
    def start(cls, state: str, scratch: str, *, mounts: bool = True) -> "Link":
        """Start a spawner."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [_PACKAGES, str(far.fileno()), state, scratch, str(os.getpid()), "mounts" if mounts else "plain"]
        try:
            # On this very thread and without a fork of our memory; it follows its parent by the socket, not a signal.
            process = subprocess.Popen(  # noqa: S603 - our own program, and starting it does not block
                [sys.executable, "-I", "-S", "-c", _PROGRAM, *words],
                env={},
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            near.close()
            raise SpawnerError(f"the process that builds sandboxes cannot be started: {error}") from error
        finally:
            far.close()
        return cls(near, process.pid, process.wait)

    async def wait_settled(self) -> None:
        """Wait until it can build; SpawnerError, and it is gone, when it cannot."""
        try:
            await asyncio.wait_for(asyncio.shield(self.settled), _START_SECONDS)
        except (SpawnerError, TimeoutError) as error:
            await self.close()
            raise SpawnerError(str(error) or "the process that builds sandboxes does not answer") from error

    @property
    def standing(self) -> int:
        """How many sandboxes there are."""
        return len(self._boxes)

    def build(self, wanted: order.Order, streams: tuple[int, int, int], ports: Sequence[int] = ()) -> Box:
        """Ask for a sandbox, with sockets that listen inside it before it is `ready`; the caller waits for that."""
        if not self.alive:
            raise SpawnerError("the process that builds sandboxes has just ended")
        box = Box(self, next(self._numbers), self._loop)
        self._boxes[box.number] = box
        with _memory_file(order.encode(wanted)) as body:
            self.ask({"verb": "start", "number": box.number, "ports": list(ports)}, [body, *streams])
        return box

    def ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message: now, or as soon as there is room; the caller may close its descriptors."""
        if self.alive:
            self._unsent.append((msgspec.json.encode(message), [os.dup(descriptor) for descriptor in descriptors]))
            self._send()

    def _send(self) -> None:
        try:
            while self._unsent:
                socket.send_fds(self._socket, [self._unsent[0][0]], self._unsent[0][1], socket.MSG_NOSIGNAL)
                self._drop()
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._send)
        except OSError:
            self._lost()
        else:
            self._loop.remove_writer(self._socket)

    def _drop(self) -> None:
        for descriptor in self._unsent.popleft()[1]:
            os.close(descriptor)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.alive:
                try:
                    message, given = packets.receive(self._socket, packets.MESSAGE_BYTES, 1)
                except ConnectionResetError:
                    message, given = b"", []
                if not message:
                    self._lost()
                else:
                    self._take(msgspec.json.decode(message), [socket.socket(fileno=descriptor) for descriptor in given])

    def _take(self, told: dict[str, Any], given: list[socket.socket]) -> None:
        event = told["event"]
        if event == "listening":
            self._listening(told, given)
        if event == "settled":
            _answer(self.settled, told)
        elif event == "unfit":
            _refuse(self.settled, SpawnerError(told["why"]))
        elif event == "ready":
            _answer(self._boxes[told["number"]].ready, told["facts"])
        elif event == "failed":
            box = self._boxes.pop(told["number"])
            _refuse(box.ready, SpawnerError(told["why"]))
            box.gone(told)
        elif event == "ended":
            self._boxes.pop(told["number"]).gone(told)

    def _listening(self, told: dict[str, Any], given: list[socket.socket]) -> None:
        box = self._boxes.get(told["number"])
        made = box.listeners.pop(told["port"], None) if box is not None else None
        for listener in given:
            listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
            if made is None or made.done():
                listener.close()
            else:
                made.set_result(listener)
        if not given and made is not None:
            _refuse(made, SpawnerError(told["why"]))

    def _lost(self) -> None:
        """The spawner is gone: nothing more will be heard of any sandbox, and the kernel kills them all."""
        self.alive = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        while self._unsent:
            self._drop()
        _refuse(self.settled, SpawnerError("the process that builds sandboxes ended at its start"))
        for box in self._boxes.values():
            box.gone({"event": "orphaned"})
        self._boxes.clear()

    async def close(self) -> None:
        """End the spawner, which ends and cleans all that it has, and wait for it; kill one that does not go."""
        if self.alive:
            self._lost()
        if self._closed:
            return
        self._closed = True
        self._socket.close()
        gone = self._loop.create_future()
        descriptor = os.pidfd_open(self.process)
        late = self._loop.call_later(_END_SECONDS, signal.pidfd_send_signal, descriptor, signal.SIGKILL)
        try:
            self._loop.add_reader(descriptor, _answer, gone, None)
            await gone
        finally:
            late.cancel()
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self._wait()


def _answer(future: "asyncio.Future[Any]", value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _refuse(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # taken note of, also when nobody waits any more


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("tipstaff-order", os.MFD_CLOEXEC)
    try:
        written = 0
        while written < len(content):
            written += os.write(descriptor, content[written:])
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
