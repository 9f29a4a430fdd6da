"""A file of the runner's to which lines are added: opened at the first one, 0600, never through a link.

What was added survives a kill; that it survives a loss of power is the caller's business. A line that could not be
written whole is an error, and leaves the half of it: whoever adds another one after that begins it with a line feed.
"""

import os
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Appended:
    """One such file, held open from the first line on."""

    _file = -1

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, data: bytes) -> None:
        """Add bytes at the end, all of them."""
        try:
            if self._file < 0:
                self._file = os.open(self._path, _FLAGS, 0o600)
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}", hint="check the disk") from error

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()
