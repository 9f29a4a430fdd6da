"""How a run ended, from what the spawner saw of it: one table, one exit code for each cause. Pure.

A limit that was passed is the cause, whatever the command did next. Time and cancelling are the cause only when they
are what stopped the command: one that exited by itself in the same moment has exited.
"""

import os
import signal
from typing import Any, Final

from tipstaff.isolation.tier import Ended
from tipstaff.model.outcome import Usage
from tipstaff.model.receipt import Ending

SETUP_FAILED: Final = 125
CODES: Final[dict[Ending, int]] = {
    "timed-out": 124,
    "setup-failed": SETUP_FAILED,
    "cancelled": 130,
    "out-of-memory": 137,
    "output-limit": 141,
    "disk-limit": 153,
}
_WHEN_STOPPED: Final = ("timed-out", "cancelled")
_SIGNALS: Final = 128  # what shells add to the number of a signal
_KILLED: Final = _SIGNALS + signal.SIGKILL
_MILLION: Final = 1_000_000


def setup_failed(reason: str) -> Ended:
    """Say that nothing was run, and why."""
    return Ended(ending="setup-failed", exit_code=SETUP_FAILED, reason=reason)


def read(told: dict[str, Any]) -> Ended:
    """Read what the spawner said of a sandbox that is gone."""
    usage = Usage(
        wall_ms=told.get("wallNs", 0) // _MILLION,
        cpu_ms=told.get("cpuNs", 0) // _MILLION,
        peak_memory_bytes=told.get("peakBytes", 0),
    )
    ending, code = _ending(told)
    return Ended(ending=ending, exit_code=code, usage=usage, reason=_reason(told, ending))


def _ending(told: dict[str, Any]) -> tuple[Ending, int]:
    own, code = _own(told)
    for cause, known in CODES.items():
        if told["cause"] == cause and not (cause in _WHEN_STOPPED and told["going"] and own == "exited"):
            return ("setup-failed", SETUP_FAILED) if _too_small(told) else (cause, known)
    return (own, code) if told["going"] else ("setup-failed", SETUP_FAILED)


def _too_small(told: dict[str, Any]) -> bool:
    """Say whether the memory was not even enough to start."""
    return told["cause"] == "out-of-memory" and not told["going"]


def _own(told: dict[str, Any]) -> tuple[Ending, int]:
    """Say how the command itself ended; without the kernel's word, a code above 128 is taken for a signal."""
    status, code = told["status"], told["code"]
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
        return _signalled(-code) if code < 0 else ("exited", code)
    if code < 0:
        return _signalled(-code)
    return _signalled(code - _SIGNALS) if _SIGNALS < code < _SIGNALS + signal.NSIG else ("exited", code)


def _signalled(number: int) -> tuple[Ending, int]:
    if number == signal.SIGXFSZ:  # a file larger than the limit on disk
        return "disk-limit", CODES["disk-limit"]
    return "signalled", _SIGNALS + number


def _reason(told: dict[str, Any], ending: Ending) -> str:
    if ending == "setup-failed":
        small = "the limit on memory is too small to start a sandbox in" if _too_small(told) else ""
        return told.get("complaint") or small or "the sandbox ended before its command could start"
    return str(told.get("why", ""))


def orphaned(*, released: bool) -> Ended:
    """Say what becomes of a run whose spawner died: the kernel kills the sandbox with it."""
    why = "the process that builds sandboxes ended, and its sandboxes with it"
    return Ended(ending="signalled", exit_code=_KILLED, reason=why) if released else setup_failed(why)
