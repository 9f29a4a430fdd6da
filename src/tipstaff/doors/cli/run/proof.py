"""The file that --bundle or --output names: the whole proof, written at once or not at all.

Its place is made before anything runs, so that a run is not wasted on a folder that cannot be written.
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
        self._temporary: Path | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            from tempfile import mkstemp  # noqa: PLC0415 - slow to import, and only --bundle needs it

            try:
                if self._path.is_dir():
                    raise IsADirectoryError(21, "it is a folder")
                descriptor, temporary = mkstemp(prefix=f".{self._path.name[:64]}.", dir=self._path.parent)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                reason = getattr(error, "strerror", None) or str(error)
                raise UsageError(
                    f"{self._option}: {self._path} cannot be written: {reason}", hint="name another file"
                ) from None
            os.close(descriptor)
            self._temporary = Path(temporary)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)

    def write(self, outcome: Outcome, plane: Proving) -> None:
        """Write the bundle of a run that has its receipt, or the refusal of one that has none."""
        if self._path is not None:
            self.keep(plane.bundle(outcome.run_id) if outcome.receipt and outcome.run_id else outcome.refusal)

    def keep(self, document: Any) -> None:
        """Write a document under the name that was given."""
        if self._path is None or self._temporary is None:
            return
        import json  # noqa: PLC0415 - only a proof that is kept needs it

        with self._temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.umask(mask := os.umask(0))
        self._temporary.chmod(PUBLIC & ~mask)
        self._temporary.replace(self._path)
