"""A listening socket inside a sandbox's own network, held by us: the only thing that a command can connect to.

Made in a forked child, which enters the namespaces and never comes back; the socket stays in the network that it was
made in. The user namespace to enter is the one that owns the network, not the one that the sandbox's processes are in:
bubblewrap nests two.
"""

import fcntl
import os
import socket
from typing import Final

from tipstaff.isolation import kernel, packets

_OWNER_OF_NAMESPACE: Final = 0xB701  # NS_GET_USERNS
_FREEBIND: Final = 15  # IP_FREEBIND: lo may not be up yet
_WAITING: Final = 128
_WORD_BYTES: Final = 256


def listener(network: int, port: int) -> int:
    """Give a socket that listens on 127.0.0.1:`port` in the network namespace of the descriptor; OSError if not."""
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
        with socket.socket() as made:
            made.setsockopt(socket.IPPROTO_IP, _FREEBIND, 1)
            made.bind(("127.0.0.1", port))
            made.listen(_WAITING)
            socket.send_fds(far, [b"made"], [made.fileno()])
    except (OSError, OverflowError) as error:
        far.send(str(error).encode()[:_WORD_BYTES] or b"?")
    finally:
        os._exit(0)
