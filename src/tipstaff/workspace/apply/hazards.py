"""What the host would execute, or obey, later: looked for in a change before it is brought.

Nobody runs these files on purpose; an editor, a shell, git, a package manager, a build server or an agent does. Each is
named with what would happen. A name counts in any case of letters, also as a link that stands for a folder of such
files; a deletion is no hazard. Finds names and rights; it does not judge what is written in the files.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tipstaff.errors import TipstaffError
from tipstaff.model import names
from tipstaff.model.changes import Change
from tipstaff.workspace.apply.choosing import is_link_for_git
from tipstaff.workspace.apply.contents import Content
from tipstaff.workspace.apply.hazard_names import COMMAND_FOLDERS, COMMANDS, HAZARDS

EXECUTE: Final = 0o111
SCRIPTS: Final = frozenset(
    {"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare", "dependencies"}
)
MOST_JSON_BYTES: Final = 4 << 20


class Hazard(NamedTuple):
    """A name, what kind of thing reads it, and why that matters."""

    name: bytes
    kind: str
    why: str


def find(changes: Iterable[Change], content: Content | None = None, setuid: Sequence[bytes] = ()) -> list[Hazard]:
    """Find the hazards among changes; `setuid` are names that had the bit inside."""
    found = [hazard for change in changes if change.after is not None for hazard in _of(change, content)]
    return found + [Hazard(name, "setuid", "it would run as its owner; the bit is not brought") for name in setuid]


def _of(change: Change, content: Content | None) -> Iterator[Hazard]:
    path = names.shown(change.name).casefold()
    for kind, why, pattern, as_link in _PATTERNS:
        if pattern.fullmatch(path) or (_is_link(change) and as_link.fullmatch(path)):
            yield Hazard(change.name, kind, why)
    if path.rpartition("/")[2] == "package.json":
        yield from _package(change, content)
    yield from _program(change, path)
    if is_link_for_git(change):
        yield Hazard(change.name, "git", "git reads no link of this name, and may refuse to check it out")
    if _is_link(change):
        yield from _link(change, content)


def _is_link(change: Change) -> bool:
    return change.after is not None and change.after.is_link


def _program(change: Change, path: str) -> Iterator[Hazard]:
    """Name a program that stands where a shell may look for another, and a file that becomes one."""
    folders, _, last = path.rpartition("/")
    can_run = change.after is not None and (change.after.is_link or change.after.mode & EXECUTE)
    if not can_run:
        return
    if last in _COMMANDS:
        yield Hazard(change.name, "program", f"a shell may run it instead of the usual {last}")
    elif folders.rpartition("/")[2] in COMMAND_FOLDERS:
        yield Hazard(change.name, "program", "it lies where shells and tools look for programs")
    elif change.base is not None and not change.base.mode & EXECUTE:
        yield Hazard(change.name, "program", "a file that was there becomes executable")


def _link(change: Change, content: Content | None) -> Iterator[Hazard]:
    """Name a link that leads out of the folder, or whose goal is not known."""
    goal = _read(change, content)
    if goal is None:
        yield Hazard(change.name, "link", "it is not known where it leads")
    elif goal.startswith(b"/"):
        yield Hazard(change.name, "link", f"it leads to {names.shown(goal)[:200]}, outside the folder")
    elif _leads_out(change.name, goal):
        yield Hazard(change.name, "link", f"it leads out of the folder, by {names.shown(goal)[:200]}")


def _leads_out(name: bytes, goal: bytes) -> bool:
    depth = name.count(b"/")
    for part in goal.split(b"/"):
        depth += -1 if part == b".." else 1 if part not in {b"", b"."} else 0
        if depth < 0:
            return True
    return False


def _package(change: Change, content: Content | None) -> Iterator[Hazard]:
    """Say which keys of a package.json run something."""
    data = _read(change, content)
    try:
        document = json.loads(data) if data is not None and len(data) <= MOST_JSON_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        yield Hazard(change.name, "package", "it cannot be read as JSON, so what it would run is not known")
        return
    scripts = document.get("scripts")
    running = sorted(SCRIPTS & scripts.keys()) if isinstance(scripts, dict) else []
    if running:
        yield Hazard(change.name, "package", f"installing the package runs its scripts: {', '.join(running)}")
    if "bin" in document:
        yield Hazard(change.name, "package", "installing the package puts programs where shells find them: bin")


def _read(change: Change, content: Content | None) -> bytes | None:
    if content is None:
        return None
    try:
        return bytes(content(change.name))
    except TipstaffError:
        return None


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile names: `a` anywhere, `a/` a folder and all in it, `*` within a part; and the folders above, for links."""
    whole, above = [], []
    for pattern in patterns:
        parts = [re.escape(part).replace(r"\*", "[^/]*") for part in pattern.rstrip("/").split("/")]
        whole.append("/".join(parts) + ("(?:/.*)?" if pattern.endswith("/") else ""))
        above += ["/".join(parts[:count]) for count in range(1, len(parts))]
    return _anywhere(whole), _anywhere(above)


def _anywhere(expressions: list[str]) -> re.Pattern[str]:
    return re.compile(f"(?:.*/)?(?:{'|'.join(expressions) or '(?!)'})", re.DOTALL)


_PATTERNS: Final = [(one.kind, one.why, *_compiled(one.patterns.split())) for one in HAZARDS]
_COMMANDS: Final = frozenset(COMMANDS.split())
