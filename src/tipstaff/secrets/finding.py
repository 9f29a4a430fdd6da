"""Finds forms in bytes, and says how much of a stream's end could still become one.

Two ways that find the same. `scan` looks through much at once: a compiled automaton finds where a form may begin (by
its first bytes), and the sorted list of forms says which do. `step` goes byte by byte with a state that is kept
between chunks, so that a stream in tiny pieces costs no more than the same stream in large ones. A state is the
longest end of the stream that is the beginning of a form and not all of it.
Knows neither streams nor what a form is a form of.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from tipstaff.secrets.forms import MIN_BYTES

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

HEAD_BYTES: Final = 6  # of a form are looked for first: fewer are met by chance, more make a table that no cache holds
START: Final = 0  # the state in which nothing is held back
FAR_BYTES: Final = 512  # to fall back by: shorter ends are tried one by one
MAX_STEPS: Final = 1 << 16  # remembered at a time: some megabytes, whatever a stream does


class Found(NamedTuple):
    """A form and the place where it was found."""

    start: int
    end: int
    form: bytes


class Finder:
    """Some forms, ready to be found."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        self._forms = sorted(set(forms))
        self.longest = max(map(len, self._forms))
        self._within = _within(self._forms)
        self._by_end: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for form in self._forms:
            self._by_end[form[-MIN_BYTES:]].append(form)
        self._heads: BytesAhoCorasick | None = None
        self.steps: dict[int, int] = {}  # those that end no form, by `state << 8 | byte`
        self._endings: dict[int, tuple[int, list[bytes]]] = {}  # those that do

    def standing(self, state: int) -> tuple[bytes, int]:
        """Say which form a state is the beginning of, and how many bytes of it."""
        place, depth = divmod(state, self.longest + 1)
        return self._forms[place], depth

    def step(self, state: int, byte: int) -> tuple[int, list[bytes]]:
        """Give the next state, and the forms that end with this byte."""
        key = state << 8 | byte
        if key in self._endings:
            return self._endings[key]
        if len(self.steps) + len(self._endings) >= MAX_STEPS:
            self.steps.clear()
            self._endings.clear()
        following, ended = self._after(state, byte)
        if ended:
            self._endings[key] = following, ended
        else:
            self.steps[key] = following
        return following, ended

    def _after(self, state: int, byte: int) -> tuple[int, list[bytes]]:
        place, depth = divmod(state, self.longest + 1)
        form = self._forms[place]
        if depth + 1 < len(form) and form[depth] == byte:  # it goes on: no copy, however long it is
            depth += 1
            last = form[max(0, depth - MIN_BYTES) : depth]
            return state + 1, [ended for ended in self._by_end.get(last, ()) if form.endswith(ended, 0, depth)]
        text = form[:depth] + bytes([byte])
        ended = [ended for ended in self._by_end.get(text[-MIN_BYTES:], ()) if text.endswith(ended)]
        return self._fallen(text), ended

    def _fallen(self, text: bytes) -> int:
        """Give the state after `text`, all of which came; only now its longest end that can go on has to be found."""
        if len(text) > FAR_BYTES and self._state(text) is None:
            return self.scan(text[1:])[1]
        # Each turn takes back a byte that some earlier step has added: over a stream, one turn for each byte.
        while (state := self._state(text)) is None:
            text = text[1:]
        return state

    def scan(self, data: bytes) -> tuple[list[Found], int]:
        """Find every form in `data`, in the order of their beginnings, and give the state at its end."""
        found: list[Found] = []
        state = None
        last = len(data) - self.longest
        for _, start, _ in self._automaton().find_matches_as_indexes(data, overlapping=True):
            text = data[start : start + self.longest]
            found += [Found(start, start + len(form), form) for form in self._beginning(text)]
            if state is None and start > last:
                state = self._state(text)
        tail = data[1 - HEAD_BYTES :]  # a beginning shorter than the automaton's
        while state is None:
            state = self._state(tail)
            tail = tail[1:]
        return found, state

    def _beginning(self, text: bytes) -> Iterable[bytes]:
        """List the forms that `text` begins with: they are the last one that sorts before it, or within that one."""
        place = bisect_right(self._forms, text) - 1
        while place >= 0:
            if text.startswith(self._forms[place]):
                yield self._forms[place]
            place = self._within[place]

    def _state(self, text: bytes) -> int | None:
        """Give the state in which just `text` is held back; None when it is not the beginning of a longer form."""
        if not text:
            return START
        place = bisect_left(self._forms, text)
        for form in self._forms[place : place + 2]:  # the first may be `text` itself
            if len(form) > len(text) and form.startswith(text):
                return place * (self.longest + 1) + len(text)
        return None

    def _automaton(self) -> "BytesAhoCorasick":
        """Make it when it is first needed: short outputs never do."""
        if self._heads is None:
            from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 - see above

            heads = sorted({form[:HEAD_BYTES] for form in self._forms})
            self._heads = BytesAhoCorasick(heads, implementation=Implementation.DFA)
        return self._heads


def _within(forms: list[bytes]) -> list[int]:
    """For each of the sorted forms the place of the longest other one that it begins with, or -1."""
    found: list[int] = []
    for place, form in enumerate(forms):
        candidate = place - 1
        while candidate >= 0 and not form.startswith(forms[candidate]):
            candidate = found[candidate]
        found.append(candidate)
    return found
