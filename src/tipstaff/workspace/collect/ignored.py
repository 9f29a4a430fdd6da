"""Which changed names the base's `.gitignore` files cover: asked of one git, on a directory of ours, batch by batch.

The files count as they were before the run: one that the run wrote could hide what it did. A name that git tracks is
not ignored, whatever the patterns say. Where git cannot tell, nothing is ignored: then more is shown, never less.
"""

import os
import select
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tipstaff.errors import NotFoundError
from tipstaff.workspace.git import Git, GitError, split

SECONDS: Final = 60.0
_FIELDS: Final = 4  # source, line, pattern, name
_PART: Final = 1 << 16
_MOST_PATTERNS: Final = 1 << 20
_WORDS: Final = ("check-ignore", "-z", "--stdin", "--verbose", "--non-matching", "--no-index")


class Ignored:
    """The names that are ignored in one base; `directory` is a git directory of ours."""

    def __init__(self, base: Path, directory: Path) -> None:
        self._base = base
        self._directory = directory
        self._asked: subprocess.Popen[bytes] | None = None
        self._tracked: frozenset[bytes] | None = None
        self._is_repository = os.path.lexists(base / ".git")
        self.problem = ""  # why nothing is ignored although it might be

    def start(self) -> None:
        """Start git early, so that it is there when it is asked."""
        try:
            if self._is_repository and self._asked is None:
                self._started()
        except (OSError, NotFoundError) as error:
            self.problem = f"git cannot tell what is ignored: {error}"

    def close(self) -> None:
        """End the git that was asked."""
        if self._asked is not None:
            self._asked.kill()
            self._asked.communicate()
            self._asked = None

    def covers(self, wanted: Sequence[tuple[bytes, bool]]) -> list[bool]:
        """Say of each name, and whether it was there before, whether it is ignored."""
        if self.problem or not self._is_repository or not wanted:
            return [False] * len(wanted)
        try:
            patterns = self._patterns([name for name, _ in wanted])
        except (OSError, GitError, NotFoundError) as error:
            self.problem = f"git cannot tell what is ignored: {error}"
            return [False] * len(wanted)
        covered = [bool(pattern) and not pattern.startswith(b"!") for pattern in patterns]
        return [
            found and not (was_there and self._is_tracked(name))
            for found, (name, was_there) in zip(covered, wanted, strict=True)
        ]

    def _patterns(self, wanted: list[bytes]) -> list[bytes]:
        """Ask for the pattern that decides on each name; empty where there is none."""
        running = self._asked or self._started()
        if running.stdin is None or running.stdout is None:
            raise GitError("its streams are not there")
        # "./", because a name that begins with a colon would be an instruction.
        said = b"".join(b"./%s\0" % name for name in wanted)
        answers = _exchanged(running.stdin.fileno(), running.stdout.fileno(), said, _FIELDS * len(wanted))
        return split(answers)[2::_FIELDS]

    def _started(self) -> "subprocess.Popen[bytes]":
        if patterns := _read(self._base / ".git" / "info" / "exclude"):
            (self._directory / "info" / "exclude").write_bytes(patterns)
        running = Git(self._directory, work_tree=self._base).start(*_WORDS, stdin=subprocess.PIPE)
        self._asked = running
        return running

    def _is_tracked(self, name: bytes) -> bool:
        """Say whether git tracks a name that was there; yes where it cannot be known."""
        if self._tracked is None:
            index = self._base / ".git" / "index"
            try:
                if not stat.S_ISREG(index.lstat().st_mode):
                    return True
                self._tracked = frozenset(split(Git(self._directory, index=index).run("ls-files", "-z")))
            except (OSError, GitError, NotFoundError):
                return True
        return name in self._tracked


def _exchanged(writing: int, reading: int, said: bytes, fields: int) -> bytes:
    """Say something and read so many answers, at the same time: neither end waits for the other."""
    os.set_blocking(writing, False)
    poll = select.poll()
    poll.register(writing, select.POLLOUT)
    poll.register(reading, select.POLLIN)
    left, answers, deadline = memoryview(said), bytearray(), time.monotonic() + SECONDS
    while fields > 0:
        ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
        if not ready:
            raise GitError(f"git check-ignore took longer than {SECONDS:.0f} seconds")
        if writing in ready:
            left = left[os.write(writing, left[:_PART]) :]
            if not left:
                poll.unregister(writing)
        if reading in ready:
            part = os.read(reading, _PART)
            if not part:
                raise GitError("git check-ignore ended early")
            answers += part
            fields -= part.count(b"\0")
    return bytes(answers)


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MOST_PATTERNS)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
