"""The tracked files of a folder as a tree of git's: their bytes as they lie there, through no filter.

Every file is read and hashed; only one that HEAD has otherwise is written as an object, into a directory of ours. What
was read twice must be the same twice. Untracked files are not its business, nor is what the user has staged: the folder
counts, as a run would see it.
"""

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.repository import Repository
from tipstaff.workspace.capture.scan import ChangedError
from tipstaff.workspace.git import Git, split

CHUNK: Final = 2**20  # bytes
LINK: Final = b"120000"
SUBMODULE: Final = b"160000"
POINTER: Final = b"version https://git-lfs.github.com/spec/"
HIDDEN: Final = b"S"  # a sparse checkout keeps it out of the folder


class State(NamedTuple):
    """A file, by git's mode and digest."""

    mode: bytes
    digest: str


class Tracked:
    """What is tracked, as it is in the folder."""

    def __init__(self, git: Git, folder: Beneath, repository: Repository) -> None:
        """Let `git` be a directory that sees the repository's objects, and may be written."""
        self._git = git
        self._folder = folder
        self._format = repository.object_format
        self._commit = repository.commit or ""
        self._listed = repository.listed()
        self.committed_tree = git.run("rev-parse", f"{self._commit}^{{tree}}").decode().strip()
        self.links: dict[bytes, bytes] = {}
        self.left_out: list[tuple[bytes, str]] = []
        self.pointers: list[bytes] = []
        self._hidden: set[bytes] = set()

    def write_tree(self) -> str:
        """Write the tree of all tracked files, and give its name."""
        committed = dict(map(_committed, split(self._git.run("ls-tree", "-r", "-z", "--full-tree", self._commit))))
        current = self._current(committed)
        changed = {name: state for name, state in current.items() if committed.get(name) != state}
        gone = committed.keys() - current.keys()
        if not changed and not gone:
            return self.committed_tree
        self._write_objects(changed)
        nothing = "0" * len(self._commit)
        rows = [b"0 %s\t%s\0" % (nothing.encode(), name) for name in sorted(gone)]
        rows += [b"%s %s\t%s\0" % (state.mode, state.digest.encode(), name) for name, state in changed.items()]
        self._git.run("read-tree", self._commit)
        self._git.run("update-index", "-z", "--index-info", stdin=b"".join(rows))
        return self._git.run("write-tree").decode().strip()

    def _current(self, committed: dict[bytes, State]) -> dict[bytes, State]:
        found: dict[bytes, State] = {}
        for line in split(self._listed):
            about, _, name = line.partition(b"\t")
            if about[:2] == b"? " or name in found:
                continue
            flag, mode, digest, _ = about.split(b" ")
            if mode == SUBMODULE:
                self.left_out.append((name, "a submodule: only its empty folder is captured"))
            state = _same_submodule(committed.get(name)) if mode == SUBMODULE else self._read(name)
            if state is None and flag == HIDDEN:
                state = State(mode, digest.decode())
                self._hidden.add(name)
            if state is not None:
                found[name] = state
        return found

    def _read(self, name: bytes) -> State | None:
        """Look at what the folder has under a name; None for nothing that git could keep."""
        about = self._folder.stat(name)
        if about is None or stat.S_ISDIR(about.st_mode):
            return None
        if stat.S_ISLNK(about.st_mode):
            target = self.links[name] = self._folder.target(name)
            return State(LINK, self._hashed(target))
        if not stat.S_ISREG(about.st_mode):
            self.left_out.append((name, "neither a file, a link nor a folder"))
            return None
        return State(b"100755" if about.st_mode & 0o100 else b"100644", self._hash_file(name))

    def _hashed(self, content: bytes) -> str:
        return hashlib.new(self._format, b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()

    def _hash_file(self, name: bytes) -> str:
        descriptor = opened(self._folder, name)
        with os.fdopen(descriptor, "rb") as file:
            size = left = os.fstat(descriptor).st_size
            found = hashlib.new(self._format, b"blob %d\0" % size, usedforsecurity=False)
            while chunk := file.read(CHUNK):
                if left == size and chunk.startswith(POINTER):
                    self.pointers.append(name)
                found.update(chunk)
                left -= len(chunk)
        if left:
            raise ChangedError(name)
        return found.hexdigest()

    def _write_objects(self, changed: dict[bytes, State]) -> None:
        """Write the contents of what changed, by copies whose names git can take line by line."""
        written = [(name, state) for name, state in changed.items() if name not in self._hidden]
        scratch = self._git.directory / "contents"
        scratch.mkdir()
        for number, (name, _) in enumerate(written):
            self._copy(name, scratch / str(number))
        asked = "".join(f"contents/{number}\n" for number in range(len(written))).encode()
        digests = self._git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=asked).decode().split()
        shutil.rmtree(scratch)
        for (name, state), digest in zip(written, digests, strict=True):
            if state.digest != digest:
                raise ChangedError(name)

    def _copy(self, name: bytes, copy: Path) -> None:
        if name in self.links:
            copy.write_bytes(self.links[name])
            return
        with os.fdopen(opened(self._folder, name), "rb") as source, copy.open("wb") as file:
            shutil.copyfileobj(source, file, CHUNK)


def _same_submodule(state: State | None) -> State | None:
    """Let a submodule stay as HEAD has it: its commits do not travel."""
    return state if state is not None and state.mode == SUBMODULE else None


def _committed(line: bytes) -> tuple[bytes, State]:
    about, _, name = line.partition(b"\t")
    mode, _, digest = about.split(b" ")
    return name, State(b"100644" if mode == b"100664" else mode, digest.decode())


def opened(folder: Beneath, name: bytes) -> int:
    """Open a file to read it; InputError where that is not possible."""
    try:
        return folder.open(name)
    except OSError as error:
        raise InputError(f"{names.shown(name)!r} cannot be captured: {error.strerror}") from error
