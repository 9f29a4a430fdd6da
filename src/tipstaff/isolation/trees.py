"""Folders that a command may have written: removed, measured and looked through without trusting what is in them.

No symbolic link is followed, no depth is too deep to remove, and measuring is done in small steps, so that one large
tree holds up nobody.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

_BLOCK: Final = 512
_NAME_BYTES: Final = 4096  # what an entry takes at least: a file system has only so many
_LONG: Final = 2048
_OWN: Final = 0o700
_RIGHTS: Final = 0o777
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in its place is not waited for
_PART: Final = 1 << 20


def remove(folder: str) -> None:
    """Remove a tree of any depth: one folder is open at a time, whatever the whole name would be."""
    if not os.path.isdir(folder):
        return
    current = _entered(folder, None)
    way = [_Level("", _identity(current), _without_files(current))]
    try:
        while len(way) > 1 or way[0].folders:
            if way[-1].folders:
                name = way[-1].folders.pop()
                current = _exchanged(current, _entered(name, current))
                way.append(_Level(name, _identity(current), _without_files(current)))
                continue
            name = way.pop().name
            current = _exchanged(current, os.open("..", _FOLDER, dir_fd=current))
            if _identity(current) != way[-1].identity:
                raise OSError(f"'{folder}' is being changed while it is removed")
            os.rmdir(name, dir_fd=current)
    finally:
        os.close(current)
    os.rmdir(folder)


class _Level(NamedTuple):
    """One folder on the way down: its name in the one above, which one it is, and which folders in it are left."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


def _entered(name: str, above: int | None) -> int:
    """Open a folder, if need be with rights that its owner has taken away (an overlay's work folder has none)."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except PermissionError:
        os.chmod(name, _OWN, dir_fd=above)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)


def _without_files(folder: int) -> list[str]:
    """Remove what is no folder, and name what is one."""
    os.fchmod(folder, _OWN)
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in found if is_folder]


def _exchanged(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def small(folder: str, entries: int) -> bool:
    """Say whether a tree has few entries, without looking at more than that many."""
    return all(count < entries for count, _ in enumerate(_entries(folder)))


class Measure:
    """How much a tree takes on disk, found step by step; `total` is what the last whole pass found."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._steps = _entries(folder)
        self._sum = 0
        self.total = 0

    def step(self, seconds: float) -> None:
        """Go on for about `seconds`; a pass that ends is followed by another one at the next step."""
        end = time.monotonic() + seconds
        for found in self._steps:
            self._sum += max(found.st_blocks * _BLOCK, _NAME_BYTES)
            self.total = max(self.total, self._sum)
            if time.monotonic() > end:
                return
        self.total, self._sum = self._sum, 0
        self._steps = _entries(self._folder)


def _entries(folder: str) -> Iterator[os.stat_result]:
    """Give what is known of every entry of a tree. What vanishes meanwhile, or cannot be reached, is left out."""
    with contextlib.suppress(OSError):
        waiting = [(_Base(folder), ".")]
        while waiting:
            base, path = waiting.pop()
            with contextlib.suppress(OSError), _listed(base, path) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        yield entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(_below(base, f"{path}/{entry.name}"))


class _Base:
    """A folder that is held open while anything below it still has to be looked at."""

    def __init__(self, path: str, above: int | None = None) -> None:
        self.descriptor = os.open(path, _FOLDER | os.O_NOFOLLOW, dir_fd=above)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def _below(base: _Base, path: str) -> tuple[_Base, str]:
    """Name a folder by the nearest one that is held open: no path is longer than the kernel takes."""
    return (base, path) if len(path) < _LONG else (_Base(path, base.descriptor), ".")


@contextlib.contextmanager
def _listed(base: _Base, path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    descriptor = os.open(path, _FOLDER | os.O_NOFOLLOW, dir_fd=base.descriptor)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def doors(folder: str) -> str:
    """Name the first socket, pipe or device in a tree, or nothing: through these, what is outside can be reached."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    return entry.path
    return ""


def copy(source: int, target: str, most_bytes: int) -> None:
    """Copy folders, files and links, with their rights, into an empty folder; OSError beyond `most_bytes`.

    From the folder that the descriptor `source` names, and down from there by descriptor: a folder that is exchanged
    for a link meanwhile leads nowhere.
    """
    _copy_folder(os.open(".", _FOLDER, dir_fd=source), target, most_bytes)


def _copy_folder(folder: int, target: str, left: int) -> int:
    """Copy one folder, which is closed then; gives how many bytes are left."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        for name, mode in found:
            place = f"{target}/{name}"
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=folder), place)
            elif stat.S_ISDIR(mode):
                os.mkdir(place, _OWN)
                left = _copy_folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder), place, left)
                os.chmod(place, stat.S_IMODE(mode) & _RIGHTS)  # in the end: it may take away the right to fill it
            elif stat.S_ISREG(mode):
                left -= _copy_file(os.open(name, _FILE, dir_fd=folder), place, left)
    finally:
        os.close(folder)
    return left


def _copy_file(source: int, target: str, most_bytes: int) -> int:
    """Copy one file, which is closed then; gives its size, which may be another than when it was looked at."""
    copied, after = 0, -1
    try:
        found = os.fstat(source)
        after = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        while part := os.copy_file_range(source, after, min(_PART, most_bytes - copied + 1)):
            copied += part
            if copied > most_bytes:
                raise OSError(f"the workspace is larger than the limit on disk: '{target}' does not fit any more")
        os.fchmod(after, stat.S_IMODE(found.st_mode) & _RIGHTS)  # whatever the umask is
        os.utime(after, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        for descriptor in (source, after):
            if descriptor >= 0:
                os.close(descriptor)
    return copied
