"""The captured workspaces of one runner: a depot of unpacked ones, shared by runs whose contracts name the same one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tipstaff.model.blobs import BlobStore

Json = dict[str, Any]
UNUSED_SECONDS: Final = 86_400.0


class RunnerWorkspaces:
    """What a session asks for a captured workspace; contents come from the plane, by the run's own claim."""

    def __init__(self, root: Path, blobs: BlobStore) -> None:
        self._root = root
        self._blobs = blobs

    @contextmanager
    def base(self, manifest: Json) -> Iterator[Path]:
        """Give the folder of a workspace, unpacked if it was not, and hold on to it."""
        from tipstaff.workspace.depot import Depot  # noqa: PLC0415 - most runs capture nothing
        from tipstaff.workspace.materialise.making import materialise  # noqa: PLC0415 - as above

        depot = Depot(self._root)
        with depot.base(manifest, lambda target: materialise(manifest, self._blobs, target)) as base:
            depot.tidy(UNUSED_SECONDS)
            yield base.path
