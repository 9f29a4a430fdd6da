"""Names that are never captured, by pattern: keys, certificates, files of secrets.

A pattern without `/` speaks of any part of a name, so that a folder which matches denies all beneath it; one with `/`
speaks of the whole name from the top, and of all beneath. `*` and `?` stand for anything but `/`, `**` for that too,
`**/` also for nothing at all, `[…]` for one of some letters. Upper and lower case are the same: a file system may think
so. Pure.
"""

import re
from collections.abc import Iterable
from typing import Final

from tipstaff.errors import UsageError

DEFAULT_PATTERNS: Final = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*")
_FLAGS: Final = re.IGNORECASE | re.DOTALL  # a name may hold newlines
_tokens = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)


class Denied:
    """What some patterns deny."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        cleaned = [_cleaned(pattern) for pattern in self.patterns]
        self._part = _joined(pattern for pattern in cleaned if "/" not in pattern)
        self._whole = _joined(pattern.removeprefix("/") for pattern in cleaned if "/" in pattern)
        self._known: dict[bytes, bool] = {}

    def matches(self, name: bytes) -> bool:
        """Say whether a name is denied, by itself or by a folder that it lies in."""
        parts = name.split(b"/")
        if any(self._denies(part) for part in parts):
            return True
        if self._whole is None:
            return False
        return any(self._whole.fullmatch(_text(b"/".join(parts[:count]))) for count in range(1, len(parts) + 1))

    def matches_in(self, folder: bytes, last: bytes) -> bool:
        """Say the same of a name in a folder that is known not to be denied: less to look at."""
        if self._part is not None and self._part.fullmatch(_text(last)):
            return True
        name = folder + b"/" + last if folder else last
        return self._whole is not None and self._whole.fullmatch(_text(name)) is not None

    def _denies(self, part: bytes) -> bool:
        """Judge one part of a name; folders come again with every file that is in them."""
        if self._part is None:
            return False
        known = self._known.get(part)
        if known is None:
            known = self._known[part] = self._part.fullmatch(_text(part)) is not None
        return known


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _cleaned(pattern: str) -> str:
    """Give a pattern without the slashes at its end, which say what is the case anyway; UsageError for none."""
    found = pattern.rstrip("/")
    parts = found.removeprefix("/").split("/")
    if not found or "\0" in found or not {"", ".", ".."}.isdisjoint(parts):
        raise UsageError(f"{pattern!r} denies nothing", hint="write the name of a file or a folder, for example: *.pem")
    return found


def _joined(patterns: Iterable[str]) -> re.Pattern[str] | None:
    spelled = [_checked(pattern) for pattern in patterns]
    return re.compile("|".join(spelled), _FLAGS) if spelled else None


def _checked(pattern: str) -> str:
    """Spell a pattern; UsageError where its `[…]` is none."""
    spelled = _spelled(pattern)
    try:
        re.compile(spelled, _FLAGS)
    except re.error as error:
        raise UsageError(f"{pattern!r} is no pattern: {error}", hint="for example: *.pem, or id_[a-z]*") from error
    return spelled


def _spelled(pattern: str) -> str:
    """Spell a pattern as a regular expression."""
    return "".join(_piece(token) for token in _tokens.findall(pattern))


def _piece(token: str) -> str:
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in wild:
        return wild[token]
    if len(token) == 1:
        return re.escape(token)
    inverted = token[1] in "!^"
    letters = token[2 if inverted else 1 : -1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    for doubled in ("&&", "||", "~~", "--"):  # words of sets that Python keeps for later
        letters = letters.replace(doubled, "".join("\\" + one for one in doubled))
    return f"[{'^/' if inverted else ''}{letters.replace('^', chr(92) + '^')}]"
