"""Times are spelled in one way, and read back as they were."""

from datetime import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.model.noun import Timestamp
from tipstaff.model.times import LAST, milliseconds, timestamp

YEARS = st.one_of(st.integers(0, 9999), st.sampled_from([0, 4, 100, 400, 1900, 2000, 2024, 2100]))
DIGITS = YEARS, st.integers(0, 13), st.integers(0, 32) | st.integers(28, 31), st.integers(0, 24), st.integers(0, 60)


@given(st.integers(0, LAST))
def test_a_time_comes_back(when):
    """Every millisecond until the year 9999 is spelled as the protocol wants it, and read back."""
    assert milliseconds(msgspec.convert(timestamp(when), Timestamp)) == when


@given(st.integers(0, LAST), st.integers(0, LAST))
def test_the_order_of_times_is_the_order_of_text(one, other):
    """Times compare as text exactly as they compare as numbers."""
    assert (timestamp(one) < timestamp(other)) is (one < other)


def is_read(text):
    """Say whether a document may have this as a time."""
    try:
        return bool(msgspec.convert(text, Timestamp))
    except msgspec.ValidationError:
        return False


def is_real(text):
    """Say whether the calendar has it."""
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


@given(*DIGITS)
def test_a_time_is_one_that_the_calendar_has(year, month, day, hour, minute):
    """Of all spellings in the right form, exactly those are times that a calendar knows."""
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{minute:02}.{year % 1000:03}Z"

    assert is_read(text) is is_real(text)


@pytest.mark.parametrize("year", ["0001", "0004", "0100", "0400", "1900", "2000", "2023", "2024", "2100", "9996"])
def test_leap_years_are_known(year):
    """The 29th of February is a day in leap years alone, the 28th in all, the 30th in none."""
    assert is_read(f"{year}-02-29T00:00:00.000Z") is is_real(f"{year}-02-29T00:00:00.000Z")
    assert is_read(f"{year}-02-28T00:00:00.000Z")
    assert not is_read(f"{year}-02-30T00:00:00.000Z")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-02-28T00:00:00.000Z", True),
        ("2026-02-31T00:00:00.000Z", False),
        ("0000-01-01T00:00:00.000Z", False),
        ("2026-12-31T23:59:60.000Z", False),
        ("2026-01-01T00:00:00.000Z\n", False),
        ("2026-01-01T00:00:00Z", False),
        ("२०२६-01-01T00:00:00.000Z", False),
    ],
)
def test_only_real_times_are_taken(text, read):
    """A day or a second that does not exist, the year 0 and another form are no times."""
    assert is_read(text) is read


@pytest.mark.parametrize("text", ["2026-02-31T00:00:00.000Z", "", "yesterday", "2026-01-01", "2026-01-01T00:00:00.000"])
def test_what_is_no_time_is_an_error(text):
    """A day that does not exist, text that is no time, and one without its zone are not read."""
    with pytest.raises(ValueError, match=r".*"):
        milliseconds(text)
