"""The file that --bundle or --output names: the whole proof, written at once or not at all.

Its place is tried before anything runs, so that a run is not wasted on a folder that cannot be written. The folder is
held open and the file made when the run is over: a command that works in place there could turn a name into a link.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tipstaff.errors import UsageError
from tipstaff.model.outcome import Outcome

PUBLIC = 0o666


class Proving(Protocol):
    """What is needed of a plane."""

    def bundle(self, run_id: str) -> dict[str, Any]:
        """Give the bundle of a run."""


class ProofFile:
    """A place for a proof; None: nobody wants one."""

    def __init__(self, name: str | None, option: str = "--bundle") -> None:
        self._path = Path(name) if name is not None else None
        self._option = option
        self._folder = -1

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                if self._path.is_dir():
                    raise IsADirectoryError(21, "it is a folder")
                self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                name, descriptor = self._begun()
                os.close(descriptor)
                os.unlink(name, dir_fd=self._folder)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                self._close()
                reason = getattr(error, "strerror", None) or str(error)
                raise UsageError(
                    f"{self._option}: {self._path} cannot be written: {reason}", hint="name another file"
                ) from None
        return self

    def _begun(self) -> tuple[str, int]:
        """Make a file of our own beside the place."""
        assert self._path is not None  # noqa: S101 - nobody begins without a place
        name = f".{self._path.name[:64]}.{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return name, os.open(name, flags, 0o600, dir_fd=self._folder)

    def _close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def write(self, outcome: Outcome, plane: Proving) -> None:
        """Write the bundle of a run that has its receipt, or the refusal of one that has none."""
        if self._path is not None:
            self.keep(plane.bundle(outcome.run_id) if outcome.receipt and outcome.run_id else outcome.refusal)

    def keep(self, document: Any) -> None:
        """Write a document under the name that was given."""
        if self._path is None or self._folder < 0:
            return
        import json  # noqa: PLC0415 - only a proof that is kept needs it

        name, descriptor = self._begun()
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
                file.flush()
                os.umask(mask := os.umask(0))
                os.fchmod(descriptor, PUBLIC & ~mask)
                os.fsync(descriptor)
            os.replace(name, self._path.name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(name, dir_fd=self._folder)
            raise
