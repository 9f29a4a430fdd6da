"""The gate: serves the one socket that a sandbox can connect to, for the length of a run.

Accepts, counts, and hands each connection to a `Connection`; tells every attempt once, when it has ended.
Closing waits for no peer: what is open is ended, and told with the bytes that it moved.
Decides nothing: `terms` does.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from tipstaff.egress.attempt import Attempt
from tipstaff.egress.connection import Connection
from tipstaff.egress.dial import Dialler
from tipstaff.egress.means import Means
from tipstaff.egress.options import Options
from tipstaff.egress.resolve import Resolver
from tipstaff.egress.terms import Terms

ACCEPTED_AT_ONCE: Final = 64
REFUSED_AT_ONCE: Final = 64  # connections beyond the limit that are told so; more than these wait
BREATH_SECONDS: Final = 0.2  # until accepting is tried again, when the host has no descriptors left
CLOSE_SECONDS: Final = 5.0

__all__ = ["Attempt", "Gate", "Options"]


class Gate:
    """One run's way out."""

    def __init__(self, terms: Terms, told: Callable[[Attempt], None], *, options: Options | None = None) -> None:
        options = options or Options()
        dialler = Dialler(terms, options, Resolver())
        self._means = Means(terms, options, dialler)
        self._told = told
        self._most = options.limits.connections
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused = False

    def serve(self, listener: socket.socket) -> None:
        """Accept on a listening socket, from now on, on the running loop; the socket is ours."""
        listener.settimeout(0)
        self._listeners.append(listener)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """End everything at once; when this returns, every attempt has been told."""
        self._pause()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._means.asking.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        self._means.pipe.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if len(self._tasks) >= self._most + REFUSED_AT_ONCE:
                self._pause()
                return
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause()
                asyncio.get_running_loop().call_later(BREATH_SECONDS, self._resume)
                return
            self._attend(sock)

    def _attend(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self._means, sock, crowded=len(self._tasks) >= self._most)
        task = asyncio.get_running_loop().create_task(connection.run())
        self._tasks.add(task)
        # Not in the task itself: one that is cancelled before its first step would never get there.
        task.add_done_callback(partial(self._ended, connection))

    def _ended(self, connection: Connection, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._resume()
        connection.close()
        fault = None if task.cancelled() else task.exception()
        attempt = connection.attempt
        if fault is not None:
            self._complain(fault)
        if attempt is not None:
            self._told(attempt if fault is None else _failed(attempt, fault))

    def _complain(self, fault: BaseException) -> None:
        """Show a defect of ours where its owner looks: nothing went out because of it."""
        asyncio.get_running_loop().call_exception_handler({"message": "the egress gate failed", "exception": fault})

    def _pause(self) -> None:
        self._paused = True
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            for listener in self._listeners:
                asyncio.get_running_loop().add_reader(listener, self._accept, listener)


def _failed(attempt: Attempt, fault: BaseException) -> Attempt:
    decision = "allowed" if attempt.bytes_out else "blocked"
    return msgspec.structs.replace(attempt, decision=decision, reason=f"the gate failed: {type(fault).__name__}")
