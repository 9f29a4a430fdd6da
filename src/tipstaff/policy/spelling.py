"""How a value is written into a policy file: as YAML on one line, or as JSON, in the manner of the file around it.

Quotes whatever any reader of YAML could take for something else (`no`, `1`, `*`, `a: b`, `#`), so that the file means
the same to every one. Characters that cannot be seen are written as escapes, as `strict_yaml` demands.
"""

import json
import re
from typing import Any, Final, NamedTuple

# Plain in block and flow, in YAML 1.1 and 1.2: a letter, a slash or an underscore (options may have dashes before it),
# then no indicator.
_PLAIN: Final = re.compile(r"-{0,2}[A-Za-z_/][A-Za-z0-9_./@+=-]*\Z")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ASTRAL: Final = 0x10000


class Spelling(NamedTuple):
    """The manner of one file."""

    json: bool  # every key and text in double quotes, commas between all
    tight: bool  # no blanks after `:` and `,`
    newline: str  # how its lines end

    def value(self, value: Any) -> str:
        """Write `value` on one line, in flow style."""
        if isinstance(value, dict):
            return "{" + self._comma.join(self.pair(key, item) for key, item in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + self._comma.join(self.value(item) for item in value) + "]"
        if isinstance(value, str):
            return self.text(value)
        return json.dumps(value)

    def pair(self, key: str, value: Any) -> str:
        """Write `key: value` on one line."""
        return f"{self.text(key)}:{'' if self.tight else ' '}{self.value(value)}"

    def text(self, text: str) -> str:
        """Write `text`, in quotes unless it is sure to be read as text without."""
        if not self.json and _PLAIN.match(text) and text.lower() not in _WORDS:
            return text
        return '"' + "".join(self._shown(char) for char in text) + '"'

    def _shown(self, char: str) -> str:
        if char in '"\\':
            return "\\" + char
        if char.isprintable():
            return char
        if ord(char) >= _ASTRAL and not self.json:
            return f"\\U{ord(char):08x}"
        return json.dumps(char)[1:-1]

    @property
    def _comma(self) -> str:
        return "," if self.tight else ", "


def spelling_of(text: str) -> Spelling:
    """Find the manner of the file `text`."""
    is_json = _is_json(text)
    tight = is_json and not re.search(r'"\s*:\s', text)
    return Spelling(json=is_json, tight=tight, newline="\r\n" if "\r\n" in text else "\n")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
