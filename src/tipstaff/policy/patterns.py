"""Globs over names: `*` is any run of characters, `?` is one, and a backslash makes the next character plain.

There are no character classes, so that `[` means itself. Matching is case-sensitive and linear: each `*` is an
atomic group, because a policy's pattern meets strings that an adversary chose (CWE-1333).
`covers` says whether one pattern matches everything that another can match; it may say no where a proof would be
hard, never yes where it is false.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

STAR: Final = "\0"  # how a wildcard is spelled inside this module; no policy text can hold these characters
ONE: Final = "\1"
SPECIAL: Final = "*?\\"

Match = Callable[[str], bool]


def tokens(pattern: str) -> str:
    """Spell `pattern` with `STAR` and `ONE` for its wildcards, the rest plain; ValueError when it is wrong."""
    out, rest = [], iter(pattern)
    for character in rest:
        if character < " ":
            raise ValueError("a pattern holds no control characters")
        out.append(_plain(next(rest, "")) if character == "\\" else {"*": STAR, "?": ONE}.get(character, character))
    return "".join(out)


def _plain(character: str) -> str:
    if not character or character not in SPECIAL + ".":
        raise ValueError("a backslash stands only before `*`, `?`, `.` or another backslash")
    return character


def is_literal(pattern: str) -> bool:
    """Say whether `pattern` matches exactly one string."""
    return not any(character in tokens(pattern) for character in (STAR, ONE))


def escape(text: str) -> str:
    """Spell the pattern that matches `text`, and nothing else where a policy file can hold each of its characters."""
    if text == "...":
        return "\\..."
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if not character.isprintable():
        return "?"
    return "\\" + character if character in SPECIAL else character


@lru_cache(maxsize=4096)
def glob(pattern: str) -> Match:
    """Compile `pattern`; ValueError when it is wrong."""
    spelled = tokens(pattern)
    if spelled == STAR:
        return _anything
    if STAR not in spelled and ONE not in spelled:
        return lambda text: text == spelled
    search = re.compile(_expression(spelled), re.DOTALL).fullmatch
    return lambda text: search(text) is not None


def any_of(patterns: Iterable[str]) -> Match:
    """Compile `patterns` into one question: does one of them match? Plain names are looked up, not tried."""
    spelled = [tokens(pattern) for pattern in patterns]
    wild = [text for text in spelled if STAR in text or ONE in text]
    plain = frozenset(text for text in spelled if STAR not in text and ONE not in text)
    if STAR in wild:
        return _anything
    if not wild:
        return plain.__contains__
    compiled = lru_cache(maxsize=1)(lambda: _compiled(wild))  # most lists are never asked about, and some are long
    return lambda text: text in plain or compiled()(text) is not None


def _compiled(wild: list[str]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(f"(?:{_expression(text)})" for text in wild), re.DOTALL).fullmatch


def covers(wide: str, narrow: str) -> bool:
    """Say whether `wide` surely matches everything that `narrow` matches."""
    # A wildcard of `narrow` is swallowed whole by a `*` of `wide`, and by nothing else; so it can stand for itself.
    target = tokens(narrow)
    search = re.compile(_expression(tokens(wide), one=f"[^{STAR}]"), re.DOTALL)
    return search.fullmatch(target) is not None


def overlaps(one: str, other: str) -> bool:
    """Say whether some string is matched by both patterns."""
    left, right = tokens(one), tokens(other)
    # reachable[j]: the part of `left` read so far and the first j characters of `right` can match one string.
    reachable = [all(character == STAR for character in right[:count]) for count in range(len(right) + 1)]
    for character in left:
        row = [character == STAR and reachable[0]]
        for count, facing in enumerate(right, start=1):
            if STAR in (character, facing):
                row.append(reachable[count] or row[-1])
            else:
                row.append(reachable[count - 1] and (ONE in (character, facing) or character == facing))
        reachable = row
    return reachable[-1]


def _anything(_: str) -> bool:
    return True


def _expression(spelled: str, one: str = ".") -> str:
    """Spell the regular expression; every `*` but the last takes the shortest run that fits, and never retries."""
    first, *rest = [
        "".join(one if character == ONE else re.escape(character) for character in run) for run in spelled.split(STAR)
    ]
    if not rest:
        return first
    middle = "".join(f"(?>.*?{run})" for run in rest[:-1] if run)
    return f"{first}{middle}.*{rest[-1]}"
