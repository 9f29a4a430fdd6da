"""Times are spelled in one way, and read back as they were."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.model.noun import Timestamp
from tipstaff.model.times import milliseconds, timestamp

LAST = 253_402_300_799_999  # the last millisecond of the year 9999


@given(st.integers(0, LAST))
def test_a_time_comes_back(when):
    """Every millisecond until the year 9999 is spelled as the protocol wants it, and read back."""
    assert milliseconds(msgspec.convert(timestamp(when), Timestamp)) == when


@given(st.integers(0, LAST), st.integers(0, LAST))
def test_the_order_of_times_is_the_order_of_text(one, other):
    """Times compare as text exactly as they compare as numbers."""
    assert (timestamp(one) < timestamp(other)) is (one < other)


@pytest.mark.parametrize("text", ["2026-02-31T00:00:00.000Z", "", "yesterday"])
def test_what_is_no_time_is_an_error(text):
    """A day that does not exist, and text that is no time, are not read."""
    with pytest.raises(ValueError, match=r".*"):
        milliseconds(text)
