"""The one table of endings, from what the spawner saw."""

import pytest

from tipstaff.isolation import endings

SEEN = {"code": 0, "status": 0, "released": True, "going": True, "cause": "", "wallNs": 5_900_000, "cpuNs": 3_000_000,
        "peakBytes": 7, "complaint": ""}  # fmt: skip
KILLED = {"code": 137, "status": 9}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({}, ("exited", 0)),
        ({"code": 7, "status": 7 << 8}, ("exited", 7)),
        ({"code": 137, "status": 137 << 8}, ("exited", 137)),
        (KILLED, ("signalled", 137)),
        ({"code": 137, "status": None}, ("signalled", 137)),
        ({"code": 7, "status": None}, ("exited", 7)),
        ({"code": 255, "status": None}, ("exited", 255)),
        ({"code": -9, "status": None}, ("signalled", 137)),
        ({"code": 153, "status": 25}, ("disk-limit", 153)),
        ({"code": 153, "status": None}, ("disk-limit", 153)),
        ({**KILLED, "cause": "timed-out"}, ("timed-out", 124)),
        ({**KILLED, "cause": "cancelled"}, ("cancelled", 130)),
        ({**KILLED, "cause": "out-of-memory"}, ("out-of-memory", 137)),
        ({**KILLED, "cause": "disk-limit"}, ("disk-limit", 153)),
        ({**KILLED, "cause": "output-limit"}, ("output-limit", 141)),
        ({"cause": "timed-out"}, ("exited", 0)),
        ({"cause": "cancelled", "code": 3, "status": 3 << 8}, ("exited", 3)),
        ({"cause": "output-limit"}, ("output-limit", 141)),
        ({"cause": "out-of-memory", "code": 1, "status": 256}, ("out-of-memory", 137)),
        ({"going": False, "code": 125, "status": 125 << 8}, ("setup-failed", 125)),
        ({"going": False, "cause": "timed-out", **KILLED}, ("timed-out", 124)),
        ({"going": False, "cause": "out-of-memory", **KILLED}, ("setup-failed", 125)),
        ({"going": False, "cause": "setup-failed", **KILLED}, ("setup-failed", 125)),
    ],
)
def test_each_cause_has_its_ending(seen, expected):
    """What was seen has one ending and one code."""
    ended = endings.read({**SEEN, **seen})

    assert (ended.ending, ended.exit_code) == expected


def test_usage_is_read():
    """Nanoseconds become whole milliseconds."""
    usage = endings.read(SEEN).usage

    assert (usage.wall_ms, usage.cpu_ms, usage.peak_memory_bytes) == (5, 3, 7)


def test_a_failed_setup_says_why():
    """The reason is what bubblewrap or the stub complained of, and never empty."""
    seen = {**SEEN, "going": False, "code": 1, "status": None}

    assert endings.read({**seen, "complaint": "bwrap: no"}).reason == "bwrap: no"
    assert endings.read(seen).reason


@pytest.mark.parametrize(("released", "expected"), [(True, ("signalled", 137)), (False, ("setup-failed", 125))])
def test_a_dead_spawner_ends_its_runs(released, expected):
    """A command that ran was killed with its spawner; one that did not never started."""
    ended = endings.orphaned(released=released)

    assert (ended.ending, ended.exit_code) == expected
    assert ended.reason
