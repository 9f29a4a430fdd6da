"""A commit without its history, for the `.git` of a workspace: one pack with its objects, and an index.

Git makes both while the files are being copied. A pack is kept for the next capture of the same commit, because git
does not pack the same objects into the same bytes twice, and the pack's digest is in the manifest. What is there for
one commit is shared by links: nobody writes into a base.
"""

import os
from hashlib import file_digest
from pathlib import Path
from threading import Thread
from typing import Final

from tipstaff.errors import StoreError
from tipstaff.workspace.git import GitError
from tipstaff.workspace.inside import OBJECT_FORMATS, write_git
from tipstaff.workspace.pointers import unreadable
from tipstaff.workspace.repository import Repository, Started

DIGEST: Final = "digest"
INDEX: Final = "index"
# Whole objects as they are: looking for what two have in common takes longer than anything else here.
_PACK: Final = ("pack-objects", "-q", "--window=0", "--no-use-bitmap-index", "--compression=0")
_LIST: Final = ("rev-list", "--objects", "--no-walk")
_IDX: Final = b"\xfftOc\x00\x00\x00\x02"  # what a list of a pack's objects begins with
_IDX_NAMES: Final = 8 + 256 * 4  # and where the names of the objects begin


class Packing:
    """Git at work on the pack and the index of one commit, in a folder of its own."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        """Begin. The folder is made; `stop` must follow, and `finish` may."""
        self.folder = folder
        folder.mkdir(mode=0o700)
        self._repository = repository
        git, commit = repository.git, repository.commit or ""
        self._started = [
            Started(git, *_LIST, commit),
            Started(git, "read-tree", commit, environ={"GIT_INDEX_FILE": str(folder / INDEX)}),
        ]
        self._stopped = False
        self._error: GitError | OSError | None = None
        self._working = Thread(target=self._work)
        self._working.start()

    def _work(self) -> None:
        """Go through the steps beside the copying of the files."""
        try:
            listed = self._started[0].printed()
            if not _copied(self._repository, listed, self.folder) and not self._stopped:
                self._started.append(Started(self._repository.git, *_PACK, str(self.folder / "pack"), stdin=listed))
            for one in self._started:
                one.printed()
            for pack in self.folder.glob("*.pack"):  # none, if it was stopped
                with pack.open("rb") as file:
                    (self.folder / DIGEST).write_text(file_digest(file, "sha256").hexdigest())
        except (GitError, OSError) as error:
            self._error = error

    def finish(self) -> None:
        """Wait until all is done; InputError where the commit's objects are not all there."""
        self._working.join()
        if isinstance(self._error, GitError):
            said = f"the repository's objects are damaged or not all there: {self._error.message}"
            raise unreadable(said) from self._error
        if self._error is not None:
            said = f"the repository's commit cannot be packed: {self._error.strerror}"
            raise StoreError(said, hint="make room on the disk") from self._error

    def stop(self) -> None:
        """End what still works."""
        self._stopped = True
        while self._working.is_alive():
            for one in self._started:
                one.kill()
            self._working.join(timeout=0.1)
        for one in self._started:
            one.stop()


def _copied(repository: Repository, listed: bytes, folder: Path) -> bool:
    """Copy the repository's only pack, if it has this commit's objects and no others, as a shallow clone's has."""
    packs = list((repository.objects or folder).glob("pack/pack-*.idx"))
    if len(packs) != 1 or not packs[0].with_suffix(".pack").is_file():
        return False
    wanted = {line.partition(b" ")[0] for line in listed.splitlines()}
    if {name.hex().encode() for name in _names(packs[0], repository.object_format)} != wanted:
        return False
    for path in (packs[0].with_suffix(".pack"), packs[0]):
        with path.open("rb") as source, (folder / path.name).open("xb") as target:
            while os.copy_file_range(source.fileno(), target.fileno(), 1 << 30):
                pass
    return True


def _names(index: Path, object_format: str) -> list[bytes]:
    """Read which objects a pack has from its list; nothing where the list is of another form."""
    said = index.read_bytes()
    width = OBJECT_FORMATS[object_format] // 2
    count = int.from_bytes(said[_IDX_NAMES - 4 : _IDX_NAMES], "big")
    if not said.startswith(_IDX) or len(said) < _IDX_NAMES + count * width:
        return []
    return [said[start : start + width] for start in range(_IDX_NAMES, _IDX_NAMES + count * width, width)]


def digest_of(pack: Path) -> str:
    """Give the digest of a commit's pack."""
    return (pack / DIGEST).read_text()


def place(pack: Path, tree: Path, repository: Repository) -> None:
    """Make the `.git` of a workspace from a commit's pack and index."""
    commit, exclude = repository.commit or "", repository.exclude.encode()
    git = write_git(tree, commit, repository.ref, repository.object_format, shallow=True, exclude=exclude)
    for path in pack.iterdir():
        if path.name == INDEX:
            _link(path, git / INDEX)
        elif path.suffix in {".pack", ".idx", ".rev"}:
            _link(path, git / "objects/pack" / path.name)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # no links here, or no more of them
        target.write_bytes(path.read_bytes())
