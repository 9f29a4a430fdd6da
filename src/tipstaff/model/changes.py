"""What a run changed in its workspace, file by file, and how `file.changed` events carry it.

A change speaks of one name: what was there (`base`) and what is there after it. A rename is two changes, one of which
says where its content came from. Contents lie beside the events, one behind another in the order of those that are
`kept`; their digests are in the chain, so that what is applied later is what was signed for. Pure.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.model.noun import HEX_DIGITS, NO_CONTENT

Json = dict[str, Any]
Status = Literal["added", "changed", "deleted", "mode"]
STATUSES: Final = ("added", "changed", "deleted", "mode")
LINK: Final = 0o120000
FILE: Final = 0o100000
RIGHTS: Final = 0o777
_MOST_BYTES: Final = 2**53 - 1


class Side(NamedTuple):
    """A file or a link, before or after: its type and rights (as `st_mode`), the sha-256 of its content, its size."""

    mode: int
    digest: str
    size: int

    @property
    def is_link(self) -> bool:
        """Say whether it is a symbolic link, whose content is its target."""
        return self.mode & 0o170000 == LINK


class Change(NamedTuple):
    """One name that is not as it was."""

    name: bytes
    base: Side | None  # None: it was not there
    after: Side | None  # None: it is gone
    origin: bytes | None = None  # the deleted name that this content had before
    ignored: bool = False  # the base's .gitignore covers it: offered separately
    redacted: bool = False  # a secret was in it; `after` speaks of the masked content, which is never written anywhere
    withheld: str = ""  # why it never comes back: a sentence
    kept: bool = False  # its content lies with the run's artifacts

    @property
    def status(self) -> Status:
        """Say in a word what happened to the name."""
        if self.base is None:
            return "added"
        if self.after is None:
            return "deleted"
        same = (self.base.digest, self.base.is_link) == (self.after.digest, self.after.is_link)
        return "mode" if same else "changed"


def to_event(change: Change) -> Json:
    """Spell a change as the fields of its event."""
    said: Json = {
        **names.spelled(change.name),
        "contentHash": change.after.digest if change.after else NO_CONTENT,
        "status": change.status,
    }
    if change.after is not None:
        said |= {"mode": f"{change.after.mode:06o}", "bytes": change.after.size}
    if change.base is not None:
        said |= {"baseHash": change.base.digest, "baseMode": f"{change.base.mode:06o}", "baseBytes": change.base.size}
    if change.origin is not None:
        said |= names.spelled(change.origin, "from")
    said |= {name: True for name in ("ignored", "redacted", "kept") if getattr(change, name)}
    return said | ({"withheld": change.withheld} if change.withheld else {})


def from_event(said: Json) -> Change:
    """Read a change from its event; InputError where it cannot be one of ours (another writer's says less)."""
    digest = said.get("contentHash")
    after = None if digest == NO_CONTENT else _side(said, "contentHash", "mode", "bytes")
    base = _side(said, "baseHash", "baseMode", "baseBytes") if "baseHash" in said else None
    change = Change(
        name=names.read(said),
        base=base,
        after=after,
        origin=names.read(said, "from") if "from" in said else None,
        ignored=said.get("ignored") is True,
        redacted=said.get("redacted") is True,
        withheld=str(said.get("withheld", "")),
        kept=said.get("kept") is True,
    )
    if change.status != said.get("status"):
        raise InputError(f"the change of {names.shown(change.name)!r} contradicts itself: {said.get('status')!r}")
    return change


def from_events(events: Iterable[Json]) -> list[Change]:
    """Read the changes of a run from its events, in their order."""
    return [from_event(event) for event in events if event.get("type") == "file.changed"]


def _side(said: Json, digest: str, mode: str, size: str) -> Side:
    try:
        side = Side(int(said[mode], 8), said[digest], said[size])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the change of {said.get('path')!r} does not say what it changed") from error
    counted = type(side.size) is int and 0 <= side.size <= _MOST_BYTES
    if not (is_digest(side.digest) and counted and side.mode & ~RIGHTS in {FILE, LINK}):
        raise InputError(f"the change of {said.get('path')!r} speaks of something that is no file and no link")
    return side


def is_digest(text: object) -> bool:
    """Say whether this is 64 lowercase hex digits."""
    return type(text) is str and len(text) == HEX_DIGITS and not set(text) - set("0123456789abcdef")
