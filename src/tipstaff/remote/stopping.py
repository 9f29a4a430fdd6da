"""A wish to stop a run, passed on to its plane until the plane has heard it, or time is over.

A plane that cannot be reached, is busy or fails is asked again: to stop twice is to stop once. That the run has ended
meanwhile is as good as a yes; any other no is final. Whoever wanted the stop learns whether it arrived.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from tipstaff.errors import PlaneError, TipstaffError

Json = dict[str, Any]
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 2.0
ENDED: Final = 409  # a run that is over cannot be stopped any more
LATER: Final = (429, *range(500, 600))


class Stopping:
    """One wish to stop; `tell` blocks, so it belongs on a thread."""

    def __init__(self, ask: Callable[[], Json], seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._ask = ask
        self._sleep = sleep
        self.deadline = time.monotonic() + seconds
        self.is_heard = False
        self.why = "the plane does not answer in time"

    def tell(self) -> None:
        """Pass it on, until it is heard, refused, or too late."""
        pause = FIRST_PAUSE_SECONDS
        while not self.is_heard:
            try:
                self._ask()
                self.is_heard = True
            except TipstaffError as error:
                self.why, status = error.message, getattr(error, "status", 0)
                self.is_heard = isinstance(error, PlaneError) and status == ENDED
                left = self.deadline - time.monotonic()
                if self.is_heard or status not in LATER or left <= 0:
                    return
                self._sleep(min(max(pause, getattr(error, "wait_seconds", 0.0)), left))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
