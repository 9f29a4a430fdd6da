"""The captured workspaces of one home: a depot of unpacked ones, and the blobs that others are unpacked from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tipstaff.canonical import digest
from tipstaff.home import Home
from tipstaff.model.blobs import BlobStore

if TYPE_CHECKING:
    from tipstaff.workspace.capture.capturing import Captured, Wish

Json = dict[str, Any]
UNUSED_SECONDS: Final = 86_400.0  # after this, one that is neither of the two newest of its folder goes by itself


class LocalWorkspaces:
    """What a session asks for a captured workspace, and a door to have one captured."""

    def __init__(self, home: Home, blobs: BlobStore) -> None:
        self._root = home.root / "workspaces"
        self._blobs = blobs

    def capture(self, folder: Path, wish: "Wish") -> "Captured":
        """Capture a folder of this host."""
        from tipstaff.workspace.capture.capturing import capture  # noqa: PLC0415 - most runs capture nothing
        from tipstaff.workspace.depot import Depot  # noqa: PLC0415 - as above

        depot = Depot(self._root)
        captured = capture(folder, wish, depot, self._blobs)
        depot.tidy(UNUSED_SECONDS)
        return captured

    def known(self, manifest: Json) -> Path | None:
        """Give the folder of a workspace that stands already."""
        from tipstaff.workspace.depot import Depot  # noqa: PLC0415 - as above

        return Depot(self._root).known(digest(manifest))

    @contextmanager
    def base(self, manifest: Json) -> Iterator[Path]:
        """Give the folder of a workspace, unpacked if it was not, and hold on to it."""
        from tipstaff.workspace.depot import Depot  # noqa: PLC0415 - as above
        from tipstaff.workspace.materialise.making import materialise  # noqa: PLC0415 - as above

        with Depot(self._root).base(manifest, lambda target: materialise(manifest, self._blobs, target)) as base:
            yield base.path
