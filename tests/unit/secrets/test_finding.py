"""Claims about finding forms."""

from hypothesis import example, given
from hypothesis import strategies as st

from tipstaff.secrets.finding import MAX_STEPS, START, Finder

ENDS = st.lists(st.text("ab", max_size=4).map(str.encode), min_size=1, max_size=4)
FEW = st.lists(  # several begin alike, and some begin with others
    st.tuples(st.text("ab", min_size=8, max_size=10).map(str.encode), ENDS), min_size=1, max_size=3
).map(lambda drawn: [beginning + end for beginning, ends in drawn for end in ends])
STREAM = st.text("ab", max_size=80).map(str.encode)


def walked(finder: Finder, data: bytes) -> tuple[list[tuple[int, int, bytes]], int]:
    """Go through `data` byte by byte, as `scan` does at once."""
    state, found = START, []
    for end, byte in enumerate(data, 1):
        state, ended = finder.step(state, byte)
        found += [(end - len(form), end, form) for form in ended]
    return found, state


def every(forms: list[bytes], data: bytes) -> list[tuple[int, int, bytes]]:
    """Find by trying every place."""
    return sorted(
        (start, start + len(form), form)
        for form in set(forms)
        if form in data
        for start in range(len(data))
        if data.startswith(form, start)
    )


@given(FEW, STREAM)
@example([b"abababab", b"ababababaa", b"ababababb"], b"ababababb")  # begins with one that is not its neighbour
def test_both_ways_find_everything(forms, data):
    """Byte by byte or at once, every form is found at every place, and the same end is held back."""
    finder = Finder(forms)
    found, state = finder.scan(data)
    steps, same = walked(finder, data)

    assert sorted(found) == sorted(steps) == every(forms, data)
    assert [place.start for place in found] == sorted(place.start for place in found)
    assert state == same


@given(FEW, STREAM)
def test_what_is_held_back_is_the_longest_beginning(forms, data):
    """Held back is the longest end of the data that is the beginning of a form and not all of it."""
    finder = Finder(forms)
    _, state = finder.scan(data)

    beginnings = {form[:size] for form in forms for size in range(len(form))}
    assert finder.standing(state)[1] == max(
        size for size in range(len(data) + 1) if data[len(data) - size :] in beginnings
    )


@given(st.integers(0, 900), st.integers(0, 900), st.sampled_from([b"", b"!", b"ab", b"0123456789", b"a" * 601]))
def test_a_long_form_that_breaks_off_is_no_exception(first, second, between):
    """Both ways agree also after falling back by hundreds of bytes, into the middle of the same form or another."""
    long = b"".join(b"%d, " % number for number in range(200))
    forms = [long, long[300:] + b"ab", long[:400] + b"0123456789", long[500:520], b"a" * 600 + b"b" * 9]
    data = long[:first] + between + long[300:][:second] + between
    finder = Finder(forms)
    found, state = finder.scan(data)
    steps, same = walked(finder, data)

    assert sorted(found) == sorted(steps) == every(forms, data)
    assert state == same


def test_what_is_remembered_is_bounded():
    """However a stream goes, no more steps are remembered than the bound says, and going on is right."""
    finder = Finder(bytes([first]) + b"-the rest" for first in range(256))
    for first in range(256):
        state, _ = finder.step(START, first)
        for second in range(256):
            finder.step(state, second)
            assert len(finder.steps) <= MAX_STEPS

    assert walked(finder, b"...!-the rest")[0] == [(3, 13, b"!-the rest")]
