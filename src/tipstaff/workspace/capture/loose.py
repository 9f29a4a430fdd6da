"""Untracked files on their way into a manifest: each a blob of its own, with its rights; what cannot travel is named.

A denied file stays behind and is named. So do sockets and the like, repositories within the repository, and links that
lead out of the folder. Does not know what is ignored: the repository lists only what is not.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tipstaff.model import names
from tipstaff.model.blobs import BlobStore, BlobWriter
from tipstaff.workspace import internals
from tipstaff.workspace import links as leading
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.dirty import opened
from tipstaff.workspace.capture.scan import ChangedError

Json = dict[str, Any]
CHUNK: Final = 2**20  # bytes
PLAIN: Final = 0o100644  # the mode that the protocol means where it says none
LINK: Final = 0o120000


class Loose:
    """The untracked files of a folder."""

    def __init__(self, folder: Beneath, denied: Denied, tracked_links: Mapping[bytes, bytes]) -> None:
        self._folder = folder
        self._denied = denied
        self._tracked_links = tracked_links
        self.links: dict[bytes, bytes] = {}
        self.files: list[Json] = []
        self.denied: list[bytes] = []
        self.left_out: list[tuple[bytes, str]] = []

    def keep(self, untracked: Iterable[bytes], blobs: BlobStore) -> None:
        """Keep the contents of these, but for what is denied or cannot travel."""
        for name in untracked:
            if self._denied.matches(name.rstrip(b"/")):
                self.denied.append(name)
            elif reason := _reason(name):
                self.left_out.append((name.rstrip(b"/"), reason))
            else:
                self._keep(name, blobs)
        self._keep_links(blobs)
        self.files.sort(key=lambda file: str(file["path"]))

    def _keep(self, name: bytes, blobs: BlobStore) -> None:
        about = self._folder.stat(name)
        if about is None:
            raise ChangedError(name)
        if stat.S_ISLNK(about.st_mode):
            self.links[name] = self._folder.target(name)
        elif stat.S_ISREG(about.st_mode):
            self._keep_file(name, blobs)
        else:
            self.left_out.append((name, "neither a file, a link nor a folder"))

    def _keep_links(self, blobs: BlobStore) -> None:
        """Keep the links, now that all of them are known: one may lead by way of another."""
        every = {**self._tracked_links, **self.links}
        for name, target in list(self.links.items()):
            if leading.leads_out(name, every):
                del self.links[name]
                self.left_out.append((name, "a link that leads out of the folder"))
            else:
                self._note(name, LINK, blobs.put(target), len(target))

    def _keep_file(self, name: bytes, blobs: BlobStore) -> None:
        descriptor = opened(self._folder, name)
        writer = blobs.writer()
        try:
            size, mode = _copy(descriptor, name, writer)
        except BaseException:
            writer.discard()
            raise
        finally:
            os.close(descriptor)
        self._note(name, mode, writer.finish(), size)

    def _note(self, name: bytes, mode: int, digest: str, size: int) -> None:
        said = {**names.spelled(name), "hash": digest, "bytes": size}
        self.files.append(said if mode == PLAIN else {**said, "mode": f"{mode:06o}"})


def _reason(name: bytes) -> str:
    if name.endswith(b"/"):
        return "a repository of its own"
    if any(map(internals.is_git, name.split(b"/"))):
        return "some systems would take it for a repository"
    return ""


def _copy(descriptor: int, name: bytes, writer: BlobWriter) -> tuple[int, int]:
    """Copy a file, and give its size and its mode."""
    before = os.fstat(descriptor)
    size = 0
    while chunk := os.read(descriptor, CHUNK):
        writer.write(chunk)
        size += len(chunk)
    after = os.fstat(descriptor)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, size):
        raise ChangedError(name)
    return size, stat.S_IFREG | (after.st_mode & 0o777)
