"""What a run changed in its workspace: looked at when its last process is gone, kept, and told as events.

The diff and the contents of changed files leave the session only as far as the contract's disclosure lets them, with
secrets taken out. A change that is too large to be brought back ends a run that was given a captured workspace, whose
point it is; for any other run it is only said. Imports the machinery when there is something to look at.
"""

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tipstaff.errors import TipstaffError
from tipstaff.isolation.tier import Ended, Leaving
from tipstaff.model.blobs import BlobStore
from tipstaff.session.held import Held
from tipstaff.session.history import History
from tipstaff.session.plan import is_captured

if TYPE_CHECKING:
    from tipstaff.workspace.collect.collecting import Collected

Json = dict[str, Any]
CODE: Final = "code-diff"
TOO_MUCH: Final = 153
NOT_KEPT: Final = 125
SILENT: Final = "none"  # under this disclosure not even names leave


class Changes:
    """The change set of one session."""

    def __init__(self, contract: Json, held: Held, blobs: BlobStore | None) -> None:
        self._silent = contract["disclosure"] == SILENT
        self._is_captured = is_captured(contract)
        self._held = held
        self._blobs = blobs
        # A captured base never changes; what was edited in a live one meanwhile is told.
        self._started_ns = 0 if is_captured(contract) else time.time_ns()
        self._collected: Collected | None = None
        self.problem = ""
        self.failed = False  # it could not be kept, for no fault of the run's
        self.told: list[Json] = []
        self._withdrawn = False

    @property
    def summary(self) -> Json | None:
        """Say in short what there was; None where nobody looked."""
        if self._collected is None or self._silent:
            return {"problem": self.problem} if self.problem else None
        said: Json = self._held.redacted("events", self._collected.summary)
        return {**said, "problem": self.problem} if self.problem else said

    @property
    def contents(self) -> list[str]:
        """List the contents that will be told of as kept."""
        if self._collected is None or self._silent or self._withdrawn:
            return []
        return [one for one in (self._collected.diff, self._collected.contents) if one is not None]

    def withdraw(self, problem: str) -> None:
        """Tell of no content: what was kept here could not be brought to where others look for it."""
        if self.contents:
            self._withdrawn = True
            self.problem = self.problem or problem

    async def collect(self, leaving: Leaving) -> None:
        """Look at what the command left; nothing that goes wrong here hides how the run ended."""
        try:
            if leaving.upper is not None and _is_empty(leaving.upper):
                return
            collected = self._collected = await asyncio.to_thread(self._look, leaving)
            self.problem = collected.problem
        except (OSError, TipstaffError) as error:
            self.failed = True
            cause = error if isinstance(error, OSError) else error.__cause__
            why = cause.strerror if isinstance(cause, OSError) else str(error)  # no place of this host's is told
            self.problem = self._held.redacted("events", f"what it changed could not be kept: {why}")

    def _look(self, leaving: Leaving) -> "Collected":
        from tipstaff.workspace.collect.collecting import Bounds, View, collect  # noqa: PLC0415 - most runs change nothing

        left = leaving.upper or leaving.copy
        # The spawner's own folder, which goes away with it; not the sandbox's, which may be full to its quota.
        scratch = left.parent.parent if left is not None else None
        view = View(leaving.base, leaving.upper, leaving.copy, leaving.marks, self._started_ns, scratch)
        return collect(view, Bounds(), self._held.mask("changes"), self._blobs)

    def ended(self, ended: Ended) -> Ended:
        """Say how the run ended, now that it is known what it changed."""
        if not (self.problem and self._is_captured and ended.ending == "exited"):
            return ended
        reason = f"{self.problem}; it had exited {ended.exit_code}"
        if self.failed:  # no fault of the command's
            return msgspec.structs.replace(ended, ending="setup-failed", exit_code=NOT_KEPT, reason=reason)
        return msgspec.structs.replace(ended, ending="disk-limit", exit_code=TOO_MUCH, reason=reason)

    def tell(self, history: History) -> None:
        """Write the events: each changed name, then what was kept."""
        collected = self._collected
        if collected is None or self._silent:
            return
        from tipstaff.model.changes import to_event  # noqa: PLC0415 - as above

        for change in collected.changes:
            said = self._held.redacted("events", to_event(change))
            self.told.append(said)
            history.add("file.changed", **said)
        for kind, digest in (("diff", collected.diff), ("bundle", collected.contents)):
            if digest is not None and not self._withdrawn:
                history.add("artifact.created", kind=kind, hash=digest)
                history.add("boundary.crossed", direction="out", contentHash=digest, dataClass=CODE)


def _is_empty(folder: os.PathLike[str]) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except PermissionError:  # the command took our rights away: something was done
        return False
