"""Bodies are read to the letter, in whatever pieces they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.egress.bodies import LAST_CHUNK, body_of, chunk
from tipstaff.egress.heads import CHUNKED, UNTIL_CLOSE
from tipstaff.egress.refusal import RefusalError


def whole(body, data, size=1 << 20):
    return b"".join(body.feed(data[place : place + size]) for place in range(0, len(data), size))


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 50), st.binary(max_size=5))
def test_chunks_in_any_pieces_give_the_same(contents, size, after):
    """A chunked body gives its content and what came after it, wherever the stream is cut."""
    body = body_of(CHUNKED)
    data = b"".join(map(chunk, contents)) + LAST_CHUNK + after

    assert whole(body, data, size) == b"".join(contents)
    assert (body.done, body.rest, body.close()) == (True, after, True)


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(1, 10))
def test_a_counted_body_ends_where_it_says(data, length, size):
    """A body of known length takes so many bytes, and leaves the rest."""
    body = body_of(length)

    assert whole(body, data, size) == data[:length]
    assert (body.done, body.rest) == (len(data) >= length, data[length:])


def test_a_body_until_the_end_has_no_other_end():
    """A body without a length goes on until the connection ends."""
    body = body_of(UNTIL_CLOSE)

    assert (body.feed(b"abc"), body.done, body.close()) == (b"abc", False, True)


def test_a_short_body_must_not_end():
    """A counted or a chunked body that is not whole cannot end with its connection."""
    assert not body_of(1).close()
    assert not body_of(CHUNKED).close()


def test_trailing_headers_are_left_out():
    """Headers after the chunks are read, and are no content."""
    body = body_of(CHUNKED)

    assert whole(body, b"1\r\nx\r\n0\r\nA: b\r\n\r\n") == b"x"
    assert body.done


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"g\r\n",
        b"0x1\r\nx\r\n",
        b"+1\r\nx\r\n",
        b"-1\r\nx\r\n",
        b" 1\r\nx\r\n",
        b"1 \r\nx\r\n",
        b"1;ext\r\nx\r\n",
        b"1;\nx\r\n",
        b"1\nx\r\n",
        b"1\rx\r\n",
        b"1_0\r\n",
        b"1\r\nxy\r\n",
        b"1\r\nx\n",
        b"1\r\nx0\r\n\r\n",
        b"0" * 20,
        b"f" * 14 + b"\r\n",
        b"0\r\nA b\r\n\r\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\n\n",
        b"0\r\nA: b\r\r\n\r\n",
        b"0\r\nA: " + b"b" * 9000,
        b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_what_is_no_chunk_is_refused(data, size):
    """Signs, spaces, extensions, bare line ends, wrong lengths and endless lines are refused, in any pieces."""
    with pytest.raises(RefusalError):
        whole(body_of(CHUNKED), data, size)


@given(st.binary(max_size=80), st.integers(1, 80))
def test_any_bytes_are_chunks_or_refused(data, size):
    """Whatever comes, the verdict does not depend on the pieces."""
    outcomes = []
    for pieces in (size, 1 << 20):
        try:
            outcomes.append(whole(body_of(CHUNKED), data, pieces))
        except RefusalError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]
