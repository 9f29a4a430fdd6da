"""A listening socket inside a sandbox's own network, held by us: the only thing that a command can connect to.

A socket stays in the network that it was made in, so somebody has to go there to make it: a thread that is never used
again, since each thread has a network of its own. Where we have no power over the namespace that owns the network, that
power has to be entered too, which only a process can: then it is a forked child. The user namespace to enter is the one
that owns the network, not the one that the sandbox's processes are in: bubblewrap nests two.
"""

import _thread
import fcntl
import os
import socket
from typing import Final

from tipstaff.isolation import kernel, packets

_OWNER_OF_NAMESPACE: Final = 0xB701  # NS_GET_USERNS
_FREEBIND: Final = 15  # IP_FREEBIND: lo may not be up yet
_WAITING: Final = 512
_WORD_BYTES: Final = 256


def listener(network: int, port: int, *, masters: bool) -> int:
    """Give a socket that listens on 127.0.0.1:`port` in the network namespace of the descriptor; OSError if not.

    We are its `masters` when we are root, or made the user namespace that bubblewrap's lies in.
    """
    return _by_thread(network, port) if masters else _by_child(network, port)


def _by_thread(network: int, port: int) -> int:
    made: list[int] = []
    faults: list[Exception] = []
    done = _thread.allocate_lock()
    done.acquire()

    def go() -> None:
        try:
            kernel.enter(network, kernel.NEW_NET)
            made.append(_listening(port))
        except (OSError, OverflowError) as error:
            faults.append(error)
        finally:
            done.release()

    _thread.start_new_thread(go, ())
    done.acquire()
    if faults:
        raise OSError(f"no socket can listen on port {port} in the sandbox: {faults[0]}")
    return made[0]


def _by_child(network: int, port: int) -> int:
    near, far = socket.socketpair()
    with near, far:
        child = os.fork()
        if child == 0:
            _listen_and_exit(network, port, far)
        far.close()
        said, descriptors = packets.receive(near, _WORD_BYTES, 1)
        os.waitpid(child, 0)
    if not descriptors:
        raise OSError(f"no socket can listen on port {port} in the sandbox: {said.decode(errors='replace')}")
    return descriptors[0]


def _listen_and_exit(network: int, port: int, far: socket.socket) -> None:
    try:
        kernel.enter(fcntl.ioctl(network, _OWNER_OF_NAMESPACE), kernel.NEW_USER)
        kernel.enter(network, kernel.NEW_NET)
        socket.send_fds(far, [b"made"], [_listening(port)])
    except (OSError, OverflowError) as error:
        far.send(str(error).encode()[:_WORD_BYTES] or b"?")
    finally:
        os._exit(0)


def _listening(port: int) -> int:
    made = socket.socket()
    try:
        made.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)
        made.bind(("127.0.0.1", port))
        made.listen(_WAITING)
    except BaseException:
        made.close()
        raise
    return made.detach()
