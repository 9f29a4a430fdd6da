"""What reaches a terminal is safe to look at."""

import io
import json
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.cli.output import complain, emit_json, printable, say

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]))
HIDING = [*"\u202e\u2066\u200b\u200d\u2060\ufeff\u061c\u00ad\u2028\U000e0041\u3164"]


@pytest.mark.parametrize("char", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x9b", "\t", "\r", "\n", "\udcff", *HIDING])
def test_what_moves_hides_or_reverses_is_escaped(char):
    """Controls, direction marks, zero-width characters and lone surrogates are shown as escapes."""
    assert printable(f"a{char}b") == f"a{char.encode('unicode_escape').decode()}b"


@pytest.mark.parametrize("text", ["", "plain", "naïve café", "日本語　文", "שלום", "🙂", "❤️", "a\\b", "…"])
def test_ordinary_text_is_kept(text):
    """Text in any script stays as it is."""
    assert printable(text) == text


@pytest.mark.parametrize(("newlines", "expected"), [(False, "a\\nb\\r"), (True, "a\nb\\r")])
def test_line_feeds_are_kept_only_when_asked_for(newlines, expected):
    """A line feed inside a text is an escape unless the caller says that the text has lines."""
    assert printable("a\nb\r", newlines=newlines) == expected


@given(ANY_TEXT)
def test_nothing_harmful_is_left_of_any_text(text):
    """Whatever goes in, no control, format or surrogate character comes out, and once escaped stays the same."""
    shown = printable(text)

    assert {unicodedata.category(char) for char in shown}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert printable(shown) == shown


@given(ANY_TEXT)
def test_json_is_plain_ascii_and_loses_nothing(text):
    """JSON is one printable ASCII line that reads back as the value it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout := io.StringIO())
        emit_json({"text": text})
    line = stdout.getvalue()

    assert line.endswith("\n")
    assert line[:-1].isascii()
    assert line[:-1].isprintable()
    # UTF-16 joins surrogate pairs: two escapes may stand for one character.
    assert json.loads(line)["text"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    ("encoding", "expected"), [("utf-8", "é…\n"), ("latin-1", "é\\u2026\n"), ("ascii", "\\xe9\\u2026\n")]
)
def test_a_terminal_that_cannot_show_a_character_gets_an_escape(monkeypatch, encoding, expected):
    """Text that the stream's encoding lacks is escaped, never an error."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, write_through=True))

    say("é…")

    assert raw.getvalue().decode(encoding) == expected


def test_people_are_told_on_stderr(capsys):
    """Complaints go to stderr and leave stdout, the result, alone."""
    complain("a\nb")

    assert capsys.readouterr() == ("", "a\\nb\n")


class Trickle(io.RawIOBase):
    """A stream that takes at most ten bytes at a time, as an unbuffered one may."""

    def __init__(self):
        self.taken = bytearray()

    def writable(self):
        """Say that it can be written."""
        return True

    def write(self, data, /):
        """Take a few bytes."""
        self.taken += bytes(data)[:10]
        return min(len(data), 10)


def test_nothing_is_lost_in_an_unbuffered_stream(monkeypatch):
    """With PYTHONUNBUFFERED a write may take less than it was given: the rest is written too."""
    raw: Any = Trickle()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8", write_through=True))

    say("é" * 100)

    assert raw.taken.decode() == "é" * 100 + "\n"
