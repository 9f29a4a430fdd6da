"""The path of a request, in the one spelling that patterns are matched against. Pure.

Where servers disagree about what a path means, it is refused and not guessed: dot segments, empty segments, encoded
slashes and backslashes, percent signs encoded twice, parameters on a dot segment (`/..;/`), characters that
become one of these when a server folds them. The query is no part of it. What is sent on is what was asked.
"""

import re
import unicodedata
from typing import Final
from urllib.parse import unquote_to_bytes

_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TWICE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_FOLDED: Final = frozenset("/\\.%;?#")


def normal_path(target: str) -> str:
    """Decode the path of `target`; ValueError says why it has no one meaning."""
    path = target.partition("?")[0]
    if not path.startswith("/"):
        raise ValueError("a path starts with `/`")
    if "\\" in path or _ESCAPE.search(path):
        raise ValueError("it holds a backslash or a percent sign that escapes nothing")
    if re.search(r"%(2f|5c)", path, re.IGNORECASE):
        raise ValueError("it holds an encoded slash or backslash")
    try:
        plain = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    _check(plain)
    return plain


def _check(plain: str) -> None:
    if not plain.isprintable() or _TWICE.search(plain):
        raise ValueError("it holds control characters or is encoded twice")
    segments = plain.split("/")[1:]
    if any(segment.partition(";")[0] in {".", ".."} for segment in segments):
        raise ValueError("it holds `.` or `..`")
    if "" in segments[:-1]:
        raise ValueError("it holds `//`")
    if not plain.isascii() and any(
        _FOLDED & set(unicodedata.normalize("NFKC", letter)) for letter in plain if letter > "\x7f"
    ):
        raise ValueError("it holds characters that some servers take for others")
