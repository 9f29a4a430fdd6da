"""What a terminal gets to see of a command's output."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.cli.run.harmless import Harmless

PIECES = [
    b"\x1b", b"[", b"]", b"m", b"0", b";", b"?", b">", b"31", b"1049h", b"P", b"_", b"^", b"X", b"\\", b"\x07", b"\x9b",
    b"\xc2\x9b", b"\xc2", b"\x90", b"6n", b"c", b"K", b"J", b"H", b"A", b"(B", b"(0", b"7", b"text", b"\xff", b"\x05",
    b"\xc3\xa9", b"\x00", b"\x0e", b"\x7f", b"\n", b"\r", b"\t", b"\b", b"\x18", b":", b"99999", b" ", b"s", b"u", b"$",
]  # fmt: skip
OUTPUT = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=30).map(b"".join)
# Written by hand from the standard (ECMA-48), not from the filter: what may follow an escape character at all.
SAFE = re.compile(r"\x1b(\[[0-9:;]*m|\[[0-9;]*[A-HKadef`]|\[[su]|[78]|\(B)")


def shown(*chunks: bytes) -> bytes:
    """Pass chunks through one filter, to their end."""
    harmless = Harmless()
    return b"".join(map(harmless.pass_on, chunks)) + harmless.pass_on(b"", last=True)


@pytest.mark.parametrize(
    "output",
    [
        b"plain text\n",
        "naïve 日本語 🙂 שלום\n".encode(),
        b"\x1b[31mred\x1b[0m \x1b[1;38;2;255;128;0mmore\x1b[m \x1b[4:3mcurly",
        b"50%\r\x1b[K100%\n\x1b[1A\x1b[2K\x1b[10;20H\x1b[s\x1b[u\x1b7\x1b8\x1b[5G",
        b"\tbell \x07 back\b\x1b(B",
    ],
)
def test_colours_and_movement_pass(output):
    """Text in any script, colours, cursor movement and erasing within a line reach the terminal untouched."""
    assert shown(output) == output


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"\x1b]0;title\x07", b"\\x1b]0;title\x07"),
        (b"\x1b]52;c;ZXZpbA==\x1b\\", b"\\x1b]52;c;ZXZpbA==\\x1b\\"),
        (b"\x1bP$q\x1b\\", b"\\x1bP$q\\x1b\\"),
        (b"\x1b_app\x1b\\", b"\\x1b_app\\x1b\\"),
        (b"\x1b^pm\x1b\\", b"\\x1b^pm\\x1b\\"),
        (b"\x1bXsos\x1b\\", b"\\x1bXsos\\x1b\\"),
        (b"\x1b[6n", b"\\x1b[6n"),
        (b"\x1b[c", b"\\x1b[c"),
        (b"\x1b[21t", b"\\x1b[21t"),
        (b"\x1b[?1049h", b"\\x1b[?1049h"),
        (b"\x1b[>4;1m", b"\\x1b[>4;1m"),
        (b"\x1b[?u", b"\\x1b[?u"),
        (b"\x1b[3J", b"\\x1b[3J"),
        (b"\x1b[1$r", b"\\x1b[1$r"),
        (b"\x1bc", b"\\x1bc"),
        (b"\x1b(0", b"\\x1b(0"),
        (b"\xc2\x9b31m", b"\\x9b31m"),
        (b"\x9b31m", "\ufffd31m".encode()),
        (b"\x05\x0e\x00\x7f", b"\\x05\\x0e\\x00\\x7f"),
        (b"\x1b[" + b"1" * 99 + b"m", b"\\x1b[" + b"1" * 99 + b"m"),
        (b"end\x1b[3", b"end\\x1b[3"),
        (b"end\x1b", b"end\\x1b"),
        (b"half \xe6\x97", "half \ufffd".encode()),
        (b"\x1b\x1b[31m", b"\\x1b\x1b[31m"),
    ],
)
def test_every_other_control_is_shown(output, expected):
    """Titles, clipboards, queries, modes, strings, C1 and unfinished sequences are written out, not obeyed."""
    assert shown(output) == expected
    assert shown(*(output[at : at + 1] for at in range(len(output)))) == expected


@given(OUTPUT, st.data())
def test_no_split_changes_the_result(output, data):
    """However the stream is cut, the terminal gets the same."""
    cut = data.draw(st.integers(0, len(output)))
    again = data.draw(st.integers(cut, len(output)))

    assert shown(output[:cut], output[cut:again], output[again:]) == shown(output)


@given(OUTPUT, OUTPUT)
def test_nothing_but_the_short_list_gets_through(output, other):
    """What is left of any output holds no control but the harmless ones, also between two chunks."""
    harmless = Harmless()
    for passed in (harmless.pass_on(output), harmless.pass_on(other), harmless.pass_on(b"", last=True)):
        rest = SAFE.sub("", passed.decode())
        assert re.search(r"[\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f]", rest) is None


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])), max_size=5))
def test_text_is_never_changed(words):
    """Text without controls passes as it is, wherever it is cut."""
    assert shown(*(word.encode() for word in words)) == "".join(words).encode()
