"""Claims about durations and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.policy.units import duration, show_duration, show_size, size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("1h", 3_600_000), ("7d", 604_800_000)],
)
def test_a_duration_is_read_in_its_unit(text, milliseconds):
    """Each unit of time counts as itself."""
    assert duration(text) == milliseconds


@pytest.mark.parametrize(
    ("value", "amount"),
    [("64KiB", 65_536), ("1MiB", 2**20), ("2GiB", 2**31), ("10MB", 10_000_000), ("1KB", 1000), ("5B", 5), (77, 77)],
)
def test_a_size_is_read_in_its_unit(value, amount):
    """Binary and decimal units are told apart, and an integer is bytes."""
    assert size(value) == amount


@pytest.mark.parametrize(
    "value", ["", "10", "s", "1.5h", "-1s", "0s", "10 weeks", "1e3s", "99999999999d", True, [], "1S"]
)
def test_what_is_no_duration_is_an_error(value):
    """Anything without a whole positive number and a unit of time is refused."""
    with pytest.raises(ValueError, match=r"."):
        duration(value)


@pytest.mark.parametrize("value", ["", "10", "KiB", "1.5GiB", -1, 0, "1kib", "1Kib", 2**53, True, None])
def test_what_is_no_size_is_an_error(value):
    """Anything without a whole positive number and a known unit of size is refused."""
    with pytest.raises(ValueError, match=r"."):
        size(value)


def test_a_bare_number_of_time_says_what_to_write():
    """A duration without its unit is answered with how to write it."""
    with pytest.raises(ValueError, match="write `10s`"):
        duration(10)


@given(st.integers(min_value=1, max_value=2**53 - 1))
def test_what_is_shown_reads_back(amount):
    """A duration or a size that we show reads back as the same amount."""
    assert duration(show_duration(amount)) == amount
    assert size(show_size(amount)) == amount
