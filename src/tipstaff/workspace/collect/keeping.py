"""The contents of a change, read once each, in the order of names: for the change set, the diff and the blob of them.

Nothing in a `.git` is kept, nor anything with a secret in it, nor what is neither a file nor a link: such a change says
why it is withheld. A name with a secret in it is told by another. Does not decide whether there is too much to read.
"""

import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tipstaff.model import names
from tipstaff.model.blobs import BlobStore, BlobWriter
from tipstaff.model.changes import FILE, LINK, RIGHTS, Change, Side
from tipstaff.workspace import internals
from tipstaff.workspace.collect.comparing import DEEPEST, Found
from tipstaff.workspace.collect.difference import Difference, Shown
from tipstaff.workspace.collect.gathering import MOST_NAMED, Bounds, Gathering
from tipstaff.workspace.collect.sides import NOTHING, Content, Mask, Sides, kind_of

Json = dict[str, Any]
Write = Callable[[BlobWriter, int, float], str]
_FED: Final = 4  # times the bytes of a diff are given to git at most
_CONFIGURATION_BYTES: Final = 1 << 20
_DEEP: Final = f"it holds names that are too long, or more than {DEEPEST} folders deep, and cannot be brought back"


class Terms(NamedTuple):
    """On what terms contents are read."""

    bounds: Bounds
    mask: Mask
    blobs: BlobStore | None  # None: no content may leave


class Keeping:
    """The second half of a collection: the contents."""

    def __init__(self, base: Path, left: Path, terms: Terms, difference: Difference) -> None:
        self._terms = terms
        held = terms.bounds.file_in_diff_bytes
        self._base = Sides(base, held, terms.mask, ours=False)
        self._now = Sides(left, held, terms.mask, ours=True)
        self._difference = difference
        self._writers: list[BlobWriter] = []
        self._contents: BlobWriter | None = None
        self._large: list[bytes] = []
        self._taken: set[bytes] = set()
        self._numbered = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        for writer in self._writers:
            writer.discard()
        self._base.close()
        self._now.close()

    def changes(self, found: Sequence[Found], ignored: Sequence[Found]) -> list[Change]:
        """Read them all; gives the changes by name."""
        offered = {one.name for one in ignored}
        every = _in_order((*found, *ignored))
        self._taken = {one.name for one in every}
        changes = [self._change(one, ignored=one.name in offered) for one in every]
        return sorted(changes, key=lambda change: change.name)

    def unread(self, found: Sequence[Found]) -> list[Change]:
        """Name changes whose contents nobody reads."""
        every = _in_order(found)
        self._taken = {one.name for one in every}
        return sorted((self._unread(one) for one in every), key=lambda change: change.name)

    def contents(self) -> str | None:
        """Finish the blob of contents; gives its digest, or None when nothing was kept."""
        return self._contents.finish() if self._contents is not None else None

    def diff(self) -> tuple[str | None, str]:
        """Make the diff of what was read; gives its digest, or None, and what went wrong."""
        if self._terms.blobs is None:
            return None, ""
        bounds = self._terms.bounds
        digest, problem = self._written(self._terms.blobs, self._difference.write, bounds.diff_seconds)
        if not problem or not self._difference.larger:
            return digest, problem
        # One file that git cannot compare in time must not hide what was done to the others.
        digest, again = self._written(self._terms.blobs, self._difference.write_small, bounds.diff_seconds / 4)
        self._large += self._difference.larger
        return digest, again or f"{problem}: only what is small is in it"

    def _written(self, blobs: BlobStore, write: Write, seconds: float) -> tuple[str | None, str]:
        writer = _Counted(self._writer(blobs))
        problem = write(writer, self._terms.bounds.diff_bytes, seconds)
        return (None, problem) if problem or not writer.written else (writer.finish(), "")

    def named(self, gathering: Gathering) -> Json:
        """List names that need a person's eye, as records spell them."""
        listed = {"setuid": gathering.privileged, "edited": gathering.edited, "large": self._large}
        return {
            key: [names.spelled(self._masked_name(name)) for name in sorted(found)[:MOST_NAMED]]
            for key, found in listed.items()
            if found
        }

    def _change(self, found: Found, *, ignored: bool) -> Change:
        base, now = self._both(found)
        change = Change(
            name=found.name,
            base=base.side if base else None,
            after=now.side if now else None,
            ignored=ignored,
            redacted=any(side is not None and side.redacted for side in (base, now)),
            withheld=self._withheld(found, base, now),
        )
        if self._hides_a_secret(found.name):
            return self._nameless(change)
        if change.withheld or self._terms.blobs is None:
            return change
        if not ignored:
            self._show(change, base, now)
        return self._kept(change, now, self._terms.blobs)

    def _both(self, found: Found) -> tuple[Content | None, Content | None]:
        now = self._now.read(found.name, found.now) if found.now is not None else None
        if found.base is None:
            return None, now
        if found.same and now is not None and stat.S_ISREG(found.base.st_mode):
            return now._replace(side=now.side._replace(mode=FILE | (found.base.st_mode & RIGHTS))), now
        return self._base.read(found.name, found.base), now

    def _withheld(self, found: Found, base: Content | None, now: Content | None) -> str:
        """Say why a change is never brought back; empty when it can be."""
        if found.internal:
            return self._masked(internals.PREFIX + self._planted(found))
        for side, content, verb in ((found.now, now, "is"), (found.base, base, "was")):
            if side is not None and stat.S_ISDIR(side.st_mode):
                return _DEEP
            if side is not None and content is not None and content.trouble:
                ordinary = stat.S_ISREG(side.st_mode) or stat.S_ISLNK(side.st_mode)
                return content.trouble if ordinary else f"it {verb} {kind_of(side)}, which is never brought back"
        return ""

    def _planted(self, found: Found) -> str:
        """Say what something in a `.git` would do."""
        if found.now is None:
            return "it was removed"
        if stat.S_ISLNK(found.now.st_mode):
            return "it is a link, which leads git elsewhere"
        if not stat.S_ISREG(found.now.st_mode):
            return _DEEP if stat.S_ISDIR(found.now.st_mode) else f"it is {kind_of(found.now)}"
        return internals.reason(found.name) or self._configured(found.name, found.now.st_size)

    def _configured(self, name: bytes, size: int) -> str:
        if size > _CONFIGURATION_BYTES:
            return "git's configuration was changed, and is too large to be looked at"
        base, now = (side.beginning(name, _CONFIGURATION_BYTES) for side in (self._base, self._now))
        # Masked as it lies there: a key is told in lower case and cut, where no mask would know a secret in it.
        return internals.told(internals.new_keys(self._unsecret(base), self._unsecret(now)))

    def _kept(self, change: Change, now: Content | None, blobs: BlobStore) -> Change:
        """Put the new content with the others, unless a secret is in it."""
        if now is None or change.redacted:
            return change
        if self._contents is None:
            self._contents = self._writer(blobs)
        for part in [now.data] if now.data is not None else self._now.parts(change.name, now.side):
            self._contents.write(part)
        return change._replace(kept=True)

    def _show(self, change: Change, base: Content | None, now: Content | None) -> None:
        """Add a change to the diff, unless it is too large."""
        sides = [side for side in (base, now) if side is not None]
        room = self._difference.fed_bytes <= _FED * self._terms.bounds.diff_bytes
        if not room or any(side.data is None for side in sides):
            self._large.append(change.name)
            return
        self._difference.add(change.name, _shown(base), _shown(now))

    def _unread(self, found: Found) -> Change:
        base, now = (Side(_type(side.st_mode), NOTHING, 0) if side else None for side in (found.base, found.now))
        change = Change(found.name, base, now, withheld="the run changed more than is brought back")
        return self._nameless(change) if self._hides_a_secret(found.name) else change

    def _writer(self, blobs: BlobStore) -> BlobWriter:
        self._writers.append(blobs.writer())
        return self._writers[-1]

    def _hides_a_secret(self, name: bytes) -> bool:
        return self._unsecret(name) != name

    def _nameless(self, change: Change) -> Change:
        """Speak of a change whose name has a secret in it: by another name, and of nothing else."""
        masked = name = self._masked_name(change.name)
        base, now = (Side(FILE, NOTHING, 0) if side else None for side in (change.base, change.after))
        while name in self._taken:
            self._numbered += 1
            name = b"%s~%d" % (masked, self._numbered)
        self._taken.add(name)
        return Change(name, base, now, redacted=True, withheld="a secret is in its name")

    def _masked_name(self, name: bytes) -> bytes:
        masked = self._unsecret(name)
        return b"[REDACTED]" if names.fault(masked + b"~00000") else masked

    def _masked(self, sentence: str) -> str:
        return self._unsecret(sentence.encode()).decode("utf-8", "replace")

    def _unsecret(self, content: bytes) -> bytes:
        return content if self._terms.mask is None else self._terms.mask(content)


class _Counted:
    """A writer that knows whether anything was written."""

    def __init__(self, writer: BlobWriter) -> None:
        self._writer = writer
        self.written = 0

    def write(self, chunk: bytes) -> None:
        self._writer.write(chunk)
        self.written += len(chunk)

    def finish(self) -> str:
        return self._writer.finish()

    def discard(self) -> None:
        self._writer.discard()


def _in_order(found: Iterable[Found]) -> list[Found]:
    """Put in the order of names; a name that was a file and is now a folder too deep is told once."""
    by_name: dict[bytes, Found] = {}
    for one in found:
        other = by_name.get(one.name)
        merged = one if other is None else one._replace(base=other.base or one.base, now=one.now or other.now)
        by_name[one.name] = merged
    return [by_name[name] for name in sorted(by_name)]


def _shown(content: Content | None) -> Shown | None:
    return Shown(content.side, content.data) if content is not None and content.data is not None else None


def _type(mode: int) -> int:
    return LINK | RIGHTS if stat.S_ISLNK(mode) else FILE | (mode & RIGHTS if stat.S_ISREG(mode) else 0)
