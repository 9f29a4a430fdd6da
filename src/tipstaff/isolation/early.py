"""Forks a spawner before anything heavy is imported, so that it settles while the rest of the program still loads.

The child keeps one socket and /dev/null, nothing else of its parent's. It ends with its socket, or with its parent.
Call it while the process has one thread. Hand both values to a tier (`Bubblewrap(spawner=…)`), which ends and waits
for the child; whoever does not get that far closes the socket.
"""

import _socket  # `socket` alone would take longer to import than all the rest
import os
import sys

_PACKET = 5  # SOCK_SEQPACKET
_STANDARD = 3  # input, output, errors
_HIGHEST = 1 << 20


def fork(state: str, scratch: str) -> "tuple[_socket.socket, int]":
    """Start a spawner; give our end of its socket, and its process id."""
    near, far = _socket.socketpair(_socket.AF_UNIX, _PACKET)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become(far.fileno(), parent, state, scratch)
    far.close()
    return near, child


def _become(descriptor: int, parent: int, state: str, scratch: str) -> None:
    """Be the spawner, in a child that must never return into its parent's program."""
    try:
        sys.stdin = sys.stdout = sys.stderr = None  # what they hold is the parent's to write
        null = os.open("/dev/null", os.O_RDWR)
        for standard in range(_STANDARD):
            os.dup2(null, standard)
        os.closerange(_STANDARD, descriptor)
        os.closerange(descriptor + 1, _HIGHEST)
        from tipstaff.isolation.spawner import main  # noqa: PLC0415 - this is what the parent does not wait for

        main(descriptor, state, scratch, parent=parent)
    finally:
        os._exit(0)
