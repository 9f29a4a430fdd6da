"""Starts one command of the `process` tier, stays with it, and ends everything that it started.

The supervisor is a child of the spawner's that adopts what its command leaves behind, whatever that called setsid for.
It goes only when nothing is left below it. When the command ends, or the spawner does, it kills the rest. As root the
command has a uid of its own, and one call of the kernel kills everything of that uid at once, so that no fork escapes;
otherwise the tree below is killed until it is empty.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from typing import Final, NoReturn

from tipstaff.isolation import kernel, narrow, watch
from tipstaff.isolation.launch import Start

STATUS: Final = 10
SETUP_FAILED: Final = 125
_COMPLAINTS: Final = 2
_SIGNALS: Final = 128
_FIRST_REAL_TIME: Final = 32
_HIGH: Final = 256
_HIGHEST: Final = 1 << 20
_PAUSE_SECONDS: Final = 0.002


def supervised(start: Start, wanted: narrow.Narrowing, keep: tuple[int, ...]) -> int:
    """Start a supervisor with its command and give its process id; it keeps the descriptors (locks) in `keep`."""
    spawner = os.getpid()
    child = os.fork()
    if child == 0:
        _supervise(start, wanted, keep, spawner)
    return child


def _supervise(start: Start, wanted: narrow.Narrowing, keep: tuple[int, ...], spawner: int) -> NoReturn:
    code = SETUP_FAILED
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kernel.adopt_orphans()
        parent = os.pidfd_open(os.getppid())
        command = os.fork()
        if command == 0:
            _become(start, wanted)
        watched = os.pidfd_open(command)
        os.write(start.descriptors[STATUS], json.dumps({"child-pid": command}).encode() + b"\n")
        _close_all_but(parent, watched, *keep)
        if os.getppid() == spawner:
            select.select([parent, watched], [], [])
        code = _ended(command, start.uid)
    finally:
        os._exit(code)


def _become(start: Start, wanted: narrow.Narrowing) -> NoReturn:
    """Be the command's shell, narrowed down; whatever fails on the way is told, and nothing runs."""
    try:
        os.setsid()
        if start.group is not None:
            start.group.join()
        workspace = narrow.view(wanted)
        _place(start.descriptors)
        _forget_signals()
        if start.uid is not None:
            os.setresgid(start.uid, start.uid, start.uid)
            os.setresuid(start.uid, start.uid, start.uid)
        os.write(STATUS, json.dumps(narrow.close(wanted, workspace)).encode() + b"\n")
        os.close(STATUS)
        os.execve(start.command[0], start.command, {})  # noqa: S606 - no shell is wanted here
    except BaseException as error:  # noqa: BLE001 - the only way out of a forked child is its end
        os.write(start.descriptors[_COMPLAINTS], f"the command cannot be narrowed down: {error}".encode())
    finally:
        os._exit(SETUP_FAILED)


def _place(descriptors: dict[int, int]) -> None:
    """Move descriptors to their numbers by way of high ones, so that none is overwritten; no other is inherited."""
    high = {number: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _HIGH) for number, source in descriptors.items()}
    for number, source in high.items():
        os.dup2(source, number)
    os.closerange(max(descriptors) + 1, _HIGHEST)


def _forget_signals() -> None:
    """Give every signal its usual meaning: what Python, we or our caller ignore is nothing to the program."""
    for number in range(1, _FIRST_REAL_TIME):
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _close_all_but(*kept: int) -> None:
    """Let go of everything else: a pipe that we held open would never end for whoever reads it."""
    last = -1
    for descriptor in sorted(kept):
        os.closerange(last + 1, descriptor)
        last = descriptor
    os.closerange(last + 1, _HIGHEST)


def _ended(command: int, uid: int | None) -> int:
    """Kill and wait until nothing is left below us; gives the command's code."""
    code = SETUP_FAILED
    kill_all(uid)
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if process == command:
            code = os.waitstatus_to_exitcode(status)
            code = _SIGNALS - code if code < 0 else code
        if not process:
            kill_all(uid)
            time.sleep(_PAUSE_SECONDS)


def kill_all(uid: int | None) -> None:
    """Kill everything that runs as `uid`, at once; or, without one, everything below us."""
    if uid is None:
        for process in watch.tree(os.getpid())[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return
    killer = os.fork()
    if killer == 0:
        with contextlib.suppress(BaseException):
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(killer, 0)
