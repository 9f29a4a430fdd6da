"""What is shown of a stream is its bytes, each once and in order, and fits the receipt."""

import asyncio
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.model.outcome import StreamRecord
from tipstaff.remote.showing import Shown

WHOLE = b"0123456789abcdef"


def record(content=WHOLE, *, truncated=False, kept="x"):
    """Say what a receipt would."""
    return StreamRecord(bytes=len(content), sha256=sha256(content).hexdigest(), truncated=truncated, kept=kept)


def shown(pieces, said, copy):
    """Show pieces, then complete them by the kept copy; gives all that was shown, and what is missing."""
    written = bytearray()

    async def sink(data):
        written.extend(data)

    async def kept():
        return copy

    async def whole():
        one = Shown("stdout", sink)
        for start, end in pieces:
            await one.take(start, WHOLE[start:end])
        return await one.complete(said, kept)

    missing = asyncio.run(whole())
    return bytes(written), missing


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)).map(sorted), max_size=8))
def test_whatever_comes_live_the_whole_is_shown_once(pieces):
    """Gaps, repetitions and overlaps of live output leave no trace: the stream is shown whole."""
    assert shown(pieces, record(), WHOLE) == (WHOLE, "")


def test_what_came_whole_asks_for_no_copy():
    """Where everything came live, the kept copy is not needed, nor need there be one."""
    assert shown([(0, 16)], record(kept=None), None) == (WHOLE, "")


@pytest.mark.parametrize("copy", [WHOLE[:-1] + b"X", b"X" + WHOLE[1:], b"", WHOLE + b"X"])
@pytest.mark.parametrize("pieces", [[], [(0, 5)]])
def test_a_copy_that_does_not_fit_the_receipt_is_refused(pieces, copy):
    """Kept output with another digest than the receipt's is not shown as the run's."""
    with pytest.raises(InputError, match="not what its receipt says"):
        shown(pieces, record(), copy)


def test_live_output_that_does_not_fit_the_receipt_is_told():
    """What was shown live is held against the receipt's digest."""
    with pytest.raises(InputError, match="do not rely on what was shown"):
        shown([(0, 16)], record(WHOLE[:-1] + b"X"), WHOLE)


def test_more_than_the_receipt_knows_of_is_told():
    """Live output beyond the receipt's count is not the run's."""
    with pytest.raises(InputError, match="more of the run's stdout"):
        shown([(0, 16)], record(WHOLE[:4], kept=None), None)


@pytest.mark.parametrize(("pieces", "count"), [([], 8), ([(0, 3)], 8), ([(0, 12)], 12)])
def test_a_capped_copy_is_shown_without_its_mark(pieces, count):
    """Of a capped copy the content is shown, not the line about it, and people are told that it is not all."""
    capped = WHOLE[:8] + b"\n[tipstaff: the first 8 of 16 bytes are kept]\n"

    written, missing = shown(pieces, record(truncated=True), capped)

    assert written == WHOLE[:count]
    assert "not whole" in missing


def test_a_capped_copy_of_something_else_is_refused():
    """A capped copy that does not begin with what was shown live is told."""
    with pytest.raises(InputError, match="is not what is kept of it"):
        shown([(0, 3)], record(truncated=True), b"XYZ45678\n[tipstaff: the first 8 of 16 bytes are kept]\n")


def test_output_that_may_not_leave_is_told():
    """Where nothing is kept, by the run's disclosure, people are told so."""
    assert "by the run's disclosure" in shown([], record(kept=None), None)[1]
