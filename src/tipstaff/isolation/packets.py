"""Messages between a spawner and whoever asks it: one packet each, with the descriptors that go along.

Both ends import this, and the asking one nothing of the spawner's own.
"""

import os
import socket
from typing import Final

MESSAGE_BYTES: Final = 65536


def receive(link: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Take one message with its descriptors, which no program that is started later inherits."""
    message, descriptors, _, _ = socket.recv_fds(link, size, most)
    for descriptor in descriptors:  # Python 3.11 takes a flag for this, and does not pass it on
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the name of the function says it
    return message, descriptors
