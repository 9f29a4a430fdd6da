r"""What a command prints, made harmless for a terminal: colours and movement pass, every other control is shown.

A terminal obeys whoever writes to it: a title can be set and read back as input, the clipboard filled, a question
answered as if it were typed (CVE-2003-0063, CVE-2022-45872 and more). So only complete sequences from a short list
pass; the escape character of any other is written out as `\x1b`, which leaves the rest as plain text. What could still
become one of the list is held back until it is whole, so that no split of the stream changes the result.
"""

import codecs
import re
from typing import Final

# Colours; cursor movement, saving and restoring; erasing within a line; back to the ordinary character set, which
# `tput sgr0` sends. Parameters are short numbers: behind a private mark (`?`, `>`, `=`) a letter means something else.
_PASSES: Final = (
    r"\[[0-9:;]{0,64}m",
    r"\[[0-9]{0,5}(?:;[0-9]{0,5})?[ABCDEFGHKadef`]",
    r"\[[su]",
    r"[78]",
    r"\(B",
)
_SEQUENCE: Final = re.compile("\x1b(?:" + "|".join(_PASSES) + ")")
_BEGINNING: Final = re.compile("\x1b(?:\\[(?:[0-9:;]{0,64})|\\()?\\Z")
# Of the control characters the bell, backspace, tab, line feed and return pass. C1 controls are as good as an escape.
_CONTROL: Final = "\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f"
_TOUCHED: Final = re.compile(f"({_SEQUENCE.pattern})|[{_CONTROL}]")


class Harmless:
    """The filter of one stream."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""

    def pass_on(self, chunk: bytes, *, last: bool = False) -> bytes:
        """Give what may reach the terminal; with `last`, also what was held back, as no sequence."""
        text = self._held + self._decode(chunk, last)
        self._held = ""
        if not last and (beginning := _BEGINNING.search(text)):
            self._held = text[beginning.start() :]
            text = text[: beginning.start()]
        return _TOUCHED.sub(_shown, text).encode()


def _shown(found: re.Match[str]) -> str:
    return found[0] if found[1] else f"\\x{ord(found[0]):02x}"
