"""Tokens: who is this runner, and which claim does it hold. Opaque to the runner.

Keyed by a secret of their own (never a signing key), each kind by its own name, compared in constant time. A claim's
token is bound to run, attempt, lease and runner; whether that claim still stands is asked of the store.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from tipstaff.errors import PlaneError


class Claim(NamedTuple):
    """What a claim token says."""

    run_id: str
    attempt: int
    serial: int
    runner_id: str


class Tokens:
    """Makes and reads tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def claim(self, claim: Claim) -> str:
        """Make the token of a claim."""
        return self._made("claim", msgspec.json.encode(tuple(claim)))

    def read_claim(self, token: object) -> Claim:
        """Read the token of a claim, if it is ours."""
        return Claim(*msgspec.json.decode(self._read("claim", token), type=tuple[str, int, int, str]))

    def runner(self, runner_id: str) -> str:
        """Make the token of a runner; the same for the same runner."""
        return self._made("runner", runner_id.encode())

    def read_runner(self, token: object) -> str:
        """Read a runner's id from its token, if it is ours."""
        return self._read("runner", token).decode()

    def _made(self, kind: str, content: bytes) -> str:
        return f"{urlsafe_b64encode(content).decode()}.{self._mac(kind, content)}"

    def _read(self, kind: str, token: object) -> bytes:
        text, _, mac = token.partition(".") if isinstance(token, str) and token.isascii() else ("", "", "")
        try:
            content = urlsafe_b64decode(text)
        except ValueError:
            content = b""
        if not hmac.compare_digest(self._mac(kind, content), mac):
            raise PlaneError(f"this is not a {kind} token of this plane", status=401, code="token_unknown")
        return content

    def _mac(self, kind: str, content: bytes) -> str:
        # BLAKE2 has a key of its own, and costs a twentieth of what HMAC by OpenSSL costs here.
        return blake2b(content, digest_size=32, key=self._secret, person=f"tipstaff.{kind}".encode()).hexdigest()
