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
from tipstaff.workspace.capture.pointers import unreadable
from tipstaff.workspace.capture.repository import Repository, Started
from tipstaff.workspace.git import GitError
from tipstaff.workspace.inside import write_git

DIGEST: Final = "digest"
INDEX: Final = "index"
# Whole objects as they are: looking for what two have in common takes longer than anything else here.
_PACK: Final = ("pack-objects", "-q", "--revs", "--window=0", "--no-use-bitmap-index", "--compression=0")


class Packing:
    """Git at work on the pack and the index of one commit, in a folder of its own."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        """Begin. The folder is made; `stop` must follow, and `finish` may."""
        self.folder = folder
        folder.mkdir(mode=0o700)
        git, commit = repository.git, repository.commit or ""
        alone = f"--shallow {commit}\n{commit}\n".encode()
        self._started = [
            Started(git, *_PACK, str(folder / "pack"), stdin=alone),
            Started(git, "read-tree", commit, environ={"GIT_INDEX_FILE": str(folder / INDEX)}),
        ]
        self._error: GitError | OSError | None = None
        self._working = Thread(target=self._work)
        self._working.start()

    def _work(self) -> None:
        """Go through the steps beside the copying of the files."""
        try:
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
        while self._working.is_alive():
            for one in self._started:
                one.kill()
            self._working.join(timeout=0.1)
        for one in self._started:
            one.stop()


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
