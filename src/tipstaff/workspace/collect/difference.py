"""The change as a binary diff, made by git in a directory that is ours: of the changed files only, before and after.

`git fast-import` takes contents and names as bytes, so that no file is written and no filter runs; `git diff-tree`
compares the two trees. The directory is bare and without a branch that HEAD could mean: no `.gitattributes` among the
files takes part. Bounded in bytes and in time. Does not decide what is shown.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import IO, Final, NamedTuple

from tipstaff.errors import NotFoundError
from tipstaff.model.blobs import BlobWriter
from tipstaff.model.changes import Side
from tipstaff.workspace.git import Git, GitError, complaint

_PART: Final = 1 << 18
_WHOLE: Final = ("refs/heads/before", "refs/heads/after")
_SMALL: Final = ("refs/heads/small-before", "refs/heads/small-after")
SMALL_BYTES: Final = 1 << 16
_IMPORT: Final = (
    *("-c", "fastimport.unpackLimit=0", "-c", "core.compression=0", "-c", "core.fsync=none"),
    *("fast-import", "--quiet", "--force", "--done", "--date-format=raw"),
)
# Contents that are compared to find renames: more would take longer than the diff.
_COMPARE: Final = (
    *("diff-tree", "-r", "-p", "--binary", "--full-index", "-M", "-l100", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
)
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/ ")


class Shown(NamedTuple):
    """One side of a file as the diff shows it."""

    side: Side
    data: bytes


class _Lines(NamedTuple):
    """What makes the two trees, as fast-import reads it."""

    before: list[bytes]
    removed: list[bytes]
    after: list[bytes]


class Difference:
    """One diff in the making; `directory` is a git directory of ours, and holds nothing yet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._git: Git | None = None
        self._import: subprocess.Popen[bytes] | None = None
        self._every, self._small = _Lines([], [], []), _Lines([], [], [])
        self._marks = 0
        self.fed_bytes = 0
        self.larger: list[bytes] = []  # names of what is in the whole diff, and not in the small one
        self.problem = ""  # why there is no diff: git is not there, or has failed

    def start(self) -> None:
        """Start git early, so that it is there when it is fed."""
        try:
            self._started()
        except (GitError, NotFoundError) as error:
            self.problem = f"there is no diff: {error.message}"

    def add(self, name: bytes, base: Shown | None, now: Shown | None) -> None:
        """Take one changed file, as it was and as it is."""
        try:
            if not self.problem:
                self._add(self._started(), name, base, now)
        except (GitError, NotFoundError) as error:
            self.problem = f"there is no diff: {error.message}"

    def write(self, writer: BlobWriter, most_bytes: int, seconds: float) -> str:
        """Write the diff of all that was added; gives a problem, or nothing when it is whole."""
        try:
            if not self.problem and self._import is not None and self._marks:
                self._finish(self._import, self._started())
            return self.problem or self._write(_WHOLE, writer, most_bytes, seconds)
        except (GitError, NotFoundError) as error:
            self.problem = f"there is no diff: {error.message}"
            return self.problem

    def write_small(self, writer: BlobWriter, most_bytes: int, seconds: float) -> str:
        """Write the diff of all but what is `larger`, when that of all could not be written."""
        try:
            return self.problem or self._write(_SMALL, writer, most_bytes, seconds)
        except (GitError, NotFoundError) as error:
            return f"there is no diff: {error.message}"

    def _add(self, stream: IO[bytes], name: bytes, base: Shown | None, now: Shown | None) -> None:
        is_small = all(len(side.data) <= SMALL_BYTES for side in (base, now) if side is not None)
        before = [self._entry(stream, name, base)] if base is not None else []
        # Removals first: a name may have been a folder, or become one.
        removed = [b"D %s\n" % quoted(name)] if base is not None else []
        after = [self._entry(stream, name, now)] if now is not None else []
        for lines in (self._every, self._small) if is_small else (self._every,):
            lines.before.extend(before)
            lines.removed.extend(removed)
            lines.after.extend(after)
        if not is_small:
            self.larger.append(name)

    def _write(self, trees: tuple[str, str], writer: BlobWriter, most_bytes: int, seconds: float) -> str:
        if self._git is None or not self._marks:
            return ""
        running = self._git.start(*_COMPARE, *trees)
        written = 0
        with limited(running, seconds) as output:
            while part := os.read(output.fileno(), _PART):
                written += len(part)
                if written > most_bytes:
                    return f"the diff is larger than {most_bytes} bytes"
                writer.write(part)
            told = running.stderr.read() if running.stderr is not None else b""
            code = running.wait()
        if code < 0:
            return f"the diff took longer than {seconds:.0f} seconds"
        if code != 0:
            raise GitError(f"git diff-tree: {complaint(told)}")
        return ""

    def close(self) -> None:
        """End what still runs."""
        if self._import is not None and self._import.returncode is None:
            self._import.kill()
            with suppress(OSError, ValueError):  # what it was not told in time
                self._import.communicate()

    def _started(self) -> IO[bytes]:
        if self._import is None:
            self._git = Git(self._directory)
            self._import = self._git.start(*_IMPORT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        if self._import.stdin is None:
            raise GitError("git fast-import has no input")
        return self._import.stdin

    def _entry(self, stream: IO[bytes], name: bytes, shown: Shown) -> bytes:
        """Feed a content, and give the line that puts it into a tree."""
        self._marks += 1
        self.fed_bytes += len(shown.data)
        self._feed(stream, b"blob\nmark :%d\ndata %d\n%s\n" % (self._marks, len(shown.data), shown.data))
        return b"M %s :%d %s\n" % (_mode(shown.side), self._marks, quoted(name))

    def _feed(self, stream: IO[bytes], said: bytes) -> None:
        try:
            stream.write(said)
        except OSError as error:
            raise GitError(f"git fast-import: {self._complaint() or error.strerror}") from error

    def _finish(self, running: "subprocess.Popen[bytes]", stream: IO[bytes]) -> None:
        self._commit(stream, _WHOLE, self._every)
        if self.larger:
            self._commit(stream, _SMALL, self._small)
        self._feed(stream, b"done\n")
        try:
            _, told = running.communicate(timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"git fast-import: {error}") from error
        if running.returncode != 0:
            raise GitError(f"git fast-import: {complaint(told)}")

    def _commit(self, stream: IO[bytes], trees: tuple[str, str], lines: "_Lines") -> None:
        """Make the two trees, before and after."""
        who = b"committer tipstaff <tipstaff@localhost> 0 +0000\ndata 0\n\n"
        before, after = (name.encode() for name in trees)
        self._feed(stream, b"commit %s\n%s%s\n" % (before, who, b"".join(lines.before)))
        changed = b"".join([*lines.removed, *lines.after])
        self._feed(stream, b"commit %s\n%sfrom %s\n%s\n" % (after, who, before, changed))

    def _complaint(self) -> str:
        if self._import is None or self._import.stderr is None:
            return ""
        return complaint(self._import.stderr.read())


@contextmanager
def limited(running: "subprocess.Popen[bytes]", seconds: float) -> Iterator[IO[bytes]]:
    """Give a process's output for so long; it has ended when this does."""
    timer = Timer(seconds, running.kill)
    timer.daemon = True
    timer.start()
    try:
        if running.stdout is None:
            raise GitError("git has no output")
        yield running.stdout
    finally:
        timer.cancel()
        if running.poll() is None:
            running.kill()
        running.wait()
        for stream in (running.stdout, running.stderr):
            if stream is not None:
                stream.close()


def quoted(name: bytes) -> bytes:
    """Spell a name as fast-import reads it: any bytes."""
    return b'"%s"' % b"".join(bytes((byte,)) if byte in _PLAIN else b"\\%03o" % byte for byte in name)


def _mode(side: Side) -> bytes:
    if side.is_link:
        return b"120000"
    return b"100755" if side.mode & 0o100 else b"100644"
