"""Limits for a file system's quota, and when one is reached. For real: tests/conformance/test_quota.py."""

import pytest

from tipstaff.isolation import quota
from tipstaff.isolation.quota import Bound, Use

MIB = 1 << 20


@pytest.mark.parametrize(
    ("disk_bytes", "expected"),
    [
        (64 * MIB, (64 * MIB, 16384)),
        (64 * MIB + 1023, (64 * MIB, 16384)),
        (MIB, (MIB, quota.FEWEST_FILES)),
        (0, (0, quota.FEWEST_FILES)),
        (1 << 50, (1 << 50, quota.MOST_FILES)),
    ],
)
def test_limits_follow_from_the_bytes(disk_bytes, expected):
    """Never more bytes than asked for, in whole units, and as many files as there are blocks, within reason."""
    assert quota.bound(disk_bytes) == expected


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (Bound(MIB - 4096, 10), False),
        (Bound(MIB - 4095, 10), True),
        (Bound(MIB, 10), True),
        (Bound(0, 1023), False),
        (Bound(0, 1024), True),
    ],
)
def test_full_is_when_nothing_more_fits(taken, expected):
    """A project is full when another block, or another file, does not fit any more."""
    assert quota.full(Use(Bound(MIB, 1024), taken), 4096) is expected


def test_without_limits_nothing_is_full():
    """A limit of nought is none."""
    assert quota.full(Use(Bound(0, 0), Bound(1 << 40, 1 << 20)), 4096) is False


def test_a_file_system_of_the_kernels_own_offers_none():
    """Where there are no quotas, none is offered, nothing is full, and setting one is an error."""
    found = quota.Quota("/proc")

    assert (found.offered, found.full(1)) == (False, False)
    with pytest.raises(OSError, match=r"."):
        found.bind("/proc", 1, MIB)
