"""Limits as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.amounts import count, cpu_millis, duration_ms, size_bytes
from tipstaff.errors import UsageError

READ = [
    (size_bytes, "64M", 64 * 2**20),
    (size_bytes, "1.5GiB", 3 * 2**29),
    (size_bytes, "2g", 2**31),
    (size_bytes, "10 kb", 10 * 2**10),
    (size_bytes, "512", 512),
    (size_bytes, 512, 512),
    (duration_ms, "90", 90_000),
    (duration_ms, "1.5", 1500),
    (duration_ms, "2m", 120_000),
    (duration_ms, "1h", 3_600_000),
    (duration_ms, 0.25, 250),
    (cpu_millis, "0.5", 500),
    (cpu_millis, 2, 2000),
    (count, "64", 64),
]
REFUSED = [
    *((size_bytes, text) for text in ("", "M", "-1", "1X", "1e9", "0", "0.1b", "nan", "9" * 20, "1.2.3", "٣")),
    *((duration_ms, text) for text in ("", "soon", "0", "-5", "1y", "0.0001", True)),
    *((cpu_millis, text) for text in ("0", "half", "0.0001", "1core")),
    *((count, text) for text in ("1.5", "0", "-1", "many", "1k")),
]


@pytest.mark.parametrize(("read", "value", "expected"), READ)
def test_amounts_are_read_with_their_units(read, value, expected):
    """A number with or without a unit is the amount that it says."""
    assert read(value, "--option") == expected


@pytest.mark.parametrize(("read", "value"), REFUSED)
def test_what_is_no_amount_is_refused_by_name(read, value):
    """Anything else is an error that names the option, the value and an example."""
    with pytest.raises(UsageError, match="--option") as caught:
        read(value, "--option")
    assert str(value)[:40].lower() in str(caught.value).lower()
    assert "such as" in str(caught.value)


@given(st.text() | st.integers() | st.floats())
def test_no_text_is_anything_but_an_amount_or_an_error(value):
    """Whatever is given, the answer is an integer of at least one, or our own error."""
    for read in (size_bytes, duration_ms, cpu_millis, count):
        try:
            assert 1 <= read(value, "--option") < 2**53
        except UsageError:
            continue
