"""A folder of this machine, captured and packed into blobs, and sent to a plane as far as the plane does not have it.

What was packed for the last run of a folder is used again: only new content is packed, and only new packs travel. The
blobs lie in this home until `tipstaff prune` finds that nothing needs them. Content is hashed again as it is sent.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import InputError, StoreError
from tipstaff.home import Home
from tipstaff.remote.wire import Wire
from tipstaff.store import Store
from tipstaff.workspace import listing
from tipstaff.workspace.capture.capturing import Wish, capture
from tipstaff.workspace.depot import Depot
from tipstaff.workspace.materialise.packing import keep_git_pack, pack

if TYPE_CHECKING:
    from tipstaff.store.blobs import Blobs

Json = dict[str, Any]
Progress = Callable[[int, int], None]  # bytes sent, bytes to send
CHUNK: Final = 2**18
MOST_PACKS: Final = 64  # of one folder, before all of it is packed anew
SENT: Final = "sent"
UNUSED_SECONDS: Final = 86_400.0


class Item(NamedTuple):
    """One blob that the plane needs for a run."""

    kind: str  # what it is, in words
    digest: str
    size: int


class Parcel(NamedTuple):
    """A captured folder, ready to be sent."""

    manifest: Json
    notices: tuple[str, ...]
    items: tuple[Item, ...]


class Sender:
    """Captures folders of this machine, and sends them."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._blobs: Blobs = store.blobs

    def packed(self, folder: Path, wish: Wish) -> Parcel:
        """Capture a folder and pack it; the manifest says in which blobs its content is."""
        depot = Depot(self._home.root / "workspaces")
        captured = capture(folder, wish, depot, self._blobs)
        manifest = captured.manifest
        if captured.form != "git":
            manifest = self._with_packs(depot, manifest, folder)
        depot.tidy(UNUSED_SECONDS)
        items = tuple(Item(kind, name, self._size(name)) for kind, name in named_blobs(manifest))
        return Parcel(manifest, captured.notices, items)

    def missing(self, wire: Wire, items: tuple[Item, ...]) -> list[Item]:
        """Ask the plane which of these it does not have."""
        return [item for item in items if not wire.has(f"/v1/blobs/{item.digest}")]

    def send(self, wire: Wire, items: list[Item], progress: Progress | None = None) -> None:
        """Send blobs, one after another."""
        whole, done = sum(item.size for item in items), 0
        for item in items:
            tell = _shifted(progress, done, whole)
            answer = wire.send("/v1/blobs", item.size, lambda item=item, tell=tell: self._content(item, tell))  # type: ignore[misc]  # mypy does not see defaults
            if answer.get("hash") != item.digest:
                raise InputError(f"the plane {wire.url} has received other bytes than were sent", hint="try again")
            done += item.size

    def _with_packs(self, depot: Depot, manifest: Json, folder: Path) -> Json:
        entries = listing.decode(self._blobs.get(manifest["treeHash"]))
        with _base(depot, manifest) as base:
            known = self._known(folder)
            packs = pack(base, entries, self._blobs, known if len(known) <= MOST_PACKS else ())
            if "git" in manifest:
                keep_git_pack(base, manifest["git"]["packHash"], self._blobs)
        self._remember(folder, packs)
        return {**manifest, "packs": packs}

    def _remembered(self, folder: Path) -> Path:
        return self._home.root / SENT / sha256(os.fsencode(folder)).hexdigest()

    def _known(self, folder: Path) -> list[str]:
        """Give the packs of the last capture of a folder; it is only worth something, so nothing of it must be true."""
        try:
            return msgspec.json.decode(self._remembered(folder).read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):
            return []

    def _remember(self, folder: Path, packs: list[str]) -> None:
        place = self._remembered(folder)
        try:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            place.write_bytes(msgspec.json.encode(packs))
        except OSError as error:
            raise StoreError(f"{place} cannot be written: {error.strerror}", hint="check the disk") from error

    def _size(self, name: str) -> int:
        path = self._blobs.path(name)
        return path.stat().st_size if path.is_file() else len(self._blobs.get(name))

    def _content(self, item: Item, tell: Callable[[int], None]) -> Iterator[bytes]:
        """Give the bytes of a blob piece by piece; what is damaged here is not passed on as if it were whole."""
        path, found, sent = self._blobs.path(item.digest), sha256(), 0
        for chunk in _file_chunks(path) if path.is_file() else _chunks(self._blobs.get(item.digest)):
            found.update(chunk)
            sent += len(chunk)
            if sent == item.size and found.hexdigest() != item.digest:
                raise StoreError(f"the blob {item.digest} is damaged", hint="run: tipstaff prune, then try again")
            yield chunk
            tell(sent)


@contextmanager
def opened(home: Home) -> Iterator[Sender]:
    """Open this home's blobs to capture into and to send from."""
    home.make()
    store = Store(home.root)
    try:
        yield Sender(home, store)
    finally:
        store.close()


def named_blobs(manifest: Json) -> list[tuple[str, str]]:
    """List the blobs that a workspace is made of, each with what it is; none twice. Pure."""
    listed = [
        ("list of files", manifest.get("treeHash")),
        *(("contents of files", one) for one in manifest.get("packs", ())),
        ("commit", manifest.get("git", {}).get("packHash")),
        ("git history", manifest.get("bundleHash")),
        ("uncommitted changes", manifest.get("dirtyDiffHash")),
        *(("untracked file", one["hash"]) for one in manifest.get("untrackedFiles", ())),
    ]
    first: dict[str, str] = {}
    for kind, name in listed:
        if name:
            first.setdefault(name, kind)
    return [(kind, name) for name, kind in first.items()]


@contextmanager
def _base(depot: Depot, manifest: Json) -> Iterator[Path]:
    """Hold on to the folder that a capture has just made."""
    base = depot.held(digest(manifest))
    if base is None:
        raise StoreError("the captured workspace was removed while it was used", hint="try again")
    with base:
        yield base.path


def _shifted(progress: Progress | None, done: int, whole: int) -> Callable[[int], None]:
    return (lambda sent: progress(done + sent, whole)) if progress is not None else (lambda _: None)


def _file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _chunks(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]
