"""Ed25519 keys that live in an ssh-agent: the private half never enters our memory.

Speaks the two requests of the agent protocol that are needed (list identities, sign), with a time limit, over the
socket whose path the caller passes in. An Ed25519 signature made by an agent is an ordinary one over the same bytes.
"""

import base64
import socket
import struct
from collections.abc import Iterator
from itertools import islice

from tipstaff.errors import SigningKeyError
from tipstaff.keys.ed25519 import SIGNATURE_BYTES, PublicKey

LIST_IDENTITIES, IDENTITIES, SIGN, SIGNED = 11, 12, 13, 14
ALGORITHM = b"ssh-ed25519"
TIMEOUT_SECONDS = 60.0  # an agent may ask its user to touch a token
MAX_REPLY = 256 * 1024
RAW_KEY_BYTES = 32


class AgentKey:
    """One key of an agent; a `Signer`."""

    def __init__(self, socket_path: str, public: PublicKey, comment: str, timeout_seconds: float) -> None:
        self._socket_path = socket_path
        self._timeout_seconds = timeout_seconds
        self.public = public
        self.comment = comment

    def sign(self, message: bytes) -> str:
        """Have the agent sign `message`; what comes back is checked before it is used."""
        blob = _string(ALGORITHM) + _string(self.public.raw)
        request = bytes([SIGN]) + _string(blob) + _string(message) + bytes(4)
        reply = _ask(self._socket_path, request, SIGNED, self._timeout_seconds)
        algorithm, signature, *_ = [*_strings(next(_strings(reply), b"")), b"", b""]
        if algorithm != ALGORITHM or len(signature) != SIGNATURE_BYTES:
            raise SigningKeyError("the ssh-agent answered with a signature of another kind")
        text = base64.b64encode(signature).decode("ascii")
        if not self.public.verifies(message, text):
            raise SigningKeyError(f"the ssh-agent's signature is not by key {self.public.key_id}")
        return text


def agent_keys(socket_path: str, timeout_seconds: float = TIMEOUT_SECONDS) -> list[AgentKey]:
    """List the agent's Ed25519 keys; others, and certificates, are passed over."""
    reply = _ask(socket_path, bytes([LIST_IDENTITIES]), IDENTITIES, timeout_seconds)
    fields = list(_strings(reply[4:]))
    found = []
    for blob, comment in zip(fields[::2], fields[1::2], strict=False):
        parts = list(islice(_strings(blob), 2))  # no more: a certificate goes on with other things than strings
        if parts[:1] == [ALGORITHM] and len(parts[-1]) == RAW_KEY_BYTES:
            public = PublicKey(parts[-1])
            found.append(AgentKey(socket_path, public, comment.decode("utf-8", "replace"), timeout_seconds))
    return found


def _ask(socket_path: str, request: bytes, expected: int, timeout_seconds: float) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(socket_path)
            connection.sendall(_string(request))
            (length,) = struct.unpack(">I", _receive(connection, 4))
            if not 1 <= length <= MAX_REPLY:
                raise SigningKeyError("the ssh-agent's answer is malformed")
            reply = _receive(connection, length)
    except OSError as error:
        raise SigningKeyError(
            f"the ssh-agent cannot be reached: {error.strerror or error}", hint="is SSH_AUTH_SOCK right?"
        ) from error
    if reply[0] != expected:
        raise SigningKeyError("the ssh-agent refused", hint="is the key still loaded? see: ssh-add -l")
    return reply[1:]


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise SigningKeyError("the ssh-agent closed the connection")
        data += chunk
    return data


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _strings(data: bytes) -> Iterator[bytes]:
    """Split length-prefixed strings."""
    while data:
        if len(data) < 4:  # noqa: PLR2004 - the length itself
            raise SigningKeyError("the ssh-agent's answer is malformed")
        (length,) = struct.unpack(">I", data[:4])
        if length > len(data) - 4:
            raise SigningKeyError("the ssh-agent's answer is malformed")
        yield data[4 : 4 + length]
        data = data[4 + length :]
