"""Workspaces as folders on this machine, one for each manifest: made once, looked at copy-on-write, never changed.

A base is made under another name and renamed when it is whole. Who uses one holds a shared lock on it, who makes or
removes one an exclusive lock, so that nothing is taken from under a run and what a killed process left can be told
from what is being made. All of it is one user's: nobody else can enter. What was made before the machine last started
is made anew: nobody waits until a base is on disk, so a loss of power may leave files of it empty.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from tipstaff.canonical import canonical, digest
from tipstaff.errors import StoreError

Json = dict[str, Any]
TREE: Final = "tree"
MANIFEST: Final = "manifest.json"
LIST: Final = "list"
SOURCE: Final = "source"
KEPT_OF_EACH: Final = 2
_TRIES: Final = 5


class Base:
    """One base in use; `path` is the folder to look at."""

    def __init__(self, home: Path, descriptor: int) -> None:
        self.path = home / TREE
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Depot:
    """All bases of a home."""

    def __init__(self, root: Path) -> None:
        """Keep everything beneath `root`, which is made when it is needed, in a folder of its own for this boot."""
        self._top = root
        self.root = root = root / _boot()
        self._bases, self._making, self._packs = root / "bases", root / "making", root / "packs"

    def base(self, manifest: Json, make: Callable[[Path], None]) -> Base:
        """Give the base of a manifest, to be held while it is used; `make` fills an empty folder if none is there."""
        wanted = digest(manifest)
        for _ in range(_TRIES):
            if (found := self.held(wanted)) is not None:
                return found
            with self.making() as room:
                (room / TREE).mkdir(mode=0o755)
                make(room / TREE)
                self.keep(room, manifest)
        raise StoreError(f"the workspace {wanted[:12]} is removed as often as it is made", hint="try again")

    def held(self, wanted: str) -> Base | None:
        """Give a base that is there, to be held; None when it is not."""
        home = self._bases / wanted
        descriptor = _locked(home, fcntl.LOCK_SH)
        if descriptor is None:
            return None
        with suppress(OSError):
            os.utime(descriptor)  # when it was last used
        return Base(home, descriptor)

    def known(self, wanted: str) -> Path | None:
        """Name the folder of a base that is there, which is not tidied away for now: a run will follow."""
        path = self._bases / wanted / TREE
        return path if _touched(path.parent) and path.is_dir() else None

    def listed(self, wanted: str) -> bytes | None:
        """Give the list of a base, where it came from a list or was captured here."""
        with suppress(OSError):
            return (self._bases / wanted / LIST).read_bytes() if _touched(self._bases / wanted) else None
        return None

    def remembered(self, source: str) -> Path:
        """Name the file in which a capture of this folder is remembered."""
        return self.root / "remembered" / source

    def pack(self, source: str, commit: str) -> Path | None:
        """Name the folder with the pack of a commit that was captured before."""
        path = self._packs / f"{source}-{commit}"
        return path if _touched(path) else None

    def keep_pack(self, made: Path, source: str, commit: str) -> Path:
        """Keep a folder with the pack of a commit; one that is there already stays, and is given."""
        path = self._packs / f"{source}-{commit}"
        _private(self._packs)
        with suppress(OSError):
            made.rename(path)
        return path

    @contextmanager
    def making(self) -> Iterator[Path]:
        """Give an empty folder to make something in; what is left of it is removed."""
        from tempfile import mkdtemp  # noqa: PLC0415 - slow to import, and most runs capture nothing

        for folder in (self._top, self.root, self._making):
            _private(folder)
        path, descriptor = _new_room(lambda: Path(mkdtemp(dir=self._making)))
        try:
            yield path
        finally:
            if path.is_dir():
                remove(path)
            os.close(descriptor)

    def keep(self, room: Path, manifest: Json, *, listed: bytes | None = None, source: str = "") -> str:
        """Make a base of what was made in `room`; one that is there already stays. Gives the manifest's hash."""
        wanted = digest(manifest)
        files = {MANIFEST: canonical(manifest), SOURCE: source.encode(), LIST: listed}
        for name, content in files.items():
            if content is not None:
                (room / name).write_bytes(content)
        for leftover in room.iterdir():
            if leftover.name not in {TREE, MANIFEST, SOURCE, LIST}:
                remove(leftover)
        _private(self._bases)
        try:
            room.rename(self._bases / wanted)
        except OSError as error:
            if self.known(wanted) is None:
                raise StoreError(f"the workspace {wanted[:12]} cannot be kept: {error.strerror}") from error
        return wanted

    def tidy(self, older_than_seconds: float, *, now: float | None = None) -> int:
        """Remove bases that nobody has used for so long, but the newest two of each folder; gives how many.

        Packs that no base shares, and what killed processes left half made, go as well.
        """
        before = (time.time() if now is None else now) - older_than_seconds
        removed = sum(self._removed(path) for path in self._old_bases(before))
        for path in _inside(self._top):
            if path != self.root:
                remove(path)
        for path in _inside(self._packs):
            if _used(path) < before and not _is_shared(path):
                self._removed(path)
        for path in _inside(self._making):
            self._removed(path)
        return removed

    def _old_bases(self, before: float) -> list[Path]:
        used = {path: _used(path) for path in _inside(self._bases)}
        seen: dict[bytes, int] = {}
        old = []
        for path in sorted(used, key=lambda path: used[path], reverse=True):
            source = _read(path / SOURCE)
            seen[source] = seen.get(source, 0) + 1
            if used[path] < before and not (source and seen[source] <= KEPT_OF_EACH):
                old.append(path)
        return old

    def _removed(self, path: Path) -> bool:
        """Remove what nobody holds."""
        descriptor = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is None:
            return False
        try:
            with self.making() as room:  # out of sight first: who looks for it from now on makes it anew
                path.rename(room / "old")
            return True
        finally:
            os.close(descriptor)


def _boot() -> str:
    """Name this start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def remove(path: Path) -> None:
    """Remove a folder of ours, whatever rights its folders have and however deep they are, or a file."""
    if not path.is_dir() or path.is_symlink():
        path.unlink()
        return
    waiting, count = _emptied(path), 0
    while waiting:
        folder = waiting.pop()
        for below in _emptied(folder):
            # To the top, so that no name becomes longer than the kernel takes; not beside it, where others tidy up.
            while (flat := path / f"{count}").exists():
                count += 1
            waiting.append(below.rename(flat))
        folder.rmdir()
    path.rmdir()


def _emptied(folder: Path) -> list[Path]:
    """Remove the files of a folder, and give the folders in it, which may now be moved."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name)  # noqa: PTH108 - thousands of them
    folders = [Path(name) for name, is_folder in found if is_folder]
    for one in folders:
        one.chmod(0o700)
    return folders


def _new_room(make: Callable[[], Path]) -> tuple[Path, int]:
    """Make a folder and lock it; in between, who tidies up may take it for what a killed process left."""
    for _ in range(_TRIES):
        path = make()
        if (descriptor := _locked(path, fcntl.LOCK_EX)) is not None:
            return path, descriptor
    raise StoreError("new folders are removed as often as they are made", hint="try again")


def _locked(path: Path, how: int) -> int | None:
    """Open and lock a folder; None when it is not there, or another's lock stands against it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, how)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}", hint="check the disk") from error


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""


def _touched(folder: Path) -> bool:
    """Note that something is used; says whether it is there."""
    with suppress(FileNotFoundError):
        os.utime(folder)
        return True
    return False


def _used(path: Path) -> float:
    """Say when something was last used; what another process has just removed, never: it cannot be locked either."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _is_shared(pack: Path) -> bool:
    with suppress(FileNotFoundError):
        return any(path.stat().st_nlink > 1 for path in pack.iterdir() if path.suffix == ".pack")
    return False
