"""A wall clock that is wrong, for one process of a test: shifted by $SKEW_SECONDS; what passes is counted as it passes.

Python loads a module of this name by itself when its folder is in PYTHONPATH. Not part of the program.
"""

import os
import time

_SECONDS = int(os.environ.get("SKEW_SECONDS", "0"))
_time, _time_ns = time.time, time.time_ns
_gettime, _gettime_ns = time.clock_gettime, time.clock_gettime_ns


def _shifted(clock: int) -> int:
    return _SECONDS if clock == time.CLOCK_REALTIME else 0


vars(time).update(
    time=lambda: _time() + _SECONDS,
    time_ns=lambda: _time_ns() + _SECONDS * 10**9,
    clock_gettime=lambda clock: _gettime(clock) + _shifted(clock),
    clock_gettime_ns=lambda clock: _gettime_ns(clock) + _shifted(clock) * 10**9,
)
