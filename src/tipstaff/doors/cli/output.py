"""What the command line prints, made safe to look at.

Text can come from an agent, a bundle or a file name, so nothing reaches a terminal that moves the cursor, reverses
the direction of reading or hides: such characters are shown as escapes (CVE-2021-42574, "Trojan Source"). JSON is
pure ASCII for the same reason. Writes fail loudly: a full disk or a closed stdout is an `OSError`, never silence.
"""

import io
import sys

# What `str.isprintable` allows although it draws nothing: fillers, joiners and the selectors used to smuggle text.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | frozenset(
    map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0)])
)
_WIDE_SPACE = "\u3000"  # ordinary in Chinese and Japanese, and it can be seen


def printable(text: str, *, newlines: bool = False) -> str:
    r"""Show what must not reach a terminal as escapes such as `\x1b`; line feeds are kept only when asked for."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char, newlines=newlines) for char in text)


def _shown(char: str, *, newlines: bool) -> str:
    if char == "\n" and newlines:
        return char
    if (char.isprintable() or char == _WIDE_SPACE) and char not in _INVISIBLE:
        return char
    return char.encode("unicode_escape").decode("ascii")


def say(text: str = "", *, newlines: bool = False) -> None:
    """Print `text` and a line feed on stdout, escaped; `newlines` keeps the line feeds inside it."""
    _write("stdout", printable(text, newlines=newlines) + "\n")


def complain(text: str) -> None:
    """Print one escaped line on stderr: for people, never the result."""
    _write("stderr", printable(text) + "\n")


def emit_json(value: object) -> None:
    """Print `value` as one line of ASCII JSON on stdout."""
    import json  # noqa: PLC0415 - only --json needs it

    # JSON leaves one control character as it is: DEL. It can stand only inside a string, so an escape means the same.
    _write("stdout", json.dumps(value, allow_nan=False).replace("\x7f", "\\u007f") + "\n")


def flush() -> None:
    """Push out what was printed, so that a full disk is noticed while it can still be told."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable("stdout", error) from error


def _write(name: str, text: str) -> None:
    stream = getattr(sys, name)
    if stream is None:  # Python's spelling of a descriptor that was closed before the start
        raise OSError(f"{name} is closed")
    encoding = stream.encoding or "utf-8"
    data = text.encode(encoding, "backslashreplace")
    try:
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):  # PYTHONUNBUFFERED: takes what fits, and no more
            _write_all(stream.buffer, data)
        else:
            stream.write(data.decode(encoding))
    except OSError as error:
        raise _unwritable(name, error) from error


def _write_all(raw: io.RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[raw.write(left) or 0 :]


def _unwritable(name: str, error: OSError) -> OSError:
    """Say which stream failed; a broken pipe stays one, because it ends the program quietly."""
    return error if isinstance(error, BrokenPipeError) else OSError(f"{name} cannot be written: {error.strerror}")
