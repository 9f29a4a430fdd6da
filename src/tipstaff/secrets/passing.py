"""Bytes on their way, with what was found in them taken out.

Keeps back the end of the stream that could still become a form, and nothing else. Who sees what is kept back learns
how much of a form was written: where that must not be told, `keep` says how much is kept instead. Forms that overlap
are one place, named for the one that begins first, and of several that do for the longest. Memory is bounded by the
longest form, not by the stream, nor by how often a form repeats in itself.
Does not say what stands for a place that was found: it tells who was found there, and is given that.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tipstaff.secrets.finding import START, Finder

SMALL_BYTES: Final = 256  # are gone through faster one by one than at once
PIECE_BYTES: Final = 256 << 10  # of a large chunk: what is found in it takes memory


class Stream(Protocol):
    """What `feed` and `end` give, put together, is the stream without what must not be in it."""

    def feed(self, chunk: bytes) -> bytes:
        """Take more, and give what is sure to be clean."""

    def end(self) -> bytes:
        """Give what was held back: nothing more will come."""


Keep = Callable[[bytes, int], int]  # a form, and how much of it stands at the end → how many bytes are kept back


def all_that_could_become_one(_form: bytes, depth: int) -> int:
    """Keep back what could still become a form."""
    return depth


class Untouched:
    """A stream in which nothing is looked for."""

    def feed(self, chunk: bytes) -> bytes:
        """Give it."""
        return chunk

    def end(self) -> bytes:
        """Nothing was held back."""
        return b""


class Place:
    """A part of the stream that forms cover without a gap: whose they are, and who is named for it."""

    __slots__ = ("end", "name", "names", "size", "start", "told")

    def __init__(self, start: int, end: int, names: frozenset[str]) -> None:
        self.start = start
        self.end = end
        self.names = names
        self.size = end - start  # of the form whose owner is named: of the first ones the longest
        self.name = min(names)
        self.told: frozenset[str] = frozenset()

    def join(self, other: "Place") -> None:
        """Cover what the other covers too."""
        if (other.start, -other.size, other.name) < (self.start, -self.size, self.name):
            self.size, self.name = other.size, other.name
        self.start = min(self.start, other.start)
        self.end = max(self.end, other.end)
        self.names |= other.names
        self.told |= other.told


class Redacted:
    """A stream in which forms are looked for."""

    def __init__(
        self,
        finder: Finder,
        owners: Mapping[bytes, frozenset[str]],
        told: Callable[[str], bytes],
        mask: bytes = b"",
        keep: Keep = all_that_could_become_one,
    ) -> None:
        self._keep = keep
        self._finder = finder
        self._owners = owners
        self._told = told
        self._mask = mask
        self._held = bytearray()
        self._state = START
        self._places: list[Place] = []  # apart from each other and in order; all end after what was given out

    def feed(self, chunk: bytes) -> bytes:
        """Take more, and give what is sure to be clean."""
        if len(chunk) > PIECE_BYTES:
            parts = range(0, len(chunk), PIECE_BYTES)
            return b"".join([self.feed(chunk[start : start + PIECE_BYTES]) for start in parts])
        if len(chunk) <= SMALL_BYTES:
            self._walk(chunk)
        elif not self._held and not self._places:
            return self._leap(chunk)
        else:
            self._scan(chunk)
            self._held += chunk
        return self._give(self._clean())

    def _clean(self) -> int:
        """Say how much of what is held may go."""
        return max(0, len(self._held) - self._keep(*self._finder.standing(self._state)))

    def end(self) -> bytes:
        """Give what was held back: nothing more will come."""
        self._state = START
        return self._give(len(self._held))

    def _leap(self, chunk: bytes) -> bytes:
        """Take a chunk that nothing is pending before; most go through as they are, without being copied."""
        self._scan(chunk)
        if not self._places and not self._keep(*self._finder.standing(self._state)):
            return chunk
        self._held += chunk
        return self._give(self._clean())

    def _walk(self, chunk: bytes) -> None:
        steps, state, end = self._finder.steps, self._state, len(self._held)
        for byte in chunk:
            end += 1
            known = steps.get(state << 8 | byte)
            if known is not None:
                state = known
                continue
            state, ended = self._finder.step(state, byte)
            for form in ended:
                self._cover(end - len(form), end, form)
        self._held += chunk
        self._state = state

    def _scan(self, chunk: bytes) -> None:
        form, depth = self._finder.standing(self._state)
        gone = form[: max(0, depth - len(self._held))]  # the beginning of a form that was not kept back
        known = gone + self._held
        found, self._state = self._finder.scan(bytes(known) + chunk)
        for start, end, ended in found:
            if end > len(known):  # else it was found when it came
                self._cover(start - len(gone), end - len(gone), ended)

    def _cover(self, start: int, end: int, form: bytes) -> None:
        """Add a place; it ends after all that earlier chunks had, and begins after all that this one had so far."""
        place = Place(max(0, start), end, self._owners[form])
        while self._places and self._places[-1].end > start:
            place.join(self._places.pop())
        self._places.append(place)

    def _give(self, clean: int) -> bytes:
        """Give everything before `clean`: no form that may still come begins there."""
        if not clean:
            return b""
        given: list[bytes | bytearray] = []
        done = closed = 0
        for place in self._places:
            if place.start >= clean:
                break
            given.append(self._held[done : place.start])
            done = min(place.end, clean)
            given.append(self._shown(place, done - place.start))
            if place.end > clean:
                place.start = clean  # it may grow yet
                break
            closed += 1
        given.append(self._held[done:clean])
        self._forget(clean, closed)
        return b"".join(given)

    def _shown(self, place: Place, size: int) -> bytes:
        """Give what stands for a place, once; tell of every owner, once."""
        first = not place.told
        markers = {name: self._told(name) for name in place.names - place.told}
        place.told = place.names
        return self._mask * size if self._mask else markers[place.name] if first else b""

    def _forget(self, clean: int, closed: int) -> None:
        del self._held[:clean], self._places[:closed]
        for place in self._places:
            place.start -= clean
            place.end -= clean
