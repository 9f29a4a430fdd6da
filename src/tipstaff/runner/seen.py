"""Which claims were taken before: the same one, handed out again, is somebody's recording and starts nothing.

Known by what is signed of it: the contract's hash, and which attempt at it this is; a plane that does not sign for
attempts has one. Kept on disk until the contract has expired, since from then on nobody could use it; the oldest give
way where there are too many. Survives a kill, and is not synced: after a loss of power the plane's signed word on the
claim, or the expiry, has to do.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from tipstaff.runner.appended import Appended
from tipstaff.runner.identity import write_whole

FILE: Final = "claimed"
MOST: Final = 100_000
_line = re.compile(r"([0-9a-f]{64}) ([0-9]{1,18}) ([0-9]{1,18})\Z").match


class Seen:
    """The claims that a runner has taken and that could still be handed out again."""

    def __init__(self, data: Path, now_ms: int) -> None:
        self._path = data / FILE
        self._expiry = {taken: expires for taken, expires in _read(self._path).items() if expires >= now_ms}
        self._file = Appended(self._path)
        self._rewrite()

    def take(self, contract_hash: str, attempt: int, expires_ms: int) -> bool:
        """Note an attempt at a contract; gives whether it is a new one."""
        taken = (contract_hash, attempt)
        if taken in self._expiry:
            return False
        self._expiry[taken] = expires_ms
        if len(self._expiry) > MOST:
            for old in list(self._expiry)[: MOST // 2]:
                del self._expiry[old]
            self._rewrite()
        else:
            line = f"\n{contract_hash} {attempt} {expires_ms}\n"  # half a line before it must not swallow it
            self._file.add(line.encode())
        return True

    def _rewrite(self) -> None:
        self._file.close()
        lines = "".join(f"{contract} {attempt} {expires}\n" for (contract, attempt), expires in self._expiry.items())
        write_whole(self._path, lines.encode(), durable=False)


def _read(path: Path) -> dict[tuple[str, int], int]:
    """Read what was noted; half a line says nothing."""
    found: dict[tuple[str, int], int] = {}
    with suppress(OSError):
        for line in path.read_text("ascii", "replace").splitlines():
            if whole := _line(line):
                found[whole[1], int(whole[2])] = int(whole[3])
    return found
