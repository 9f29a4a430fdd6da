"""Which claims were taken before: the same one, handed out again, is somebody's recording and starts nothing.

Known by the hash of its last event, which is another for every claim, also for the next of the same run. Kept on disk
until its contract has expired, since from then on nobody could use it; the oldest give way where there are too many.
Survives a kill, and is not synced: after a loss of power the plane's signed clock, or the expiry, has to do.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError
from tipstaff.runner.identity import write_whole

FILE: Final = "claimed"
MOST: Final = 100_000
_DIGITS: Final = 64


class Seen:
    """The claims that a runner has taken and that could still be handed out again."""

    def __init__(self, data: Path, now_ms: int) -> None:
        self._path = data / FILE
        self._expiry = {head: expires for head, expires in _read(self._path).items() if expires >= now_ms}
        self._file = -1
        self._rewrite()

    def take(self, head: str, expires_ms: int) -> bool:
        """Note a claim by the hash of its last event; gives whether it is a new one."""
        if head in self._expiry:
            return False
        self._expiry[head] = expires_ms
        if len(self._expiry) > MOST:
            for old in list(self._expiry)[: MOST // 2]:
                del self._expiry[old]
            self._rewrite()
        else:
            self._write(f"{head} {expires_ms}\n".encode())
        return True

    def _rewrite(self) -> None:
        self._close()
        lines = "".join(f"{head} {expires}\n" for head, expires in self._expiry.items())
        write_whole(self._path, lines.encode(), durable=False)

    def _write(self, line: bytes) -> None:
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            os.write(self._file, line)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}", hint="check the disk") from error

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._close()


def _read(path: Path) -> dict[str, int]:
    """Read what was noted; half a line says nothing."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in path.read_text("ascii", "replace").splitlines():
            head, _, expires = line.partition(" ")
            if len(head) == _DIGITS and expires.isdecimal():
                found[head] = int(expires)
    return found
