"""A tunnel: bytes from one socket to another and back, moved by the loop's own callbacks and not by tasks.

The kernel moves them through a pipe (splice), which is twice as fast as reading and writing them. The pipe is shared by
all tunnels and empty whenever nobody is at it: what a receiver has no room for is taken out, and nothing more is read
from the sender until it is gone, so that a stalled tunnel holds at most one piece.
An end is passed on as an end, a reset as a reset. Looks at nothing.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable
from typing import Final

from tipstaff.egress.attempt import Meter, used_up
from tipstaff.egress.duplex import Wire
from tipstaff.egress.refusal import RefusalError

PIECE_BYTES: Final = 1 << 20  # what any user may have a pipe hold
SMALL_BYTES: Final = 64 << 10
HELD_BYTES: Final = 32 << 20  # for all stalled tunnels together; beyond it pieces are small
_AT_ONCE: Final = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Pipe:
    """Where bytes pass from one socket to another without being ours; made when it is first needed."""

    def __init__(self) -> None:
        self.held_bytes = 0  # by tunnels whose receivers have no room
        self._ends: tuple[int, int] | None = None

    def fill(self, source: socket.socket, max_bytes: int) -> int:
        """Take what a socket has, at most so much; 0 is its end. Empty the pipe before anything else."""
        if self._ends is None:
            self._ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            with contextlib.suppress(OSError):  # a user with many pipes gets small ones
                fcntl.fcntl(self._ends[1], fcntl.F_SETPIPE_SZ, PIECE_BYTES)
        return os.splice(source.fileno(), self._ends[1], max_bytes, flags=_AT_ONCE)

    def empty(self, sink: socket.socket, count: int) -> bytes:
        """Give a socket what is in the pipe, and us what it has no room for; OSError when it takes nothing more."""
        if self._ends is None:
            return b""
        try:
            while count:
                count -= os.splice(self._ends[0], sink.fileno(), count, flags=_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return self._rest(self._ends[0], count)
        except OSError:
            self._rest(self._ends[0], count)
            raise
        return b""

    def close(self) -> None:
        """Let go of it."""
        for end in self._ends or ():
            os.close(end)
        self._ends = None

    @staticmethod
    def _rest(end: int, count: int) -> bytes:
        pieces = []
        while count:
            pieces.append(os.read(end, count))
            count -= len(pieces[-1])
        return b"".join(pieces)


class Tunnel:
    """Two sockets, joined until both have ended. The pipe may be shared by all tunnels of a loop."""

    def __init__(self, client: Wire, far: Wire, meter: Meter, pipe: Pipe) -> None:
        self._loop = asyncio.get_running_loop()
        self._wires = client, far
        self._meter = meter
        self._pipe = pipe
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._touched = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._flows = (
            _Flow(self, client.sock, far.sock, pipe, meter.out),
            _Flow(self, far.sock, client.sock, pipe, meter.came),
        )

    async def run(self, idle_seconds: float) -> None:
        """Stay until both sides have ended; a broken or an idle tunnel raises OSError, one out of bytes a refusal."""
        self._check_idle(idle_seconds)
        for flow in self._flows:
            flow.start()
        try:
            await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for flow in self._flows:
                flow.stop()
            if not all(flow.ended for flow in self._flows):
                for wire in self._wires:
                    wire.abort()

    def room(self) -> int:
        """Say how many bytes may be read now."""
        room = self._meter.room()
        piece = PIECE_BYTES if self._pipe.held_bytes < HELD_BYTES else SMALL_BYTES
        return piece if room is None else min(room, piece)

    def touch(self) -> None:
        """Note that something moved."""
        self._touched = self._loop.time()

    def fail(self, fault: OSError | RefusalError) -> None:
        """End the tunnel at once."""
        if not self._done.done():
            self._done.set_exception(fault)

    def flow_ended(self) -> None:
        """Note that one direction has ended; with both, the tunnel has."""
        if all(flow.ended for flow in self._flows) and not self._done.done():
            self._done.set_result(None)

    def _check_idle(self, idle_seconds: float) -> None:
        left = self._touched + idle_seconds - self._loop.time()
        if left <= 0:
            self.fail(TimeoutError(f"nothing moved for {idle_seconds:g} seconds"))
        else:
            self._timer = self._loop.call_later(left, self._check_idle, idle_seconds)


class _Flow:
    """One direction."""

    def __init__(
        self,
        tunnel: Tunnel,
        source: socket.socket,
        sink: socket.socket,
        pipe: Pipe,
        count: Callable[[int], None],
    ) -> None:
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._tunnel = tunnel
        self._source = source
        self._sink = sink
        self._pipe = pipe
        self._count = count
        self._left = memoryview(b"")

    def start(self) -> None:
        self._loop.add_reader(self._source, self._readable)

    def stop(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)
        self._keep(memoryview(b""))

    def _keep(self, left: memoryview) -> None:
        self._pipe.held_bytes += len(left) - len(self._left)
        self._left = left

    def _readable(self) -> None:
        try:
            self._move()
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, RefusalError) as fault:
            self._tunnel.fail(fault)

    def _move(self) -> None:
        """Move one piece; what the sink has no room for waits, and the source with it."""
        room = self._tunnel.room()
        if not room and self._source.recv(1, socket.MSG_PEEK):
            raise used_up()
        count = self._pipe.fill(self._source, room) if room else 0
        self._tunnel.touch()
        if not count:
            self._end()
            return
        self._keep(memoryview(self._pipe.empty(self._sink, count)))
        self._count(count)
        if self._left:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._writable)

    def _writable(self) -> None:
        try:
            self._keep(self._left[self._sink.send(self._left) :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as fault:
            self._tunnel.fail(fault)
            return
        self._tunnel.touch()
        if not self._left:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._readable)

    def _end(self) -> None:
        """Pass the end on; the other direction may go on for long."""
        self.ended = True
        self._loop.remove_reader(self._source)
        with contextlib.suppress(OSError):
            self._sink.shutdown(socket.SHUT_WR)
        self._tunnel.flow_ended()
