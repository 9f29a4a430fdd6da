"""A change of a text as a unified diff, which `patch -p0` and `git apply -p0` take, and the lines that make it up.

Lines end where the file's own lines end, and a last line without an end is marked as such programs want it.
"""

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_END: Final = "\n\\ No newline at end of file\n"
ALIKE: Final = 0.5  # two lines that have this much in common are one line that was changed

Pairs = list[tuple[int | None, int | None]]


def unified(before: str, after: str, name: str) -> str:
    """Write the change from `before` to `after` of the file `name`."""
    label = _label(name)
    lines = difflib.unified_diff(_lines(before), _lines(after), label, label)
    return "".join(line if line.endswith("\n") else line + NO_END for line in lines)


def left_out(before: str, after: str) -> "Iterator[str]":
    """Give every text that results when one added, changed or removed line of the change is left out."""
    old, new = _lines(before), _lines(after)
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pairs = _paired(old[a:b], new[c:d]) if tag != "equal" else []
        for skipped in range(len(pairs)):
            chosen = [_chosen(pair, old[a:b], new[c:d], back=index == skipped) for index, pair in enumerate(pairs)]
            yield "".join([*new[:c], *chosen, *new[d:]])


def _chosen(pair: tuple[int | None, int | None], old: list[str], new: list[str], *, back: bool) -> str:
    was, now = pair
    if back:
        return old[was] if was is not None else ""
    return new[now] if now is not None else ""


def _paired(old: list[str], new: list[str]) -> Pairs:
    """Match lines that were changed with what they became, in order; the others were removed or added."""
    pairs: Pairs = []
    done = 0
    for was, line in enumerate(old):
        alike = [_likeness(line, other) for other in new[done:]]
        best = max(range(len(alike)), key=alike.__getitem__, default=None)
        if best is None or alike[best] < ALIKE:
            pairs.append((was, None))
            continue
        pairs += [(None, done + now) for now in range(best)]
        pairs.append((was, done + best))
        done += best + 1
    return pairs + [(None, now) for now in range(done, len(new))]


def _likeness(line: str, other: str) -> float:
    """Say how much two lines have in common; all, if they have the same key."""
    key, colon, _ = line.partition(":")
    if colon and other.startswith(key + colon):
        return 1
    return difflib.SequenceMatcher(None, line, other).ratio()


def _lines(text: str) -> list[str]:
    """Cut at line feeds only: to a patch nothing else ends a line."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _label(name: str) -> str:
    """Spell a file's name as patch programs read it: in quotes when it has blanks or anything odd."""
    if name.isascii() and name.isprintable() and not any(char in name for char in ' "\\'):
        return name
    encoded = name.encode("utf-8", "surrogateescape")
    return '"' + "".join(_octet(byte) for byte in encoded) + '"'


def _octet(byte: int) -> str:
    plain = chr(byte).isprintable() and chr(byte).isascii() and chr(byte) not in '"\\'
    return chr(byte) if plain else f"\\{byte:03o}"
